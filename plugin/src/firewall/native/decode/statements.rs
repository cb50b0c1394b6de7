//! What a rule does, and what it does on the way.

use std::net::{Ipv4Addr, Ipv6Addr};

use netlink_bindings::{
    nftables::{
        CompatMatchAttrs, ExprImmediateAttrs, ExprNatAttrs, ExprTargetAttrs, IterableVerdictAttrs,
        VerdictCode,
    },
    utils::find_attr,
};

use super::{
    registers::Registers,
    words::{Words, name},
};
use crate::firewall::native::{expression::redir, table::Kind};

/// Reads an expression that loads and compares nothing.
pub(super) fn read(name: &str, data: &[u8], registers: &Registers, words: &mut Words) {
    match name {
        "immediate" => match verdict(data).as_ref().and_then(target) {
            Some(target) => words.target = Some(target),
            None => words.unknown(name),
        },
        "redir" => words.target = Some(redirect(data, registers)),
        "nat" => {
            let family = ExprNatAttrs::new(data).get_family().ok();
            let family = family.and_then(|number| Kind::family(u8::try_from(number).ok()?));
            words.only_for = family.or(words.only_for);
            words.target = Some(nat(data, registers));
        }
        "masq" => words.target = Some("-j MASQUERADE".to_owned()),
        "tproxy" => words.target = Some("-j TPROXY".to_owned()),
        "reject" => words.target = Some("-j REJECT".to_owned()),
        "queue" => words.target = Some("-j NFQUEUE".to_owned()),
        "synproxy" => words.target = Some("-j SYNPROXY".to_owned()),
        "counter" | "last" => {}
        "log" => words.aside = Some("-j LOG".to_owned()),
        "notrack" => words.aside = Some("-j NOTRACK".to_owned()),
        // Those that set something: what loads it has been read before.
        "meta" => words.aside = Some("-j MARK".to_owned()),
        "ct" => words.aside = Some("-j CONNMARK".to_owned()),
        "target" => {
            let name = ExprTargetAttrs::new(data).get_name().ok();
            let name = name.and_then(|name| name.to_str().ok()).unwrap_or("?");
            words.target = Some(format!("-j {name}"));
        }
        "match" => {
            let name = CompatMatchAttrs::new(data).get_name().ok();
            match name.and_then(|name| name.to_str().ok()) {
                Some("comment") => {}
                name => words.unknown(&format!("xt/{}", name.unwrap_or("?"))),
            }
        }
        name => words.unknown(name),
    }
}

/// The chain that an `immediate` jumps or goes to.
pub(super) fn target_chain(data: &[u8]) -> Option<String> {
    let verdict = verdict(data)?;
    Some(verdict.get_chain().ok()?.to_str().ok()?.to_owned())
}

fn verdict(data: &[u8]) -> Option<IterableVerdictAttrs<'_>> {
    ExprImmediateAttrs::new(data)
        .get_data()
        .ok()?
        .get_verdict()
        .ok()
}

fn target(verdict: &IterableVerdictAttrs<'_>) -> Option<String> {
    let code = VerdictCode::from_value(verdict.get_code().ok()?.into())?;
    let chain = verdict
        .get_chain()
        .ok()
        .and_then(|chain| chain.to_str().ok());
    Some(match (code, chain) {
        (VerdictCode::Accept, _) => "-j ACCEPT".to_owned(),
        (VerdictCode::Drop, _) => "-j DROP".to_owned(),
        (VerdictCode::Return, _) => "-j RETURN".to_owned(),
        (VerdictCode::Queue, _) => "-j NFQUEUE".to_owned(),
        (VerdictCode::Continue, _) => String::new(),
        (VerdictCode::Jump, Some(chain)) => format!("-j {}", name(chain)),
        (VerdictCode::Goto, Some(chain)) => format!("-g {}", name(chain)),
        _ => return None,
    })
}

fn redirect(data: &[u8], registers: &Registers) -> String {
    let register = find_attr(data, redir::PORT).and_then(|bytes| bytes.try_into().ok());
    let port = register.and_then(|bytes| registers.value(u32::from_be_bytes(bytes)));
    match port.and_then(|port| port.get(..2)) {
        Some([high, low]) => {
            let port = u16::from_be_bytes([*high, *low]);
            format!("-j REDIRECT --to-ports {port}")
        }
        _ => "-j REDIRECT".to_owned(),
    }
}

fn nat(data: &[u8], registers: &Registers) -> String {
    const SOURCE: u32 = 0;
    let nat = ExprNatAttrs::new(data);
    let (target, option) = match nat.get_type() {
        Ok(SOURCE) => ("SNAT", "--to-source"),
        _ => ("DNAT", "--to-destination"),
    };
    let value = |register: u32| registers.value(register);
    let address = nat
        .get_reg_addr_min()
        .ok()
        .and_then(value)
        .and_then(address);
    let port = nat.get_reg_proto_min().ok().and_then(value);
    let port = port.and_then(|port| port.get(..2)?.try_into().ok());
    let port = port.map(|port| format!(":{}", u16::from_be_bytes(port)));
    match (address, port) {
        (None, None) => format!("-j {target}"),
        (address, port) => {
            let (address, port) = (address.unwrap_or_default(), port.unwrap_or_default());
            format!("-j {target} {option} {address}{port}")
        }
    }
}

fn address(bytes: &[u8]) -> Option<String> {
    let ipv4 = <[u8; 4]>::try_from(bytes).map(|octets| Ipv4Addr::from(octets).to_string());
    let ipv6 = <[u8; 16]>::try_from(bytes).map(|octets| format!("[{}]", Ipv6Addr::from(octets)));
    ipv4.or(ipv6).ok()
}
