//! Finds where things are in a JSON text, without interpreting them.
//!
//! Foreign configurations are edited in place, so what matters is where a
//! value begins and ends. Numbers, escapes and the encoding of strings are
//! passed over byte by byte, which is why a text that floats or UTF-8 checks
//! would damage (`2^64`, a lone surrogate) survives. Nothing here recurses:
//! a file nested a million deep costs a byte a level, not a stack overflow.

use std::{fmt, ops::Range};

mod decode;
mod grammar;

#[cfg(test)]
mod tests;

pub(crate) use grammar::space;

use decode::decode;
use grammar::{key, string, value};

/// Where a text stops being JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
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

    /// The member with just this key. Of two that is the last: libcni reads with
    /// Go's `encoding/json`, where the later one wins.
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
