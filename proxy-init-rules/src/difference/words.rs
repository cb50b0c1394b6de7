//! Differences in words that a person understands.

use std::fmt;

use super::{Difference, Fault};
use crate::rule::Rule;

// === impl Difference ===

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.family)?;
        if let Some(chain) = self.chain {
            write!(f, " {chain}")?;
        }
        write!(f, ": {}", self.fault)
    }
}

// === impl Fault ===

impl Fault {
    /// What kind of fault it is, in a word that does not change between releases.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::NoRules => "no-rules",
            Self::NoChain => "no-chain",
            Self::EmptyChain => "empty-chain",
            Self::Missing { .. } => "missing",
            Self::Extra { .. } => "added",
            Self::Duplicate { .. } => "duplicate",
            Self::Changed { .. } => "changed",
            Self::Misplaced { .. } => "misplaced",
            Self::Overtaken { .. } => "overtaken",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |rule: &Rule| format!("{} ({})", rule.spec(), rule.meaning());
        match self {
            Self::NoRules => f.write_str("no redirect rules at all, traffic is in the clear"),
            Self::NoChain => f.write_str("the chain is missing, and with it the jump to it"),
            Self::EmptyChain => f.write_str("the chain is empty, all its rules are missing"),
            Self::Missing { rule, place } => write!(f, "rule {place} is missing: {}", shown(rule)),
            Self::Extra { text, place } => write!(f, "rule {place} was added: {text}"),
            Self::Duplicate { rule, place } => {
                write!(f, "rule {place} is a second copy: {}", shown(rule))
            }
            Self::Changed {
                expected,
                found,
                place,
            } => {
                write!(
                    f,
                    "rule {place} was changed from: {} to: {found}",
                    shown(expected)
                )
            }
            Self::Misplaced {
                rule,
                expected,
                found,
            } => write!(
                f,
                "rule {expected} is out of place, it stands at {found}: {}",
                shown(rule)
            ),
            Self::Overtaken { text, place } => write!(
                f,
                "rule {place} of somebody else stands before ours and takes connections away: {text}"
            ),
        }
    }
}
