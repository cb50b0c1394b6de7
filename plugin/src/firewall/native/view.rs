//! What nf_tables has, as a `nat` table of one family.

use std::fmt::Write as _;

use proxy_init_rules::{Chain, Family, NatTable, ParseError};

use super::{
    decode,
    hook::Hook,
    snapshot::{LiveChain, Place, Snapshot},
};

/// Our own tables. A chain with the name of a kernel's chain that the kernel does not enter is
/// left out: whatever it says, no connection hears it.
pub(super) fn of_ours(seen: &Snapshot, family: Family) -> Result<NatTable, ParseError> {
    let mut text = String::from("*nat\n");
    let tables = seen.ours().filter(|table| table.place.kind.holds(family));
    for table in tables {
        let chains = seen.chains_of(&table.place);
        for chain in chains.filter(|chain| is_heard(chain, table.is_dormant)) {
            self::chain(&mut text, seen, chain, family);
        }
    }
    NatTable::parse(&text, family)
}

/// The table of somebody else.
pub(super) fn of(seen: &Snapshot, place: &Place, family: Family) -> Result<NatTable, ParseError> {
    let mut text = String::from("*nat\n");
    for chain in seen.chains_of(place) {
        self::chain(&mut text, seen, chain, family);
    }
    NatTable::parse(&text, family)
}

fn is_heard(chain: &LiveChain, is_dormant: bool) -> bool {
    let base = Chain::from_name(&chain.name).filter(|chain| chain.base() == *chain);
    let is_entered = |base| chain.nat.is_some_and(|(hook, _)| hook == Hook::of(base));
    base.is_none_or(|base| is_entered(base) && !is_dormant)
}

fn chain(text: &mut String, seen: &Snapshot, chain: &LiveChain, family: Family) {
    let name = decode::name(&chain.name);
    let _ = writeln!(text, ":{name} - [0:0]");
    let rules = seen.rules_of(&chain.place, &chain.name);
    for rule in rules.filter_map(|rule| decode::text(rule, family, seen)) {
        let _ = writeln!(text, "-A {name} {rule}");
    }
}
