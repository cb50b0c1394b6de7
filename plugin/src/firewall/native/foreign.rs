//! Chains of others that connections meet before ours.

use proxy_init_rules::{Chain, Family, taken};

use super::{
    decode,
    hook::Hook,
    snapshot::{LiveChain, Snapshot},
    table::PRIORITY,
    view,
};

/// A rule of somebody else's table that takes connections away before our rules see them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Overtaker {
    /// The kernel's chain that it comes before.
    pub(crate) base: Chain,
    /// `ip NAME`: the table.
    pub(crate) table: String,
    /// The chain, and how early the kernel enters it.
    pub(crate) chain: String,
    pub(crate) priority: i32,
    /// The rule, in the words of `iptables-save`.
    pub(crate) rule: String,
}

/// Every rule that comes first and takes TCP connections of this family. A chain that only accepts
/// them takes nothing: they go on to the next.
pub(super) fn overtakers(seen: &Snapshot, family: Family) -> Vec<Overtaker> {
    let mut overtakers = Vec::new();
    let others = seen.chains.iter().filter(|chain| !chain.place.is_ours());
    for chain in others.filter(|chain| chain.place.kind.holds(family)) {
        let Some((hook, priority)) = chain.nat.filter(|at| comes_first(seen, chain, *at)) else {
            continue;
        };
        let Ok(table) = view::of(seen, &chain.place, family) else {
            continue;
        };
        let base = hook.chain();
        let name = decode::name(&chain.name);
        overtakers.extend(taken(&table, &name, base).map(|rule| Overtaker {
            base,
            table: format!("{} {}", chain.place.kind, chain.place.table),
            chain: name.clone(),
            priority,
            rule: rule.text().to_owned(),
        }));
    }
    overtakers
}

/// Of chains that are equally early, the kernel enters the one that was made last first; which that
/// is shows in the numbers of their tables. Without a table of ours in nf_tables there is nothing
/// to tell it by.
fn comes_first(seen: &Snapshot, chain: &LiveChain, (hook, priority): (Hook, i32)) -> bool {
    let table = |chain: &LiveChain| seen.tables.iter().find(|table| table.place == chain.place);
    if table(chain).is_none_or(|table| table.is_dormant) {
        return false;
    }
    let is_ours_there =
        |ours: &&LiveChain| ours.place.is_ours() && ours.nat.is_some_and(|(at, _)| at == hook);
    match seen.chains.iter().find(is_ours_there) {
        Some(ours) => {
            let at = ours.nat.map_or(PRIORITY, |(_, priority)| priority);
            let newer = table(chain).map(|t| t.handle) > table(ours).map(|t| t.handle);
            priority < at || (priority == at && newer)
        }
        None => priority < PRIORITY,
    }
}
