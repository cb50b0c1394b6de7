//! The requests that take our rules out.

use netlink_bindings::nftables::Request;

use super::{
    decode,
    error::Subject,
    message::Batch,
    snapshot::{LiveChain, LiveRule, Place, Snapshot, is_our_name},
    table::{Kind, TABLE},
};

/// Appends the removal of our tables of these kinds; whether there are any.
pub(super) fn of_tables(batch: &mut Batch, there: &Snapshot, which: impl Fn(Kind) -> bool) -> bool {
    let mut is_any = false;
    for table in there.ours().filter(|table| which(table.place.kind)) {
        let mut request = Request::new().op_deltable_do(&table.place.kind.header());
        request.encode().push_name(TABLE);
        batch.push(subject(&table.place, None), &request);
        is_any = true;
    }
    is_any
}

/// Appends the removal of chains of ours from tables of iptables: first whatever jumps to them,
/// then their rules, then the chains; whether there are any.
pub(super) fn of_leftovers(batch: &mut Batch, there: &Snapshot) -> bool {
    let chains: Vec<&LiveChain> = there.leftovers().collect();
    let in_table_of_one = |rule: &&LiveRule| chains.iter().any(|chain| chain.place == rule.place);
    // Rules of our own chains go with them.
    let jumps = there.rules.iter().filter(in_table_of_one);
    let jumps = jumps.filter(|rule| !is_our_name(&rule.chain));
    for jump in jumps.filter(|rule| decode::targets_of(rule).any(|name| is_our_name(&name))) {
        rules(batch, &jump.place, &jump.chain, Some(jump.handle));
    }
    for chain in &chains {
        rules(batch, &chain.place, &chain.name, None);
    }
    for chain in &chains {
        let mut request = Request::new().op_delchain_do(&chain.place.kind.header());
        request
            .encode()
            .push_table_bytes(chain.place.table.as_bytes())
            .push_name_bytes(chain.name.as_bytes());
        batch.push(subject(&chain.place, Some(&chain.name)), &request);
    }
    !chains.is_empty()
}

/// One rule of a chain, or all of them.
fn rules(batch: &mut Batch, place: &Place, chain: &str, handle: Option<u64>) {
    let mut request = Request::new().op_delrule_do(&place.kind.header());
    {
        let attributes = request
            .encode()
            .push_table_bytes(place.table.as_bytes())
            .push_chain_bytes(chain.as_bytes());
        if let Some(handle) = handle {
            attributes.push_handle(handle);
        }
    }
    batch.push(subject(place, Some(chain)), &request);
}

fn subject(place: &Place, chain: Option<&str>) -> Subject {
    let chain = chain.map_or(String::new(), |chain| format!("chain {chain} of "));
    Subject::Removal(format!("{chain}table {} {}", place.kind, place.table))
}
