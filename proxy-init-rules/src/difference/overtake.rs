//! Rules of others that stand before our jump: do they take TCP connections away from it?

use std::collections::HashSet;

use crate::{
    parse::{LiveRule, NatTable},
    rule::Chain,
};

/// Targets that end the walk through the `nat` table.
const FINAL: [&str; 11] = [
    "ACCEPT",
    "DNAT",
    "DROP",
    "MASQUERADE",
    "NETMAP",
    "NFQUEUE",
    "QUEUE",
    "REDIRECT",
    "REJECT",
    "SNAT",
    "TPROXY",
];

/// Those of them that let other tables see the connection afterwards.
const HARMLESS_ELSEWHERE: [&str; 1] = ["ACCEPT"];

/// The rules of a chain in a table of somebody else, which the kernel enters before `base` of ours,
/// that take TCP connections away: they lead them elsewhere or drop them. To accept one there is no
/// last word, as the kernel goes on to the next table.
pub fn taken<'a>(
    table: &'a NatTable,
    chain: &str,
    base: Chain,
) -> impl Iterator<Item = &'a LiveRule> {
    let rules = table.rules_of(chain).unwrap_or_default().iter();
    rules.filter(move |rule| {
        may_match_tcp(rule)
            && ends(table, rule, &HARMLESS_ELSEWHERE, &mut HashSet::new())
            && !stays_on_loopback(base, rule)
    })
}

/// Whether a rule of the kernel's chain that jumps to `ours` keeps TCP connections from the rules
/// below it that ours would redirect.
pub(super) fn takes_tcp(table: &NatTable, ours: Chain, rule: &LiveRule) -> bool {
    let base = ours.base();
    // In a chain of the kernel's, RETURN ends the walk with the chain's policy.
    may_match_tcp(rule)
        && (rule.target() == Some("RETURN") || ends(table, rule, &[], &mut HashSet::new()))
        && !stays_on_loopback(base, rule)
}

/// Each chain is looked at once: chains that call each other many times are billions of ways, and
/// everybody who may set rules in a pod can set such ones.
fn ends<'a>(
    table: &'a NatTable,
    rule: &'a LiveRule,
    harmless: &[&str],
    seen: &mut HashSet<&'a str>,
) -> bool {
    let Some(target) = rule.target() else {
        return false;
    };
    if FINAL.contains(&target) {
        return !harmless.contains(&target);
    }
    let inner = table.rules_of(target).unwrap_or_default();
    seen.insert(target)
        && inner
            .iter()
            .any(|rule| may_match_tcp(rule) && ends(table, rule, harmless, seen))
}

fn may_match_tcp(rule: &LiveRule) -> bool {
    match option(rule, "-p") {
        None => true,
        Some((protocol, negated)) => matches!(protocol, "tcp" | "6" | "all" | "0") != negated,
    }
}

/// Our outbound rules leave loopback alone, so a rule about loopback takes nothing away; and a
/// packet that left over loopback comes back in without meeting `PREROUTING` again.
fn stays_on_loopback(base: Chain, rule: &LiveRule) -> bool {
    let interface = if base == Chain::Output { "-o" } else { "-i" };
    let is = |name: &str, test: fn(&str) -> bool| {
        option(rule, name).is_some_and(|(value, negated)| !negated && test(value))
    };
    is(interface, |name| name == "lo")
        || (base == Chain::Output && is("-d", |net| net.starts_with("127.") || net == "::1/128"))
}

/// The value of an option, and whether a `!` stands before it.
fn option<'a>(rule: &'a LiveRule, name: &str) -> Option<(&'a str, bool)> {
    let at = rule.words().iter().position(|word| word == name)?;
    let negated = at > 0 && rule.words()[at - 1] == "!";
    rule.words()
        .get(at + 1)
        .map(|value| (value.as_str(), negated))
}
