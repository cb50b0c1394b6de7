//! The longest common subsequence of the expected and the found rules: what keeps its order.

use super::{FoundRule, Unmatched};
use crate::rule::Rule;

/// The rules without a partner, in order.
pub(super) struct Alignment {
    pub(super) missing: Vec<Unmatched>,
    pub(super) extra: Vec<Unmatched>,
}

/// Pairs as many rules as possible without crossing.
pub(super) fn align(expected: &[&Rule], found: &[FoundRule]) -> Alignment {
    let equal = |e: usize, f: usize| found[f].rule.as_ref() == Some(expected[e]);
    let lengths = lengths(expected.len(), found.len(), equal);
    let (mut e, mut f, mut gap) = (0, 0, 0);
    let mut alignment = Alignment {
        missing: Vec::new(),
        extra: Vec::new(),
    };
    while e < expected.len() || f < found.len() {
        let both = e < expected.len() && f < found.len();
        if both && equal(e, f) {
            (e, f, gap) = (e + 1, f + 1, gap + 1);
        } else if f == found.len() || (both && lengths[e + 1][f] >= lengths[e][f + 1]) {
            alignment.missing.push(Unmatched { index: e, gap });
            e += 1;
        } else {
            alignment.extra.push(Unmatched { index: f, gap });
            f += 1;
        }
    }
    alignment
}

/// `lengths[e][f]`: how many pairs the rules from `e` and from `f` on allow.
fn lengths(expected: usize, found: usize, equal: impl Fn(usize, usize) -> bool) -> Vec<Vec<u32>> {
    let mut lengths = vec![vec![0; found + 1]; expected + 1];
    for e in (0..expected).rev() {
        for f in (0..found).rev() {
            lengths[e][f] = if equal(e, f) {
                lengths[e + 1][f + 1] + 1
            } else {
                lengths[e + 1][f].max(lengths[e][f + 1])
            };
        }
    }
    lengths
}
