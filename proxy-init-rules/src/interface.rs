//! Names of network interfaces as users write them.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::port::{Excerpt, trim, unique};

/// The longest name, in bytes (the kernel's `IFNAMSIZ` less the byte that ends it).
const LONGEST: usize = 15;

/// What stands at the end of a name for all names that start so, as in iptables.
const ANY: char = '+';

/// A network interface by its name, or all whose names start alike (`net+`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Interface(String);

/// Why a text names no interface. Carries the offending text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InterfaceError {
    /// The kernel has no such names, or it would not come through unchanged.
    #[error(
        "{0} is not the name of a network interface such as net1 (up to 15 letters, digits, '.', \
         '_' and '-'), or the start of several such as net+"
    )]
    NotAName(Excerpt),
    /// `+`.
    #[error("{0} stands for every interface and would leave the whole pod alone; name them")]
    Every(Excerpt),
}

// === impl Interface ===

impl Interface {
    /// Reads one name; blanks around it are allowed. Of the names that the kernel takes
    /// (`dev_valid_name`) those are refused that no interface has and that could mean something
    /// else in a list, a rule or a shell.
    ///
    /// # Errors
    /// The text is no name, or stands for every interface.
    pub fn parse(text: &str) -> Result<Self, InterfaceError> {
        let name = trim(text);
        let start = name.strip_suffix(ANY).unwrap_or(name);
        if start.is_empty() && !name.is_empty() {
            return Err(InterfaceError::Every(Excerpt::new(text)));
        }
        let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let is_name = (1..=LONGEST).contains(&name.len())
            && start.bytes().all(is_fine)
            && !start.starts_with('-')
            && !matches!(name, "." | "..");
        is_name
            .then(|| Self(name.to_owned()))
            .ok_or_else(|| InterfaceError::NotAName(Excerpt::new(text)))
    }

    /// Reads a comma-separated list; empty items are skipped, repeated ones dropped.
    ///
    /// # Errors
    /// The first item that names no interface.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, InterfaceError> {
        let items = text
            .split(',')
            .filter(|item| !trim(item).is_empty())
            .map(Self::parse);
        Ok(unique(items.collect::<Result<Vec<_>, _>>()?))
    }

    /// The name, or what the names start with.
    #[must_use]
    pub fn start(&self) -> &str {
        self.0.strip_suffix(ANY).unwrap_or(&self.0)
    }

    /// Whether it stands for all names that start so.
    #[must_use]
    pub fn is_start(&self) -> bool {
        self.0.ends_with(ANY)
    }

    /// Whether it stands for the interface of this name.
    #[must_use]
    pub fn is_about(&self, name: &str) -> bool {
        if self.is_start() {
            name.starts_with(self.start())
        } else {
            name == self.0
        }
    }

    /// Whether it is the loopback interface and no other.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        self.0 == "lo"
    }
}

/// `net1`, `net+`: as in configurations, annotations and rules.
impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Interface {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_and_starts_of_names_are_read() {
        let shown = |text| {
            let list = Interface::parse_list(text).unwrap();
            list.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(
            shown(" net1, ,tun+ ,net1,ovn-k8s-mp0,eth0.100,cilium_host,"),
            ["net1", "tun+", "ovn-k8s-mp0", "eth0.100", "cilium_host"]
        );
        assert_eq!(shown("abcdefghijklmno,abcdefghijklmn+,.+,0"), {
            ["abcdefghijklmno", "abcdefghijklmn+", ".+", "0"]
        });
        assert_eq!(shown(""), [""; 0]);
    }

    #[test]
    fn other_texts_are_refused_and_quoted() {
        for text in [
            "",
            ".",
            "..",
            "abcdefghijklmnop",
            "abcdefghijklmno+",
            "eth0/1",
            "eth0:1",
            "eth0@if5",
            "net 1",
            "net1\n",
            "net1\0",
            "net*",
            "net++",
            "+net",
            "n+t",
            "!net1",
            "-j",
            "-t",
            "\"net1\"",
            "net1\\",
            "$(id)",
            "net1;id",
            "nét1",
            "net1 -j ACCEPT",
        ] {
            let error = Interface::parse(text).unwrap_err();
            assert!(matches!(error, InterfaceError::NotAName(_)), "{text:?}");
            assert!(error.to_string().starts_with(&format!("{text:?} is not")));
        }
    }

    #[test]
    fn not_every_interface_can_be_meant() {
        let error = Interface::parse_list("net1, + ").unwrap_err();
        assert_eq!(
            error.to_string(),
            r#"" + " stands for every interface and would leave the whole pod alone; name them"#
        );
    }

    #[test]
    fn a_start_is_about_every_name_that_starts_so() {
        for (text, name, expected) in [
            ("net1", "net1", true),
            ("net1", "net11", false),
            ("net+", "net11", true),
            ("net+", "net", true),
            ("net+", "ne", false),
            ("l+", "lo", true),
        ] {
            let interface = Interface::parse(text).unwrap();
            assert_eq!(interface.is_about(name), expected, "{text} {name}");
        }
    }

    proptest! {
        #[test]
        fn what_is_displayed_is_read_back(text in "[a-z0-9._][a-z0-9._-]{0,13}\\+?") {
            if let Ok(interface) = Interface::parse(&text) {
                prop_assert_eq!(Interface::parse(&interface.to_string()), Ok(interface));
            }
        }

        #[test]
        fn no_text_makes_the_parser_panic(text: String) {
            let _ = Interface::parse_list(&text);
        }
    }
}
