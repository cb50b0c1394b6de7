//! What sets the rules: nf_tables itself, or the iptables programs.

use proxy_init_rules::{Config, Family};

use super::Line;
use crate::firewall::{BackendKind, NativeError, is_installed, is_usable, order};

const ABOUT: &str = "programs";

/// One backend is enough: ADD tries them all.
pub(super) fn line(config: &Config) -> Line {
    if config.simulate {
        return Line::fine(ABOUT, "simulate is set, none is needed");
    }
    let native = is_usable();
    let has = |kind: &BackendKind, family| match kind {
        BackendKind::Native => native.is_ok(),
        program => is_installed(*program, family),
    };
    let tried = order(config.iptables_mode, false).into_iter();
    let found: Vec<BackendKind> = tried.filter(|kind| has(kind, Family::Ipv4)).collect();
    let Some(used) = found.first() else {
        return none(native.err());
    };
    let wanted = BackendKind::configured(config.iptables_mode);
    if let Some(wanted) = wanted.filter(|wanted| wanted != used) {
        let why = match (wanted, &native) {
            (BackendKind::Native, Err(error)) => format!("does not work here ({error})"),
            _ => "has no programs here".to_owned(),
        };
        return Line::warning(
            ABOUT,
            format!("iptables-mode {wanted} {why}, {used} is used instead"),
            "set iptables-mode to what this node has",
        );
    }
    if config.ipv6 && !found.iter().any(|kind| has(kind, Family::Ipv6)) {
        return Line::warning(
            ABOUT,
            "none of the ip6tables programs is installed, a pod with an IPv6 address cannot start",
            "install ip6tables on this node",
        );
    }
    let kinds: Vec<String> = found.iter().map(BackendKind::to_string).collect();
    Line::fine(ABOUT, format!("usable: {}", kinds.join(", ")))
}

/// A fault only if nf_tables will not answer later either.
fn none(native: Option<NativeError>) -> Line {
    let why = native.as_ref().map_or(String::new(), ToString::to_string);
    let text = format!(
        "{why}; and none of iptables-nft-restore, iptables-restore and iptables-legacy-restore is \
         installed"
    );
    let mend = "load the kernel module nf_tables, or install iptables on this node";
    match native {
        Some(error) if !error.is_lasting() => Line::warning(ABOUT, text, mend),
        _ => Line::fault(ABOUT, text, mend),
    }
}
