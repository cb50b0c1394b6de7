//! From rules to the requests that make them.

use std::ffi::CString;

use netlink_bindings::nftables::{Request, SetElemFlags, SetFlags};
use proxy_init_rules::{Chain, Condition, PortGroup, PortRange, Rule};

use super::{
    error::Subject,
    expression,
    hook::Hook,
    message::Batch,
    table::{PRIORITY, TABLE, Table},
};

/// The name of a set that the kernel numbers itself.
const ANONYMOUS: &std::ffi::CStr = c"__set%d";

/// `inet_service`, by which `nft` knows how to print the ports of a set.
const TYPE_PORT: u32 = 13;

/// What tells `nft` that the ports of a set are in network byte order
/// (`NFTNL_UDATA_SET_KEYBYTEORDER`).
const PORTS_IN_NETWORK_ORDER: [u8; 6] = [0, 4, 2, 0, 0, 0];

/// Set elements in one request: their list must be shorter than 64 KiB.
const MOST_ELEMENTS: usize = 1024;

/// The longest comment that `nft` takes when it is fed what it printed.
const LONGEST_COMMENT: usize = 127;

/// Appends what makes a table that is not there yet.
pub(super) fn table(batch: &mut Batch, table: &Table, next_set: &mut u32) {
    let name = format!("{} {}", table.kind, TABLE.to_string_lossy());
    let header = table.kind.header();
    let mut request = Request::new()
        .set_create()
        .set_excl()
        .op_newtable_do(&header);
    request.encode().push_name(TABLE).push_flags(0);
    batch.push(Subject::Table(name), &request);
    for chain in Chain::OURS {
        let mut request = Request::new().set_create().op_newchain_do(&header);
        request
            .encode()
            .push_table(TABLE)
            .push_name_bytes(chain.name().as_bytes());
        batch.push(subject_chain(table, chain), &request);
    }
    for chain in Chain::OURS.map(Chain::base) {
        base_chain(batch, table, chain);
    }
    for rule in &table.rules {
        let set = match &rule.condition {
            Condition::TcpPorts(group) => {
                *next_set += 1;
                ports(batch, table, rule, group, *next_set);
                Some(*next_set)
            }
            _ => None,
        };
        self::rule(batch, table, rule, set);
    }
}

/// A chain that the kernel enters, for destination NAT.
fn base_chain(batch: &mut Batch, table: &Table, chain: Chain) {
    let header = table.kind.header();
    let mut request = Request::new().set_create().op_newchain_do(&header);
    request
        .encode()
        .push_table(TABLE)
        .push_name_bytes(chain.name().as_bytes())
        .push_type(c"nat")
        .nested_hook()
        .push_num(Hook::of(chain) as u32)
        .push_priority(PRIORITY)
        .end_nested();
    batch.push(subject_chain(table, chain), &request);
}

/// A set of ports as intervals, each by its first port and the one behind its last.
fn ports(batch: &mut Batch, table: &Table, rule: &Rule, group: &PortGroup, id: u32) {
    let header = table.kind.header();
    let flags = SetFlags::Anonymous as u32 | SetFlags::Constant as u32 | SetFlags::Interval as u32;
    let bounds = bounds(group.ports());
    // The kernel's specification has this number in the host's order, the kernel in the network's.
    let id = id.to_be();
    let mut request = Request::new().set_create().op_newset_do(&header);
    request
        .encode()
        .push_table(TABLE)
        .push_name(ANONYMOUS)
        .push_flags(flags)
        .push_key_type(TYPE_PORT)
        .push_key_len(2)
        .push_id(id)
        .nested_desc()
        .push_size(u32::try_from(bounds.len()).unwrap_or(u32::MAX))
        .end_nested()
        .push_userdata(&PORTS_IN_NETWORK_ORDER);
    let subject = Subject::Ports(rule.chain.to_string());
    batch.push(subject.clone(), &request);
    for some in bounds.chunks(MOST_ELEMENTS) {
        let mut request = Request::new().set_create().op_newsetelem_do(&header);
        let list = request
            .encode()
            .push_table(TABLE)
            .push_set(ANONYMOUS)
            .push_set_id(id)
            .nested_elements();
        some.iter().fold(list, |list, bound| {
            let mut element = list.nested_elem();
            if bound.is_end {
                element = element.push_flags(&(SetElemFlags::IntervalEnd as u32).to_be_bytes());
            }
            let key = element.nested_key().push_value(&bound.port.to_be_bytes());
            key.end_nested().end_nested()
        });
        batch.push(subject.clone(), &request);
    }
}

struct Bound {
    port: u16,
    is_end: bool,
}

/// What lies before the first interval is an end as well, as `nft` has it.
fn bounds(ports: &[PortRange]) -> Vec<Bound> {
    let start = ports.first().is_some_and(|first| first.low() > 0);
    let start = start.then_some(Bound {
        port: 0,
        is_end: true,
    });
    let intervals = ports.iter().flat_map(|range| {
        let first = Bound {
            port: range.low(),
            is_end: false,
        };
        let end = range.high().checked_add(1);
        let end = end.map(|port| Bound { port, is_end: true });
        [Some(first), end].into_iter().flatten()
    });
    start.into_iter().chain(intervals).collect()
}

fn rule(batch: &mut Batch, table: &Table, rule: &Rule, set: Option<u32>) {
    let header = table.kind.header();
    let mut request = Request::new()
        .set_create()
        .set_append()
        .op_newrule_do(&header);
    let attributes = request
        .encode()
        .push_table(TABLE)
        .push_chain_bytes(rule.chain.name().as_bytes());
    let mut list = attributes.nested_expressions();
    list = expression::condition(list, &rule.condition, table.kind, ANONYMOUS, set);
    list = expression::action(list, rule.action);
    list.end_nested().push_userdata(&comment(rule));
    batch.push(Subject::Rule(rule.chain.to_string()), &request);
}

/// The comment as `nft` keeps it: what it is, its length, its text.
fn comment(rule: &Rule) -> Vec<u8> {
    let text = shortened(rule.comment());
    let text = CString::new(text).unwrap_or_default().into_bytes_with_nul();
    let length = u8::try_from(text.len()).unwrap_or(u8::MAX);
    let mut data = vec![expression::COMMENT, length];
    data.extend(text);
    data
}

/// A long list of ports is cut between two of them.
fn shortened(comment: String) -> String {
    if comment.len() <= LONGEST_COMMENT {
        return comment;
    }
    let room = &comment[..LONGEST_COMMENT - 2];
    let kept = room.rfind(',').map_or(room, |comma| &room[..=comma]);
    format!("{kept}..")
}

fn subject_chain(table: &Table, chain: Chain) -> Subject {
    let (kind, name) = (table.kind, TABLE.to_string_lossy());
    Subject::Chain(format!("{chain} of table {kind} {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_ends_behind_its_last_port() {
        let shown = |ranges: &[(u16, u16)]| {
            let range = |(low, high): &(u16, u16)| PortRange::new(*low, *high).unwrap();
            let ranges: Vec<PortRange> = ranges.iter().map(range).collect();
            let bounds = bounds(&ranges);
            let one =
                |bound: &Bound| format!("{}{}", bound.port, if bound.is_end { "]" } else { "" });
            bounds.iter().map(one).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(shown(&[(80, 80), (90, 99)]), "0] 80 81] 90 100]");
        assert_eq!(shown(&[(0, 5), (65535, 65535)]), "0 6] 65535");
        assert_eq!(shown(&[(0, 65535)]), "0");
    }

    #[test]
    fn a_long_comment_is_cut_between_ports() {
        let long = format!("proxy-init/ignore-port-{}", "12345,".repeat(40));
        let short = shortened(long);
        assert!(short.len() <= LONGEST_COMMENT);
        assert!(short.ends_with("12345,.."), "{short}");
        assert_eq!(shortened("proxy-init/x".to_owned()), "proxy-init/x");
    }
}
