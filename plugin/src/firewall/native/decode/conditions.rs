//! Conditions: a register compared with something.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use netlink_bindings::{
    nftables::{CmpOps, ExprCmpAttrs, LookupFlags, MetaKeys, PayloadBase, RangeAttrs, RangeOps},
    utils::find_attr,
};
use proxy_init_rules::{Family, PortGroup};

use super::{
    registers::{Content, Registers},
    words::Words,
};
use crate::firewall::native::{
    expression::{
        DESTINATION_V4_AT, DESTINATION_V6_AT, NAME_LENGTH, PORT_AT, PORT_LENGTH, SOURCE_V4_AT,
        SOURCE_V6_AT, TCP, lookup,
    },
    snapshot::Element,
    table::Kind,
};

/// `cmp`: equal or not, or a bound.
pub(super) fn compare(data: &[u8], registers: &Registers, words: &mut Words) {
    let cmp = ExprCmpAttrs::new(data);
    let content = cmp.get_sreg().ok().and_then(|sreg| registers.get(sreg));
    let value = cmp.get_data().and_then(|data| data.get_value());
    let (Some(content), Ok(value), Ok(op)) = (content, value, cmp.get_op()) else {
        return words.unknown("cmp");
    };
    let is = |kind: CmpOps| op == kind as u32;
    let understood = if is(CmpOps::Eq) || is(CmpOps::Neq) {
        equal(content, value, is(CmpOps::Neq), words)
    } else {
        bound(content, value, op, words)
    };
    if !understood {
        words.unknown(&content.name());
    }
}

/// `range`: between two bounds.
pub(super) fn range(data: &[u8], registers: &Registers, words: &mut Words) {
    let range = RangeAttrs::new(data);
    let content = range.get_sreg().ok().and_then(|sreg| registers.get(sreg));
    let bound = |data: Result<netlink_bindings::nftables::IterableDataAttrs<'_>, _>| {
        data.ok().and_then(|data| port(data.get_value().ok()?))
    };
    let bounds = (bound(range.get_from_data()), bound(range.get_to_data()));
    match (content, bounds) {
        (Some(content), (Some(low), Some(high))) if is_port(content) => {
            let is_not = range.get_op().is_ok_and(|op| op == RangeOps::Neq as u32);
            words.matches.push(ports(&format!("{low}:{high}"), is_not));
        }
        (content, _) => words.unknown(&content.map_or("range".to_owned(), Content::name)),
    }
}

/// The name of the set that a `lookup` is about.
pub(super) fn set_name(data: &[u8]) -> Option<&str> {
    let name = find_attr(data, lookup::SET)?;
    std::str::from_utf8(name.strip_suffix(&[0])?).ok()
}

/// `lookup`: in a set.
pub(super) fn look_up<'a>(
    data: &[u8],
    registers: &Registers,
    set: impl Fn(&str) -> Option<&'a [Element]>,
    words: &mut Words,
) {
    let number = |kind: u16| {
        let bytes = find_attr(data, kind)?;
        Some(u32::from_be_bytes(bytes.try_into().ok()?))
    };
    let content = number(lookup::REGISTER).and_then(|register| registers.get(register));
    let elements = set_name(data).and_then(set);
    let is_not = number(lookup::FLAGS).unwrap_or_default() & LookupFlags::Invert as u32 != 0;
    let is_map = number(lookup::MAP_REGISTER).is_some();
    let group = elements.and_then(super::ports).and_then(PortGroup::new);
    match (content, group) {
        (Some(content), Some(group)) if is_port(content) && !is_map => {
            let not = if is_not { "! " } else { "" };
            words
                .matches
                .push(format!("-m multiport {not}--dports {group}"));
        }
        (Some(content), _) => words.unknown(&format!("{}/lookup", content.name())),
        (None, _) => words.unknown("lookup"),
    }
}

fn equal(content: &Content, value: &[u8], is_not: bool, words: &mut Words) -> bool {
    let not = if is_not { "! " } else { "" };
    match content {
        content if content.is_meta(MetaKeys::L4Proto) => match value {
            [number] => {
                let protocol = protocol(*number);
                words.protocol = Some(format!("{not}-p {protocol}"));
            }
            _ => return false,
        },
        content if content.is_meta(MetaKeys::Nfproto) => {
            let family = value.first().and_then(|number| Kind::family(*number));
            match (family, is_not) {
                (Some(family), false) => words.only_for = Some(family),
                (Some(Family::Ipv4), true) => words.only_for = Some(Family::Ipv6),
                (Some(Family::Ipv6), true) => words.only_for = Some(Family::Ipv4),
                (None, _) => return false,
            }
        }
        content if content.is_meta(MetaKeys::Iifname) => {
            words.head.push(format!("{not}-i {}", interface(value)));
        }
        content if content.is_meta(MetaKeys::Oifname) => {
            words.head.push(format!("{not}-o {}", interface(value)));
        }
        content if content.is_meta(MetaKeys::Skuid) => return owner("uid", value, not, words),
        content if content.is_meta(MetaKeys::Skgid) => return owner("gid", value, not, words),
        content if is_port(content) => match port(value) {
            Some(port) => words.matches.push(ports(&port.to_string(), is_not)),
            None => return false,
        },
        content => return address(content, value, not, words),
    }
    true
}

/// A port from one on or up to one. A second bound of the same kind has no words.
fn bound(content: &Content, value: &[u8], op: u32, words: &mut Words) -> bool {
    let (Some(port), true) = (port(value), is_port(content)) else {
        return false;
    };
    let is = |kind: CmpOps| op == kind as u32;
    let is_lowest = is(CmpOps::Gte) || is(CmpOps::Gt);
    let bound = match op {
        _ if is(CmpOps::Gt) => port.checked_add(1),
        _ if is(CmpOps::Lt) => port.checked_sub(1),
        _ => Some(port),
    };
    let place = if is_lowest {
        &mut words.from_port
    } else {
        &mut words.to_port
    };
    match (bound, &place) {
        (Some(_), None) => *place = bound,
        _ => return false,
    }
    true
}

fn ports(list: &str, is_not: bool) -> String {
    let not = if is_not { "! " } else { "" };
    format!("-m tcp {not}--dport {list}")
}

fn is_port(content: &Content) -> bool {
    content.is_transport(PORT_AT, PORT_LENGTH)
}

fn port(value: &[u8]) -> Option<u16> {
    Some(u16::from_be_bytes(value.try_into().ok()?))
}

fn protocol(number: u8) -> String {
    match number {
        TCP => "tcp".to_owned(),
        17 => "udp".to_owned(),
        1 => "icmp".to_owned(),
        58 => "ipv6-icmp".to_owned(),
        other => other.to_string(),
    }
}

/// A name that is cut off before its end stands for all that start so.
fn interface(value: &[u8]) -> String {
    let end = value.iter().position(|byte| *byte == 0);
    let is_prefix = end.is_none() && value.len() < NAME_LENGTH;
    let name = String::from_utf8_lossy(&value[..end.unwrap_or(value.len())]);
    format!("{name}{}", if is_prefix { "+" } else { "" })
}

fn owner(kind: &str, value: &[u8], not: &str, words: &mut Words) -> bool {
    let Ok(number) = value.try_into().map(u32::from_ne_bytes) else {
        return false;
    };
    words
        .matches
        .push(format!("-m owner {not}--{kind}-owner {number}"));
    true
}

/// A source or destination, or the start of one.
fn address(content: &Content, value: &[u8], not: &str, words: &mut Words) -> bool {
    let Content::Payload {
        base, offset, mask, ..
    } = content
    else {
        return false;
    };
    if *base != PayloadBase::NetworkHeader as u32 {
        return false;
    }
    let (option, is_v4) = match *offset {
        SOURCE_V4_AT => ("-s", true),
        DESTINATION_V4_AT => ("-d", true),
        SOURCE_V6_AT => ("-s", false),
        DESTINATION_V6_AT => ("-d", false),
        _ => return false,
    };
    let Some(net) = subnet(value, mask.as_deref(), is_v4) else {
        return false;
    };
    words.head.push(format!("{not}{option} {net}"));
    true
}

fn subnet(value: &[u8], mask: Option<&[u8]>, is_v4: bool) -> Option<IpNet> {
    let most = if is_v4 { 4 } else { 16 };
    let mut octets = [0; 16];
    octets
        .get_mut(..value.len())
        .filter(|_| value.len() <= most)?
        .copy_from_slice(value);
    let address: IpAddr = if is_v4 {
        Ipv4Addr::new(octets[0], octets[1], octets[2], octets[3]).into()
    } else {
        Ipv6Addr::from(octets).into()
    };
    let length = match mask {
        Some(mask) => prefix(mask)?,
        None => value.len() * 8,
    };
    IpNet::new(address, u8::try_from(length).ok()?).ok()
}

/// The number of leading ones; `None` if there are others behind a zero.
fn prefix(mask: &[u8]) -> Option<usize> {
    let bits = || {
        mask.iter()
            .flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1))
    };
    let length = bits().take_while(|bit| *bit == 1).count();
    bits().skip(length).all(|bit| bit == 0).then_some(length)
}
