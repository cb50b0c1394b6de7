//! Finds where things are in a JSON text, without interpreting them.
//!
//! Foreign configurations are edited in place, so what matters is where a
//! value begins and ends. Numbers, escapes and the encoding of strings are
//! passed over byte by byte, which is why a text that floats or UTF-8 checks
//! would damage (`2^64`, a lone surrogate) survives. Nothing here recurses:
//! a file nested a million deep costs a byte a level, not a stack overflow.

use std::{fmt, ops::Range};

/// Where a text stops being JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    at: usize,
    expected: &'static str,
    line: usize,
    column: usize,
}

/// What a value is, by its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Object,
    Array,
    String,
    Number,
    /// `true`, `false` or `null`.
    Literal,
}

/// A value inside a text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Value<'a> {
    text: &'a [u8],
    start: usize,
    end: usize,
}

/// The members of an object, or the elements of an array, in order.
pub(crate) struct Children<'a> {
    text: &'a [u8],
    at: usize,
    keyed: bool,
}

// === impl Fault ===

impl Fault {
    fn new(text: &[u8], at: usize, expected: &'static str) -> Self {
        let before = &text[..at.min(text.len())];
        let line_start = before
            .iter()
            .rposition(|b| *b == b'\n')
            .map_or(0, |n| n + 1);
        Self {
            at,
            expected,
            line: before.iter().filter(|b| **b == b'\n').count() + 1,
            column: before.len() - line_start + 1,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            expected,
            line,
            column,
            ..
        } = self;
        write!(f, "expected {expected} at line {line} column {column}")
    }
}

impl std::error::Error for Fault {}

// === impl Value ===

impl<'a> Value<'a> {
    /// The one value that a text consists of; whitespace around it is allowed.
    pub(crate) fn document(text: &'a [u8]) -> Result<Self, Fault> {
        let start = space(text, 0);
        let end = value(text, start)?;
        match space(text, end) {
            rest if rest == text.len() => Ok(Self { text, start, end }),
            rest => Err(Fault::new(text, rest, "the end of the text")),
        }
    }

    pub(crate) fn kind(self) -> Kind {
        match self.text.get(self.start) {
            Some(b'{') => Kind::Object,
            Some(b'[') => Kind::Array,
            Some(b'"') => Kind::String,
            Some(b't' | b'f' | b'n') => Kind::Literal,
            _ => Kind::Number,
        }
    }

    pub(crate) fn raw(self) -> &'a [u8] {
        &self.text[self.start..self.end]
    }

    pub(crate) fn span(self) -> Range<usize> {
        self.start..self.end
    }

    /// The members of an object as (key, value); of an array (and of anything
    /// else) nothing.
    pub(crate) fn members(self) -> impl Iterator<Item = (Value<'a>, Value<'a>)> {
        self.children(Kind::Object)
            .filter_map(|(key, value)| key.map(|key| (key, value)))
    }

    /// The elements of an array; of anything else nothing.
    pub(crate) fn elements(self) -> impl Iterator<Item = Value<'a>> {
        self.children(Kind::Array).map(|(_, value)| value)
    }

    /// The member that counts. Of two with one key that is the last: libcni
    /// reads with Go's `encoding/json`, where the later one wins.
    pub(crate) fn get(self, key: &str) -> Option<Value<'a>> {
        self.members()
            .filter(|(k, _)| k.is(key))
            .last()
            .map(|(_, value)| value)
    }

    /// The string, its escapes resolved; `None` if it is not a string. What is
    /// no Unicode becomes U+FFFD, as libcni reads it.
    pub(crate) fn string(self) -> Option<String> {
        (self.kind() == Kind::String).then(|| decode(&self.text[self.start + 1..self.end - 1]))
    }

    pub(crate) fn is(self, text: &str) -> bool {
        self.string().is_some_and(|s| s == text)
    }

    fn children(self, kind: Kind) -> Children<'a> {
        let none = self.kind() != kind;
        Children {
            text: if none { &[] } else { &self.text[..self.end] },
            at: self.start + 1,
            keyed: kind == Kind::Object,
        }
    }
}

// === impl Children ===

impl<'a> Iterator for Children<'a> {
    type Item = (Option<Value<'a>>, Value<'a>);

    // The text was scanned whole before there was a `Value`, so that a fault
    // cannot come up here; if one did, the children would end.
    fn next(&mut self) -> Option<Self::Item> {
        let text = self.text;
        let mut at = space(text, self.at);
        if text.get(at) == Some(&b',') {
            at = space(text, at + 1);
        }
        if matches!(text.get(at), None | Some(b'}' | b']')) {
            return None;
        }
        let name = if self.keyed {
            let end = string(text, at).ok()?;
            let name = Value {
                text,
                start: at,
                end,
            };
            at = space(text, key(text, at).ok()?);
            Some(name)
        } else {
            None
        };
        let end = value(text, at).ok()?;
        self.at = end;
        Some((
            name,
            Value {
                text,
                start: at,
                end,
            },
        ))
    }
}

/// Passes over whitespace.
pub(crate) fn space(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    let width = rest
        .iter()
        .take_while(|b| matches!(b, b' ' | b'\t' | b'\n' | b'\r'))
        .count();
    at + width
}

/// Passes over one value, whatever its depth.
fn value(text: &[u8], start: usize) -> Result<usize, Fault> {
    let mut open = Vec::new();
    let mut at = start;
    loop {
        at = match opening(text, at) {
            Some((container, inside)) => {
                open.push(container);
                at = if container == b'{' {
                    key(text, inside)?
                } else {
                    inside
                };
                at = space(text, at);
                continue;
            }
            None => leaf(text, at)?,
        };
        match closing(text, at, &mut open)? {
            Next::Value(next) => at = next,
            Next::End(end) => return Ok(end),
        }
    }
}

enum Next {
    Value(usize),
    End(usize),
}

/// A container that has something in it, and where that something begins.
fn opening(text: &[u8], at: usize) -> Option<(u8, usize)> {
    let container = *text.get(at).filter(|b| matches!(b, b'{' | b'['))?;
    let inside = space(text, at + 1);
    let empty = text.get(inside) == Some(&closer(container));
    (!empty).then_some((container, inside))
}

/// After a value: closes what ends here, up to the next value or the end.
fn closing(text: &[u8], mut at: usize, open: &mut Vec<u8>) -> Result<Next, Fault> {
    while let Some(&container) = open.last() {
        at = space(text, at);
        match text.get(at) {
            Some(b',') => {
                at = space(text, at + 1);
                let at = if container == b'{' {
                    key(text, at)?
                } else {
                    at
                };
                return Ok(Next::Value(space(text, at)));
            }
            Some(&b) if b == closer(container) => {
                open.pop();
                at += 1;
            }
            _ if container == b'{' => return Err(Fault::new(text, at, "`,` or `}`")),
            _ => return Err(Fault::new(text, at, "`,` or `]`")),
        }
    }
    Ok(Next::End(at))
}

fn closer(container: u8) -> u8 {
    if container == b'{' { b'}' } else { b']' }
}

/// Passes over a key and its colon.
fn key(text: &[u8], at: usize) -> Result<usize, Fault> {
    if text.get(at) != Some(&b'"') {
        return Err(Fault::new(text, at, "a key in quotes"));
    }
    let at = space(text, string(text, at)?);
    match text.get(at) {
        Some(b':') => Ok(at + 1),
        _ => Err(Fault::new(text, at, "`:`")),
    }
}

/// Passes over a value that holds no other.
fn leaf(text: &[u8], at: usize) -> Result<usize, Fault> {
    let rest = text.get(at..).unwrap_or_default();
    match rest.first() {
        // Only empty containers come here.
        Some(b'{' | b'[') => Ok(space(text, at + 1) + 1),
        Some(b'"') => string(text, at),
        Some(b'-' | b'0'..=b'9') => number(text, at),
        _ => ["true", "false", "null"]
            .iter()
            .find(|word| rest.starts_with(word.as_bytes()))
            .map(|word| at + word.len())
            .ok_or_else(|| Fault::new(text, at, "a value")),
    }
}

fn string(text: &[u8], start: usize) -> Result<usize, Fault> {
    let mut at = start + 1;
    loop {
        match text.get(at) {
            Some(b'"') => return Ok(at + 1),
            Some(b'\\') => at = escape(text, at)?,
            Some(0x20..) => at += 1,
            _ => return Err(Fault::new(text, at, "the end of a string")),
        }
    }
}

fn escape(text: &[u8], at: usize) -> Result<usize, Fault> {
    let hex = |digits: &[u8]| digits.iter().all(u8::is_ascii_hexdigit);
    match text.get(at + 1) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(at + 2),
        Some(b'u') if text.get(at + 2..at + 6).is_some_and(hex) => Ok(at + 6),
        _ => Err(Fault::new(text, at, "an escape")),
    }
}

fn number(text: &[u8], start: usize) -> Result<usize, Fault> {
    let mut at = start + usize::from(text.get(start) == Some(&b'-'));
    at = match text.get(at) {
        Some(b'0') => at + 1,
        _ => digits(text, at)?,
    };
    if text.get(at) == Some(&b'.') {
        at = digits(text, at + 1)?;
    }
    if matches!(text.get(at), Some(b'e' | b'E')) {
        at += 1 + usize::from(matches!(text.get(at + 1), Some(b'+' | b'-')));
        at = digits(text, at)?;
    }
    Ok(at)
}

fn digits(text: &[u8], at: usize) -> Result<usize, Fault> {
    let rest = text.get(at..).unwrap_or_default();
    match rest.iter().take_while(|b| b.is_ascii_digit()).count() {
        0 => Err(Fault::new(text, at, "a digit")),
        width => Ok(at + width),
    }
}

/// Resolves the escapes of a string that was passed over without fault.
fn decode(inside: &[u8]) -> String {
    let units: Vec<u16> = String::from_utf8_lossy(inside).encode_utf16().collect();
    String::from_utf16_lossy(&resolve(&units))
}

fn resolve(units: &[u16]) -> Vec<u16> {
    let mut out = Vec::with_capacity(units.len());
    let mut rest = units.iter().copied();
    while let Some(unit) = rest.next() {
        if unit != u16::from(b'\\') {
            out.push(unit);
            continue;
        }
        let letter = rest
            .next()
            .and_then(|u| u8::try_from(u).ok())
            .unwrap_or_default();
        out.push(match letter {
            b'b' => 8,
            b'f' => 12,
            b'n' => 10,
            b'r' => 13,
            b't' => 9,
            b'u' => rest
                .by_ref()
                .take(4)
                .fold(0, |n, digit| n << 4 | hex_value(digit)),
            other => u16::from(other),
        });
    }
    out
}

fn hex_value(digit: u16) -> u16 {
    char::from_u32(u32::from(digit))
        .and_then(|c| c.to_digit(16))
        .unwrap_or_default() as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_json_is_passed_over_whole() {
        for text in [
            "{}",
            "[ ]",
            "[[],{}]",
            " {\"a\" : [1 , -0.5e+3, 1E400]}\r\n",
            "\"\\ud83d\\u00e9\\/\"",
            "12345678901234567890123",
            "[true,false,null]",
            "{\"\":{\"\":\"\"}}",
        ] {
            let value = Value::document(text.as_bytes()).unwrap();
            assert_eq!(value.raw(), text.trim().as_bytes());
        }
    }

    #[test]
    fn what_is_not_json_is_refused_with_its_place() {
        for text in [
            "",
            " ",
            "{",
            "[",
            "[1,]",
            "{\"a\":1,}",
            "{a:1}",
            "{\"a\" 1}",
            "01",
            "1.",
            "-",
            "1e",
            "tru",
            "\"",
            "\"\\x\"",
            "\"\\u12\"",
            "\"\n\"",
            "{}{}",
            "[1 2]",
            "\u{feff}{}",
            "{]",
            "[}",
            "nulll",
        ] {
            assert!(Value::document(text.as_bytes()).is_err(), "{text:?}");
        }
        let fault = Value::document(b"{\n  \"a\": tru").unwrap_err();
        assert_eq!(fault.to_string(), "expected a value at line 2 column 8");
    }

    #[test]
    fn the_last_of_two_members_counts() {
        let value = Value::document(br#"{"a":1,"b":2,"\u0061":3}"#).unwrap();
        assert_eq!(value.get("a").map(Value::raw), Some(&b"3"[..]));
        assert_eq!(value.members().count(), 3);
        assert_eq!(value.elements().count(), 0);
    }

    #[test]
    fn a_string_is_decoded() {
        let value =
            Value::document(b"\"a\\n\\\"\\\\\\/\\ud83d\\ude00\\ud800 \xff\xc3\xa9\"").unwrap();
        assert_eq!(
            value.string().unwrap(),
            "a\n\"\\/\u{1f600}\u{fffd} \u{fffd}é"
        );
    }

    #[test]
    fn a_deep_text_does_not_overflow_the_stack() {
        let deep = [vec![b'['; 1_000_000], vec![b']'; 1_000_000]].concat();
        assert_eq!(Value::document(&deep).unwrap().raw().len(), 2_000_000);
        assert!(Value::document(&deep[..1_999_999]).is_err());
    }
}
