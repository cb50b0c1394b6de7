//! The jumps from the kernel's chains to ours, and what stands before them.

use super::{Fault, overtake};
use crate::{
    parse::{LiveRule, NatTable},
    rule::{Chain, Rule},
};

/// A jump to a chain of ours, as it was found.
struct Jump<'a> {
    /// From 1.
    place: usize,
    live: &'a LiveRule,
    /// Whether it hands over all traffic.
    is_whole: bool,
}

/// What is wrong with the jump to `ours`.
pub(super) fn faults(found: &NatTable, ours: Chain) -> Vec<Fault> {
    let base = found.rules_of(ours.base().name()).unwrap_or_default();
    let all: Vec<Jump<'_>> = jumps(base, ours).collect();
    let Some(first) = all.iter().find(|jump| jump.is_whole) else {
        return vec![no_whole_jump(&all, ours)];
    };
    let before = base.iter().take(first.place - 1).enumerate();
    let taking =
        before.filter(|(_, rule)| !is_to(rule, ours) && overtake::takes_tcp(found, ours, rule));
    let overtaken = taking.map(|(index, rule)| Fault::Overtaken {
        text: rule.text().to_owned(),
        place: index + 1,
    });
    let others = all.iter().filter(|jump| jump.place != first.place);
    overtaken
        .chain(others.map(|jump| more(jump, ours)))
        .collect()
}

fn jumps(base: &[LiveRule], ours: Chain) -> impl Iterator<Item = Jump<'_>> {
    let whole = Rule::jump_to(ours);
    let all = base
        .iter()
        .enumerate()
        .filter(move |(_, live)| is_to(live, ours));
    all.map(move |(index, live)| Jump {
        place: index + 1,
        live,
        is_whole: live.rule() == Some(&whole),
    })
}

fn is_to(rule: &LiveRule, ours: Chain) -> bool {
    rule.target() == Some(ours.name())
}

/// A jump with a condition does not hand all traffic over.
fn no_whole_jump(all: &[Jump<'_>], ours: Chain) -> Fault {
    let expected = Rule::jump_to(ours);
    match all.first() {
        Some(Jump { place, live, .. }) => Fault::Changed {
            expected,
            found: live.text().to_owned(),
            place: *place,
        },
        None => Fault::Missing {
            rule: expected,
            place: 1,
        },
    }
}

fn more(jump: &Jump<'_>, ours: Chain) -> Fault {
    let place = jump.place;
    if jump.is_whole {
        let rule = Rule::jump_to(ours);
        Fault::Duplicate { rule, place }
    } else {
        let text = jump.live.text().to_owned();
        Fault::Extra { text, place }
    }
}
