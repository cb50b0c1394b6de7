//! A rule in the words of `iptables-save`, put together piece by piece.

use std::fmt::Write as _;

use proxy_init_rules::Family;

/// What a rule says.
#[derive(Debug, Default)]
pub(super) struct Words {
    /// The only family that it is about.
    pub(super) only_for: Option<Family>,
    /// `-s`, `-d`, `-i`, `-o`.
    pub(super) head: Vec<String>,
    /// `-p`.
    pub(super) protocol: Option<String>,
    /// Bounds of the port that it goes to: one interval is two conditions to nf_tables.
    pub(super) from_port: Option<u16>,
    pub(super) to_port: Option<u16>,
    /// Matches with their options.
    pub(super) matches: Vec<String>,
    pub(super) comment: Option<String>,
    /// What it does with a connection, and what else it does on the way.
    pub(super) target: Option<String>,
    pub(super) aside: Option<String>,
}

// === impl Words ===

impl Words {
    /// A condition that has no words here, by its name.
    pub(super) fn unknown(&mut self, name: &str) {
        self.matches.push(format!("-m nft --expression {name}"));
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let head = self.head.iter().chain(&self.protocol);
        let matches = self
            .interval()
            .into_iter()
            .chain(self.matches.iter().cloned());
        for word in head.cloned().chain(matches) {
            let _ = write!(text, "{word} ");
        }
        if let Some(comment) = &self.comment {
            let _ = write!(text, "-m comment --comment \"{}\" ", escaped(comment));
        }
        if let Some(target) = self.target.as_ref().or(self.aside.as_ref()) {
            text.push_str(target);
        }
        text.truncate(text.trim_end().len());
        text
    }
    fn interval(&self) -> Option<String> {
        let shown = |port: Option<u16>| port.map_or(String::new(), |port| port.to_string());
        let is_any = self.from_port.is_some() || self.to_port.is_some();
        let (from, to) = (shown(self.from_port), shown(self.to_port));
        is_any.then(|| format!("-m tcp --dport {from}:{to}"))
    }
}

/// A chain's name as one word, whatever somebody put into it.
pub(in super::super) fn name(name: &str) -> String {
    let is_odd = |char: char| char.is_whitespace() || char.is_control() || "\"\\".contains(char);
    name.replace(is_odd, "?")
}

/// As `iptables-save` writes a text between quotes. One line stays one.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '"' | '\\' => escaped.extend(['\\', char]),
            char if char.is_control() => escaped.push('?'),
            char => escaped.push(char),
        }
    }
    escaped
}
