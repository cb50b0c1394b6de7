//! Port lists that are spelled in another way and mean the same: the Go plugin and the init
//! container set one rule per port to redirect, and do not drop repeated ports.

use crate::{
    parse::LiveRule,
    port::PortRange,
    rule::{Action, Condition, PortGroup, Rule},
};

/// The expected rules, a group of ports one by one where the chain has it so.
pub(super) fn as_in(expected: &[&Rule], found: &[LiveRule]) -> Vec<Rule> {
    let is_there = |rule: &Rule| found.iter().any(|live| live.rule() == Some(rule));
    let spelled = |rule: &&Rule| {
        let singles = singles(rule);
        let there = singles.iter().filter(|single| is_there(single)).count();
        if there > 1 && !is_there(rule) {
            singles
        } else {
            vec![(*rule).clone()]
        }
    };
    expected.iter().flat_map(spelled).collect()
}

/// Whether both chains do the same to every connection, though their port lists may be cut in
/// another way.
pub(super) fn is_alike(expected: &[&Rule], found: &[LiveRule]) -> bool {
    let found: Option<Vec<&Rule>> = found.iter().map(LiveRule::rule).collect();
    found.is_some_and(|found| meanings(expected) == meanings(&found))
}

fn singles(rule: &Rule) -> Vec<Rule> {
    let ports = match &rule.condition {
        Condition::TcpPorts(group) => group.ports(),
        _ => &[],
    };
    let group = |port: &PortRange| PortGroup::new(vec![*port]);
    let groups = ports.iter().filter_map(group);
    groups
        .map(|group| Rule {
            condition: Condition::TcpPorts(group),
            ..rule.clone()
        })
        .collect()
}

/// What a rule, or a run of rules that only differ in their ports, does.
#[derive(PartialEq, Eq)]
enum Meaning<'a> {
    Ports(Action, Vec<PortRange>),
    Other(&'a Rule),
}

/// Rules side by side that do the same to some ports can be swapped and joined.
fn meanings<'a>(rules: &[&'a Rule]) -> Vec<Meaning<'a>> {
    let mut meanings: Vec<Meaning<'a>> = Vec::new();
    for rule in rules {
        let Condition::TcpPorts(group) = &rule.condition else {
            meanings.push(Meaning::Other(rule));
            continue;
        };
        let ports = group.ports().iter().copied();
        match meanings.last_mut() {
            Some(Meaning::Ports(action, known)) if *action == rule.action => known.extend(ports),
            _ => meanings.push(Meaning::Ports(rule.action, ports.collect())),
        }
    }
    for meaning in &mut meanings {
        if let Meaning::Ports(_, ports) = meaning {
            *ports = PortRange::joined(std::mem::take(ports));
        }
    }
    meanings
}
