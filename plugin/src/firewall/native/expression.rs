//! The expressions of nf_tables that our rules are made of, as `nft` itself writes them.

use std::ffi::CStr;

use ipnet::IpNet;
use netlink_bindings::{
    nftables::{
        CmpOps, MetaKeys, NatRangeFlags, PayloadBase, PushExprListAttrs, PushRuleAttrs, Registers,
        VerdictCode,
    },
    utils::{Pusher as _, finalize_nested_header, push_header, push_nested_header},
};
use proxy_init_rules::{Action, Condition, Interface, Port};

use super::table::Kind;

/// A rule's expressions on their way into a request.
pub(super) type List<'a> = PushExprListAttrs<PushRuleAttrs<&'a mut Vec<u8>>>;

/// The number by which `nft` knows a comment (`NFTNL_UDATA_RULE_COMMENT`).
pub(super) const COMMENT: u8 = 0;

/// `IPPROTO_TCP`.
pub(super) const TCP: u8 = 6;

/// Where the destination port is in the transport header, and how long it is.
pub(super) const PORT_AT: u32 = 2;
pub(super) const PORT_LENGTH: u32 = 2;

/// Where source and destination address are in the network header.
pub(super) const SOURCE_V4_AT: u32 = 12;
pub(super) const SOURCE_V6_AT: u32 = 8;
pub(super) const DESTINATION_V4_AT: u32 = 16;
pub(super) const DESTINATION_V6_AT: u32 = 24;

/// The length of an interface's name in a register (`IFNAMSIZ`).
pub(super) const NAME_LENGTH: usize = 16;

/// The attributes of `redir`, which the kernel's specification of nf_tables leaves out.
pub(super) mod redir {
    pub(in super::super) const PORT: u16 = 1;
    pub(in super::super) const FLAGS: u16 = 3;
}

/// The attributes of `lookup` as the kernel has them; its specification has them in another order.
pub(super) mod lookup {
    pub(in super::super) const SET: u16 = 1;
    pub(in super::super) const REGISTER: u16 = 2;
    pub(in super::super) const MAP_REGISTER: u16 = 3;
    pub(in super::super) const SET_ID: u16 = 4;
    pub(in super::super) const FLAGS: u16 = 5;
}

const REGISTER: u32 = Registers::Reg1 as u32;

/// What must hold for the rule. Ports are looked up in the set of this name and number.
pub(super) fn condition<'a>(
    list: List<'a>,
    condition: &Condition,
    kind: Kind,
    name: &CStr,
    set: Option<u32>,
) -> List<'a> {
    match condition {
        Condition::Any => list,
        Condition::Tcp => tcp(list),
        Condition::TcpPorts(_) => {
            let list = payload(
                tcp(list),
                PayloadBase::TransportHeader,
                PORT_AT,
                PORT_LENGTH,
            );
            look_up(list, name, set.unwrap_or_default())
        }
        Condition::Source(net) => within(list, *net, kind, (SOURCE_V4_AT, SOURCE_V6_AT)),
        Condition::Destination(net) => {
            within(list, *net, kind, (DESTINATION_V4_AT, DESTINATION_V6_AT))
        }
        Condition::In(interface) => {
            compare(meta(list, MetaKeys::Iifname), &interface_name(interface))
        }
        Condition::Out(interface) => {
            compare(meta(list, MetaKeys::Oifname), &interface_name(interface))
        }
        Condition::Uid(id) => {
            let list = meta(list, MetaKeys::Skuid);
            compare(list, &id.get().to_ne_bytes())
        }
        Condition::Gid(id) => {
            let list = meta(list, MetaKeys::Skgid);
            compare(list, &id.get().to_ne_bytes())
        }
        // By name, as iptables does it: its number is the same in every namespace, but nobody
        // promises that.
        Condition::Loopback => compare(meta(list, MetaKeys::Oifname), &padded("lo")),
    }
}

/// What the rule does.
pub(super) fn action(list: List<'_>, action: Action) -> List<'_> {
    match action {
        Action::Return => verdict(list, VerdictCode::Return, None),
        Action::Jump(chain) => verdict(list, VerdictCode::Jump, Some(chain.name())),
        Action::Redirect(port) => redirect(list, port),
    }
}

fn tcp(list: List<'_>) -> List<'_> {
    compare(meta(list, MetaKeys::L4Proto), &[TCP])
}

/// A name with all its bytes, or only those that names start with.
fn interface_name(interface: &Interface) -> Vec<u8> {
    if interface.is_start() {
        interface.start().as_bytes().to_vec()
    } else {
        padded(interface.start())
    }
}

fn padded(name: &str) -> Vec<u8> {
    let mut bytes = name.as_bytes().to_vec();
    bytes.resize(NAME_LENGTH, 0);
    bytes
}

/// In a table for both families, an address is only looked at in packets of its own. It stands at
/// one place in packets of IPv4 and at another in those of IPv6.
fn within(mut list: List<'_>, net: IpNet, kind: Kind, places: (u32, u32)) -> List<'_> {
    if kind == Kind::Inet {
        let family = match net {
            IpNet::V4(_) => Kind::Ip,
            IpNet::V6(_) => Kind::Ip6,
        };
        list = compare(meta(list, MetaKeys::Nfproto), &[family as u8]);
    }
    let prefix = net.prefix_len();
    let (at, address, mask) = match net {
        IpNet::V4(net) => (
            places.0,
            net.network().octets().to_vec(),
            net.netmask().octets().to_vec(),
        ),
        IpNet::V6(net) => (
            places.1,
            net.network().octets().to_vec(),
            net.netmask().octets().to_vec(),
        ),
    };
    if prefix == 0 {
        return list;
    }
    let length = u32::try_from(address.len()).unwrap_or_default();
    list = payload(list, PayloadBase::NetworkHeader, at, length);
    if prefix != net.max_prefix_len() {
        list = masked(list, &mask);
    }
    compare(list, &address)
}

fn meta(list: List<'_>, key: MetaKeys) -> List<'_> {
    let meta = list.nested_elem().nested_data_meta();
    let meta = meta.push_key(key as u32).push_dreg(REGISTER);
    meta.end_nested().end_nested()
}

fn payload(list: List<'_>, base: PayloadBase, offset: u32, length: u32) -> List<'_> {
    let payload = list.nested_elem().nested_data_payload();
    let payload = payload
        .push_dreg(REGISTER)
        .push_base(base as u32)
        .push_offset(offset)
        .push_len(length);
    payload.end_nested().end_nested()
}

fn masked<'a>(list: List<'a>, mask: &[u8]) -> List<'a> {
    let bitwise = list.nested_elem().nested_data_bitwise();
    let bitwise = bitwise
        .push_sreg(REGISTER)
        .push_dreg(REGISTER)
        .push_len(u32::try_from(mask.len()).unwrap_or_default());
    let bitwise = bitwise.nested_mask().push_value(mask).end_nested();
    let nothing = vec![0; mask.len()];
    let bitwise = bitwise.nested_xor().push_value(&nothing).end_nested();
    bitwise.end_nested().end_nested()
}

fn compare<'a>(list: List<'a>, value: &[u8]) -> List<'a> {
    let cmp = list.nested_elem().nested_data_cmp();
    let cmp = cmp.push_sreg(REGISTER).push_op(CmpOps::Eq as u32);
    let cmp = cmp.nested_data().push_value(value).end_nested();
    cmp.end_nested().end_nested()
}

fn look_up<'a>(list: List<'a>, name: &CStr, set: u32) -> List<'a> {
    let attributes: [(u16, &[u8]); 3] = [
        (lookup::SET, name.to_bytes_with_nul()),
        (lookup::REGISTER, &REGISTER.to_be_bytes()),
        (lookup::SET_ID, &set.to_be_bytes()),
    ];
    raw(list, c"lookup", &attributes)
}

fn verdict<'a>(list: List<'a>, code: VerdictCode, chain: Option<&str>) -> List<'a> {
    let immediate = list.nested_elem().nested_data_immediate();
    let immediate = immediate.push_dreg(Registers::RegVerdict as u32);
    let mut verdict = immediate
        .nested_data()
        .nested_verdict()
        .push_code(code as u32);
    if let Some(chain) = chain {
        verdict = verdict.push_chain_bytes(chain.as_bytes());
    }
    let immediate = verdict.end_nested().end_nested();
    immediate.end_nested().end_nested()
}

fn redirect(list: List<'_>, port: Port) -> List<'_> {
    let immediate = list.nested_elem().nested_data_immediate();
    let immediate = immediate.push_dreg(REGISTER).nested_data();
    let immediate = immediate.push_value(&port.get().to_be_bytes()).end_nested();
    let list = immediate.end_nested().end_nested();

    let flags = NatRangeFlags::ProtoSpecified as u32;
    let attributes: [(u16, &[u8]); 2] = [
        (redir::PORT, &REGISTER.to_be_bytes()),
        (redir::FLAGS, &flags.to_be_bytes()),
    ];
    raw(list, c"redir", &attributes)
}

/// An expression attribute by attribute.
fn raw<'a>(list: List<'a>, name: &CStr, attributes: &[(u16, &[u8])]) -> List<'a> {
    const DATA: u16 = 2;
    let mut element = list.nested_elem().push_name(name);
    let buffer = element.as_vec_mut();
    let data = push_nested_header(buffer, DATA);
    for (kind, value) in attributes {
        push_header(
            buffer,
            *kind,
            u16::try_from(value.len()).unwrap_or_default(),
        );
        buffer.extend(*value);
    }
    finalize_nested_header(buffer, data);
    element.end_nested()
}
