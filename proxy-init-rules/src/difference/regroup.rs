//! Listed ports as single rules: the Go plugin and the init container set one rule per port to
//! redirect, which means the same as our groups of 15.

use super::FoundRule;
use crate::{
    parse::LiveRule,
    port::PortRange,
    rule::{Condition, PortGroup, Rule},
};

/// The rules of a chain, runs of single-port rules put into groups. Our own grouping never leaves
/// two single ports side by side, so ours stay as they are.
pub(super) fn regroup(rules: &[LiveRule]) -> Vec<FoundRule> {
    let mut regrouped = Vec::new();
    let mut rest: Vec<FoundRule> = rules
        .iter()
        .enumerate()
        .map(|(index, live)| FoundRule {
            rule: live.rule().cloned(),
            text: live.text().to_owned(),
            place: index + 1,
        })
        .collect();
    while !rest.is_empty() {
        let run = rest
            .iter()
            .take_while(|found| continues(&rest[0], found))
            .count();
        let run: Vec<FoundRule> = rest.drain(..run.max(1)).collect();
        regrouped.extend(merged(run));
    }
    regrouped
}

fn continues(first: &FoundRule, next: &FoundRule) -> bool {
    let action = |found: &FoundRule| found.rule.as_ref().map(|rule| rule.action);
    single(first).is_some() && single(next).is_some() && action(first) == action(next)
}

/// The port of a rule that is about one port (or range) alone.
fn single(found: &FoundRule) -> Option<PortRange> {
    match &found.rule.as_ref()?.condition {
        Condition::TcpPorts(ports) => match ports.ports() {
            [port] => Some(*port),
            _ => None,
        },
        _ => None,
    }
}

fn merged(run: Vec<FoundRule>) -> Vec<FoundRule> {
    let ports: Vec<PortRange> = run.iter().filter_map(single).collect();
    let (Some(first), true) = (run.first().cloned(), ports.len() > 1) else {
        return run;
    };
    let mut at = 0;
    let groups = PortGroup::split(&ports).into_iter();
    groups
        .map(|group| {
            let place = first.place + at;
            at += group.ports().len();
            let rule = first.rule.as_ref().map(|rule| Rule {
                condition: Condition::TcpPorts(group),
                ..rule.clone()
            });
            let text = rule.as_ref().map(Rule::spec).unwrap_or_default();
            FoundRule { rule, text, place }
        })
        .collect()
}
