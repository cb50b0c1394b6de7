//! A JSON value of our own making: the entry that is appended to a list.
//!
//! Keys, strings and numbers are kept as they are written in the template, so
//! that printing it in another layout changes nothing but whitespace.

use super::{
    layout::Layout,
    scan::{Fault, Kind, Value},
};

/// Deeper than any template is, and far from what recursion can bear.
const DEPTH: usize = 64;

/// An owned JSON value, its scalars as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tree {
    /// Members in order, each key with its quotes.
    Object(Vec<(String, Tree)>),
    /// Elements in order.
    Array(Vec<Tree>),
    /// A string with its quotes, a number, `true`, `false` or `null`.
    Scalar(String),
}

// === impl Tree ===

impl Tree {
    /// Reads a text; `Ok(None)` if it is nested deeper than 64 levels.
    ///
    /// # Errors
    ///
    /// The place where the text stops being JSON.
    pub fn parse(text: &str) -> Result<Option<Self>, Fault> {
        Value::document(text.as_bytes()).map(|value| Self::of(value, DEPTH))
    }

    /// A string value.
    #[must_use]
    pub fn string(text: &str) -> Self {
        Self::Scalar(quoted(text))
    }

    /// The member with this key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Tree> {
        let Self::Object(members) = self else {
            return None;
        };
        let key = quoted(key);
        members
            .iter()
            .rev()
            .find(|(k, _)| *k == key)
            .map(|(_, value)| value)
    }

    /// Sets a member, in its place if it is there and at the end if not. What
    /// is no object becomes one.
    pub fn set(&mut self, key: &str, value: Tree) {
        if !matches!(self, Self::Object(_)) {
            *self = Self::Object(Vec::new());
        }
        let Self::Object(members) = self else { return };
        let key = quoted(key);
        match members.iter_mut().rev().find(|(k, _)| *k == key) {
            Some((_, old)) => *old = value,
            None => members.push((key, value)),
        }
    }

    /// Prints the value in a layout, without whitespace around it.
    #[must_use]
    pub fn render(&self, layout: &Layout) -> String {
        let mut out = String::new();
        self.write(layout, 0, &mut out);
        out
    }

    fn of(value: Value<'_>, depth: usize) -> Option<Self> {
        let below = depth.checked_sub(1)?;
        Some(match value.kind() {
            Kind::Object => Self::Object(
                value
                    .members()
                    .map(|(key, v)| Some((raw(key), Self::of(v, below)?)))
                    .collect::<Option<_>>()?,
            ),
            Kind::Array => Self::Array(
                value
                    .elements()
                    .map(|v| Self::of(v, below))
                    .collect::<Option<_>>()?,
            ),
            _ => Self::Scalar(raw(value)),
        })
    }

    fn write(&self, layout: &Layout, depth: usize, out: &mut String) {
        match self {
            Self::Scalar(text) => out.push_str(text),
            Self::Object(members) => {
                layout.block(['{', '}'], members.len(), depth, out, |i, out| {
                    out.push_str(&members[i].0);
                    out.push_str(layout.colon());
                    members[i].1.write(layout, depth + 1, out);
                });
            }
            // Lists of ports and subnets read best on one line.
            Self::Array(items) if items.iter().all(|item| matches!(item, Self::Scalar(_))) => {
                layout.line(['[', ']'], items.len(), out, |i, out| {
                    items[i].write(layout, depth, out)
                });
            }
            Self::Array(items) => layout.block(['[', ']'], items.len(), depth, out, |i, out| {
                items[i].write(layout, depth + 1, out);
            }),
        }
    }
}

fn raw(value: Value<'_>) -> String {
    String::from_utf8_lossy(value.raw()).into_owned()
}

/// A text as a JSON string.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
