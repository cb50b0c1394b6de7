//! Ports and port ranges as users write them (rules.md 1).

use std::{fmt, num::NonZeroU16};

use serde::{Serialize, Serializer};

/// A TCP port that something can listen on, 1..=65535.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Port(NonZeroU16);

/// An inclusive range of TCP ports, 0..=65535; a single port is a range of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortRange {
    low: u16,
    high: u16,
}

/// Why a text is not a port or a range of ports. Carries the offending text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PortError {
    /// Something other than ASCII digits, or too many of them.
    #[error("{0} is not a port (0..=65535) or a range such as 8000-8010")]
    NotAPort(Excerpt),
    /// `5-3`.
    #[error("{0} is a range that ends before it starts")]
    Reversed(Excerpt),
}

/// A piece of somebody's text, quoted, escaped and cut so that it can go into one line of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt(String);

// === impl Port ===

impl Port {
    /// A port from its number; `None` for 0.
    #[must_use]
    pub fn new(number: u16) -> Option<Self> {
        NonZeroU16::new(number).map(Self)
    }

    /// The number, 1..=65535.
    #[must_use]
    pub fn get(self) -> u16 {
        self.0.get()
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for Port {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u16(self.get())
    }
}

impl From<Port> for PortRange {
    fn from(port: Port) -> Self {
        Self::single(port.get())
    }
}

// === impl PortRange ===

impl PortRange {
    /// One port.
    #[must_use]
    pub fn single(port: u16) -> Self {
        Self {
            low: port,
            high: port,
        }
    }

    /// The ports from `low` to `high`, both included; `None` if `low` is greater than `high`.
    #[must_use]
    pub fn new(low: u16, high: u16) -> Option<Self> {
        (low <= high).then_some(Self { low, high })
    }

    /// The lowest port.
    #[must_use]
    pub fn low(self) -> u16 {
        self.low
    }

    /// The highest port.
    #[must_use]
    pub fn high(self) -> u16 {
        self.high
    }

    /// How many of the 15 slots of an xtables `multiport` match this takes: a range takes two.
    #[must_use]
    pub fn slots(self) -> usize {
        if self.low == self.high { 1 } else { 2 }
    }

    /// The same ports, sorted, ranges that touch or overlap made one.
    #[must_use]
    pub fn joined(ports: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let mut ports: Vec<Self> = ports.into_iter().collect();
        ports.sort_unstable();
        let mut joined: Vec<Self> = Vec::with_capacity(ports.len());
        for port in ports {
            match joined.last_mut() {
                Some(last) if u32::from(port.low) <= u32::from(last.high) + 1 => {
                    last.high = last.high.max(port.high);
                }
                _ => joined.push(port),
            }
        }
        joined
    }

    /// Whether `port` lies in the range.
    #[must_use]
    pub fn contains(self, port: u16) -> bool {
        (self.low..=self.high).contains(&port)
    }

    /// Reads `N` or `LOW-HIGH`; spaces and tabs around numbers are allowed, nothing else is.
    ///
    /// # Errors
    /// The text is neither, or the range is reversed.
    pub fn parse(text: &str) -> Result<Self, PortError> {
        let not_a_port = || PortError::NotAPort(Excerpt::new(text));
        let mut bounds = text.split('-').map(number);
        let low = bounds.next().flatten().ok_or_else(not_a_port)?;
        let high = match bounds.next() {
            Some(high) => high.ok_or_else(not_a_port)?,
            None => low,
        };
        if bounds.next().is_some() {
            return Err(not_a_port());
        }
        Self::new(low, high).ok_or_else(|| PortError::Reversed(Excerpt::new(text)))
    }

    /// Reads a comma-separated list; empty items are skipped, repeated ones dropped (the first
    /// appearance keeps its place).
    ///
    /// # Errors
    /// The first item that is neither a port nor a range.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, PortError> {
        let items = text
            .split(',')
            .filter(|item| !trim(item).is_empty())
            .map(Self::parse);
        Ok(unique(items.collect::<Result<Vec<_>, _>>()?))
    }
}

/// `80`, `8000-8010`: as in configurations and annotations.
impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.low == self.high {
            write!(f, "{}", self.low)
        } else {
            write!(f, "{}-{}", self.low, self.high)
        }
    }
}

impl Serialize for PortRange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

// === impl Excerpt ===

impl Excerpt {
    const MOST_CHARS: usize = 64;

    /// Quotes `text`, escapes control characters, and cuts it after 64 characters.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let mut chars = text.chars();
        let start: String = chars.by_ref().take(Self::MOST_CHARS).collect();
        let more = if chars.next().is_some() { "…" } else { "" };
        Self(format!("{start:?}{more}"))
    }
}

impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Drops repeated items; the first appearance keeps its place.
pub(crate) fn unique<T: Clone + Eq + std::hash::Hash>(items: Vec<T>) -> Vec<T> {
    let mut seen = std::collections::HashSet::new();
    items
        .into_iter()
        .filter(|item| seen.insert(item.clone()))
        .collect()
}

/// What is allowed around a number: the blanks of one line. A line break would be a second line
/// of somebody's, so it is not.
pub(crate) fn trim(text: &str) -> &str {
    text.trim_matches([' ', '\t'])
}

/// ASCII digits only: `str::parse` alone would take `+80`.
fn number(text: &str) -> Option<u16> {
    let digits = trim(text);
    digits
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| digits.parse().ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ports_and_ranges_are_read() {
        for (text, low, high) in [
            ("80", 80, 80),
            ("0", 0, 0),
            ("0-65535", 0, 65535),
            (" 8000 - 8010\t", 8000, 8010),
            ("7-7", 7, 7),
            ("0080", 80, 80),
        ] {
            assert_eq!(
                PortRange::parse(text),
                Ok(PortRange { low, high }),
                "{text}"
            );
        }
    }

    #[test]
    fn other_texts_are_refused_and_quoted() {
        for text in [
            "70000",
            "65536",
            "5-3",
            "abc",
            "80a",
            "-1",
            "1-",
            "-",
            "1-2-3",
            "",
            "+80",
            "８０",
            "٣",
            "80\n",
            "80\0",
            "80 90",
            "0x50",
            "1e3",
            "80:90",
            "99999999999999999999",
        ] {
            let error = PortRange::parse(text).unwrap_err().to_string();
            assert!(error.contains(&format!("{text:?}")), "{text:?}: {error}");
        }
    }

    #[test]
    fn lists_skip_empty_items_and_repeats() {
        let list = PortRange::parse_list(" 25, ,587 ,25,8000-8010,,").unwrap();
        let shown: Vec<String> = list.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["25", "587", "8000-8010"]);
        assert_eq!(PortRange::parse_list(""), Ok(vec![]));
        assert!(PortRange::parse_list("25,\n587").is_err());
    }

    #[test]
    fn an_excerpt_is_one_short_line() {
        let text = format!("{}\n", "x".repeat(1 << 20));
        assert_eq!(
            Excerpt::new(&text).to_string(),
            format!("\"{}\"…", "x".repeat(64))
        );
        assert_eq!(Excerpt::new("a\nb").to_string(), r#""a\nb""#);
    }

    proptest! {
        #[test]
        fn what_is_displayed_is_read_back(a: u16, b: u16) {
            let range = PortRange::new(a.min(b), a.max(b)).unwrap();
            prop_assert_eq!(PortRange::parse(&range.to_string()), Ok(range));
        }

        #[test]
        fn joined_ports_are_the_same_ports_apart_from_each_other(
            bounds in proptest::collection::vec((0u16..60, 0u16..9), 0..12),
        ) {
            let range = |(low, more): &(u16, u16)| PortRange { low: *low, high: low + more };
            let ports: Vec<PortRange> = bounds.iter().map(range).collect();
            let joined = PortRange::joined(ports.iter().copied());
            for port in 0..80 {
                let is_in = |ports: &[PortRange]| ports.iter().any(|range| range.contains(port));
                prop_assert_eq!(is_in(&ports), is_in(&joined), "{}", port);
            }
            for pair in joined.windows(2) {
                prop_assert!(pair[0].high + 1 < pair[1].low);
            }
        }

        #[test]
        fn no_text_makes_the_parser_panic(text: String) {
            let _ = PortRange::parse_list(&text);
        }
    }
}
