//! Reading the `nat` table as `iptables-save` prints it, into the types the rules are made of.

use crate::{
    port::Excerpt,
    rule::{Chain, Family, Rule},
    ruleset::RuleSet,
};

mod recognize;
mod words;

/// The `nat` table of one family, with everybody's rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NatTable {
    family: Family,
    chains: Vec<LiveChain>,
}

/// A chain as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveChain {
    name: String,
    rules: Vec<LiveRule>,
}

/// A rule as it was found: its text, its words, and, if it is of a kind that we make, its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveRule {
    text: String,
    words: Vec<String>,
    rule: Option<Rule>,
}

/// A line that `iptables-save` does not print.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the saved {family} nat table is not understood: {text}")]
pub struct ParseError {
    line: usize,
    family: Family,
    text: Excerpt,
}

// === impl NatTable ===

impl NatTable {
    /// A table without any chain.
    #[must_use]
    pub fn empty(family: Family) -> Self {
        Self {
            family,
            chains: Vec::new(),
        }
    }

    /// Reads what `iptables-save` (or `ip6tables-save`) prints, with or without counters; other
    /// tables are skipped. No `nat` table at all is an empty one. A payload for
    /// `iptables-restore` is read too.
    ///
    /// # Errors
    /// A line that neither prints.
    pub fn parse(text: &str, family: Family) -> Result<Self, ParseError> {
        let mut table = Self::empty(family);
        let mut in_nat = false;
        for (index, line) in text.lines().enumerate() {
            let understood = match line.as_bytes().first() {
                None | Some(b'#') => true,
                Some(b'*') => {
                    in_nat = line == "*nat";
                    true
                }
                Some(_) => !in_nat || table.read_line(line),
            };
            if !understood {
                return Err(ParseError {
                    line: index + 1,
                    family,
                    text: Excerpt::new(line),
                });
            }
        }
        Ok(table)
    }

    /// The family.
    #[must_use]
    pub fn family(&self) -> Family {
        self.family
    }

    /// All chains, in the order in which they were found.
    #[must_use]
    pub fn chains(&self) -> &[LiveChain] {
        &self.chains
    }

    /// The rules of a chain, if there is such a chain.
    #[must_use]
    pub fn rules_of(&self, name: &str) -> Option<&[LiveRule]> {
        let chain = self.chains.iter().find(|chain| chain.name == name)?;
        Some(&chain.rules)
    }

    /// Whether there is anything of ours: a chain (and so perhaps a jump to it).
    #[must_use]
    pub fn has_ours(&self) -> bool {
        Chain::OURS
            .iter()
            .any(|chain| self.rules_of(chain.name()).is_some())
    }

    /// The rules of the kinds that we make, in the order of [`RuleSet::new`].
    #[must_use]
    pub fn rule_set(&self) -> RuleSet {
        let order = [
            Chain::Inbound,
            Chain::Prerouting,
            Chain::Outbound,
            Chain::Output,
        ];
        let found = order
            .into_iter()
            .flat_map(|chain| self.rules_of(chain.name()).unwrap_or_default());
        RuleSet::found(
            self.family,
            found.filter_map(|found| found.rule.clone()).collect(),
        )
    }

    fn read_line(&mut self, line: &str) -> bool {
        let line = without_counters(line);
        match line.split_once(' ').unwrap_or((line, "")) {
            ("COMMIT", "") => true,
            ("-N", name) => self.chain(name).is_some(),
            ("-A", rest) => self.read_rule(rest),
            (head, _) => head
                .strip_prefix(':')
                .is_some_and(|name| self.chain(name).is_some()),
        }
    }

    fn read_rule(&mut self, text: &str) -> bool {
        let (name, spec) = text.split_once(' ').unwrap_or((text, ""));
        let family = self.family;
        let Some(chain) = self.chain(name) else {
            return false;
        };
        chain.rules.push(LiveRule::new(name, spec, family));
        true
    }

    fn chain(&mut self, name: &str) -> Option<&mut LiveChain> {
        if name.is_empty() {
            return None;
        }
        let known = self.chains.iter().position(|chain| chain.name == name);
        let index = known.unwrap_or_else(|| {
            self.chains.push(LiveChain {
                name: name.to_owned(),
                rules: Vec::new(),
            });
            self.chains.len() - 1
        });
        self.chains.get_mut(index)
    }
}

// === impl LiveChain ===

impl LiveChain {
    /// The chain's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its rules, in order.
    #[must_use]
    pub fn rules(&self) -> &[LiveRule] {
        &self.rules
    }
}

// === impl LiveRule ===

impl LiveRule {
    fn new(chain: &str, text: &str, family: Family) -> Self {
        // A text with an open quote is nobody's rule that we could understand; it is kept as text.
        let words = words::split(text).unwrap_or_default();
        let rule = Chain::from_name(chain).and_then(|c| recognize::rule(c, &words, family));
        Self {
            text: text.to_owned(),
            words,
            rule,
        }
    }

    /// The rule without its chain, as it was printed.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Its value, if it is of a kind that we make.
    #[must_use]
    pub fn rule(&self) -> Option<&Rule> {
        self.rule.as_ref()
    }

    /// The words of the rule, unquoted.
    #[must_use]
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// What `-j` or `-g` names.
    #[must_use]
    pub fn target(&self) -> Option<&str> {
        self.value_of(&["-j", "-g"])
    }

    /// The word behind the first of these options.
    #[must_use]
    pub fn value_of(&self, options: &[&str]) -> Option<&str> {
        let at = self
            .words
            .iter()
            .position(|word| options.contains(&word.as_str()))?;
        self.words.get(at + 1).map(String::as_str)
    }
}

/// `iptables-save -c` puts `[packets:bytes]` before a rule.
fn without_counters(line: &str) -> &str {
    match line
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("] "))
    {
        Some((_, rule)) => rule,
        None => line,
    }
}

#[cfg(test)]
mod tests;
