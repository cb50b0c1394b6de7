//! What the kernel has, against what it should have, in words (rules.md 4).
//!
//! Comments do not count, only what the rules do. Rules of others are tolerated, unless they stand
//! before our jump and take TCP connections away from it.

use std::fmt;

use crate::{
    parse::{LiveRule, NatTable},
    rule::{Action, Chain, Family, Rule},
    ruleset::RuleSet,
};

mod align;
mod overtake;
mod regroup;

use align::{Alignment, align};

/// One thing that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// In which `nat` table.
    pub family: Family,
    /// In which chain; `None`: the whole redirect.
    pub chain: Option<Chain>,
    /// What.
    pub fault: Fault,
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Neither our chains nor jumps to them are there.
    NoRules,
    /// The chain is missing, and with it the jump to it.
    NoChain,
    /// The chain is there, without any rule.
    EmptyChain,
    /// A rule is missing.
    Missing {
        /// The rule.
        rule: Rule,
        /// Its place, from 1.
        place: usize,
    },
    /// A rule that we did not set stands in a chain of ours.
    Extra {
        /// The rule as it was found.
        text: String,
        /// Its place, from 1.
        place: usize,
    },
    /// A rule of ours is there more than once.
    Duplicate {
        /// The rule.
        rule: Rule,
        /// The place of the copy, from 1.
        place: usize,
    },
    /// Another rule stands where one of ours should.
    Changed {
        /// The rule that should be there.
        expected: Rule,
        /// The one that is.
        found: String,
        /// Its place, from 1.
        place: usize,
    },
    /// The rule is there, at another place among the others.
    Misplaced {
        /// The rule.
        rule: Rule,
        /// Where it should be, from 1.
        expected: usize,
        /// Where it is, from 1.
        found: usize,
    },
    /// Somebody else's rule stands before our jump and takes connections away from it.
    Overtaken {
        /// The rule as it was found.
        text: String,
        /// Its place, from 1.
        place: usize,
    },
}

/// Every difference between the rules that should be there and the table as it is. None: the
/// redirect works as it was set.
#[must_use]
pub fn difference(expected: &RuleSet, found: &NatTable) -> Vec<Difference> {
    let family = expected.family();
    let bases = [Chain::Prerouting, Chain::Output];
    if !found.has_ours()
        && bases
            .iter()
            .all(|base| jumps(found, *base).next().is_none())
    {
        let fault = Fault::NoRules;
        return vec![Difference {
            family,
            chain: None,
            fault,
        }];
    }
    let at = |chain, fault| Difference {
        family,
        chain: Some(chain),
        fault,
    };
    Chain::OURS
        .into_iter()
        .flat_map(|chain| {
            let base = chain.base();
            let inner = in_chain(expected, found, chain);
            let jump = match inner.first() {
                Some(Fault::NoChain) => Vec::new(),
                _ => at_jump(found, base),
            };
            let inner = inner.into_iter().map(move |fault| at(chain, fault));
            inner.chain(jump.into_iter().map(move |fault| at(base, fault)))
        })
        .collect()
}

fn in_chain(expected: &RuleSet, found: &NatTable, chain: Chain) -> Vec<Fault> {
    let Some(found) = found.rules_of(chain.name()) else {
        return vec![Fault::NoChain];
    };
    let expected: Vec<&Rule> = expected.of(chain).collect();
    if found.is_empty() && !expected.is_empty() {
        return vec![Fault::EmptyChain];
    }
    let found = regroup::regroup(found);
    let Alignment { missing, extra } = align(&expected, &found);
    faults(&expected, &found, missing, extra)
}

/// A rule of the kernel, as far as it matters here.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FoundRule {
    rule: Option<Rule>,
    text: String,
    /// From 1, as it stands in the kernel.
    place: usize,
}

/// Places of expected and found rules that have no partner; `gap` counts the partners before.
#[derive(Debug, Clone, Copy)]
struct Unmatched {
    index: usize,
    gap: usize,
}

fn faults(
    expected: &[&Rule],
    found: &[FoundRule],
    mut missing: Vec<Unmatched>,
    extra: Vec<Unmatched>,
) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut strangers = Vec::new();
    for stray in extra {
        let FoundRule { rule, place, .. } = &found[stray.index];
        let elsewhere = missing
            .iter()
            .position(|m| Some(expected[m.index]) == rule.as_ref());
        match (elsewhere, rule) {
            (Some(at), Some(rule)) => faults.push(Fault::Misplaced {
                rule: rule.clone(),
                expected: missing.remove(at).index + 1,
                found: *place,
            }),
            (None, Some(rule)) if expected.contains(&rule) => faults.push(Fault::Duplicate {
                rule: rule.clone(),
                place: *place,
            }),
            _ => strangers.push(stray),
        }
    }
    for stray in strangers {
        let FoundRule { text, place, .. } = &found[stray.index];
        let (text, place) = (text.clone(), *place);
        match missing.iter().position(|m| m.gap == stray.gap) {
            Some(at) => faults.push(Fault::Changed {
                expected: expected[missing.remove(at).index].clone(),
                found: text,
                place,
            }),
            None => faults.push(Fault::Extra { text, place }),
        }
    }
    faults.extend(missing.into_iter().map(|m| Fault::Missing {
        rule: expected[m.index].clone(),
        place: m.index + 1,
    }));
    faults
}

fn at_jump(found: &NatTable, base: Chain) -> Vec<Fault> {
    let all: Vec<(usize, &Rule)> = jumps(found, base).collect();
    let Some((first, _)) = all.first() else {
        let ours = Chain::OURS.into_iter().find(|chain| chain.base() == base);
        let rule = ours.map(Rule::jump_to);
        return rule
            .map(|rule| Fault::Missing { rule, place: 1 })
            .into_iter()
            .collect();
    };
    let before = found
        .rules_of(base.name())
        .unwrap_or_default()
        .iter()
        .take(first - 1)
        .enumerate();
    let overtaking = before.filter(|(_, rule)| overtake::takes_tcp(found, base, rule));
    let overtaken = overtaking.map(|(index, rule): (usize, &LiveRule)| Fault::Overtaken {
        text: rule.text().to_owned(),
        place: index + 1,
    });
    let copies = all.iter().skip(1).map(|(place, rule)| Fault::Duplicate {
        rule: (*rule).clone(),
        place: *place,
    });
    overtaken.chain(copies).collect()
}

/// The jumps from a kernel's chain to ours, with their places from 1. One with a condition does
/// not hand all traffic over, so it is none.
fn jumps(found: &NatTable, base: Chain) -> impl Iterator<Item = (usize, &Rule)> {
    let is_jump = move |rule: &Rule| matches!(rule.action, Action::Jump(ours) if ours.base() == base && *rule == Rule::jump_to(ours));
    let rules = found
        .rules_of(base.name())
        .unwrap_or_default()
        .iter()
        .enumerate();
    rules.filter_map(move |(index, live)| {
        let rule = live.rule().filter(|rule| is_jump(rule))?;
        Some((index + 1, rule))
    })
}

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

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |rule: &Rule| format!("{} ({})", rule.spec(), rule.meaning());
        match self {
            Self::NoRules => f.write_str("no redirect rules at all, traffic is in the clear"),
            Self::NoChain => f.write_str("the chain is missing, and with it the jump to it"),
            Self::EmptyChain => f.write_str("the chain is empty, all its rules are missing"),
            Self::Missing { rule, place } => write!(f, "rule {place} is missing: {}", shown(rule)),
            Self::Extra { text, place } => write!(f, "rule {place} is not ours: {text}"),
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

#[cfg(test)]
mod tests;
