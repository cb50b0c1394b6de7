//! What the kernel has, against what it should have, in words (rules.md 4).
//!
//! Comments do not count, only what the rules do. Rules of others are tolerated, unless they stand
//! before our jump and take TCP connections away from it.

use crate::{
    parse::{LiveRule, NatTable},
    rule::{Chain, Family, Rule},
    ruleset::RuleSet,
};

mod align;
mod jump;
mod overtake;
mod spelling;
mod words;

use align::{Alignment, align};
pub use overtake::taken;

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

/// How closely the rules are looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Care {
    /// They are ours to the letter.
    Rules,
    /// Somebody else may have cut the port lists in another way.
    Effect,
}

/// Every difference between the rules that should be there and the table as it is. None: the
/// redirect works as it was set.
#[must_use]
pub fn difference(expected: &RuleSet, found: &NatTable) -> Vec<Difference> {
    compare(expected, found, Care::Rules)
}

/// As [`difference`], for rules that another program may have set: port lists that are cut in
/// another way, or name a port twice, are no difference.
#[must_use]
pub fn difference_in_effect(expected: &RuleSet, found: &NatTable) -> Vec<Difference> {
    compare(expected, found, Care::Effect)
}

fn compare(expected: &RuleSet, found: &NatTable, care: Care) -> Vec<Difference> {
    let family = expected.family();
    if !found.has_ours() {
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
            let inner = in_chain(expected, found, chain, care);
            let jump = match inner.first() {
                Some(Fault::NoChain) => Vec::new(),
                _ => jump::faults(found, chain),
            };
            let base = chain.base();
            let inner = inner.into_iter().map(move |fault| at(chain, fault));
            inner.chain(jump.into_iter().map(move |fault| at(base, fault)))
        })
        .collect()
}

fn in_chain(expected: &RuleSet, found: &NatTable, chain: Chain, care: Care) -> Vec<Fault> {
    let Some(found) = found.rules_of(chain.name()) else {
        return vec![Fault::NoChain];
    };
    if found.is_empty() {
        return vec![Fault::EmptyChain];
    }
    let expected: Vec<&Rule> = expected.of(chain).collect();
    if care == Care::Effect && spelling::is_alike(&expected, found) {
        return Vec::new();
    }
    let expected = spelling::as_in(&expected, found);
    let Alignment { missing, extra } = align(&expected, found);
    faults(&expected, found, missing, extra)
}

/// Places of expected and found rules that have no partner; `gap` counts the partners before.
#[derive(Debug, Clone, Copy)]
struct Unmatched {
    index: usize,
    gap: usize,
}

fn faults(
    expected: &[Rule],
    found: &[LiveRule],
    mut missing: Vec<Unmatched>,
    extra: Vec<Unmatched>,
) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut strangers = Vec::new();
    for stray in extra {
        let (rule, place) = (found[stray.index].rule(), stray.index + 1);
        let elsewhere = missing
            .iter()
            .position(|m| Some(&expected[m.index]) == rule);
        match (elsewhere, rule) {
            (Some(at), Some(rule)) => faults.push(Fault::Misplaced {
                rule: rule.clone(),
                expected: missing.remove(at).index + 1,
                found: place,
            }),
            (None, Some(rule)) if expected.contains(rule) => faults.push(Fault::Duplicate {
                rule: rule.clone(),
                place,
            }),
            _ => strangers.push(stray),
        }
    }
    for stray in strangers {
        let (text, place) = (found[stray.index].text().to_owned(), stray.index + 1);
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

#[cfg(test)]
mod tests;
