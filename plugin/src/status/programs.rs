//! The iptables programs.

use proxy_init_rules::{Config, Family, IptablesMode};

use super::Line;
use crate::firewall::{BackendKind, is_installed};

const ABOUT: &str = "programs";

/// One backend is enough: ADD tries them all.
pub(super) fn line(config: &Config) -> Line {
    if config.simulate {
        return Line::fine(ABOUT, "simulate is set, none is needed");
    }
    let has = |kind: &BackendKind, family| is_installed(*kind, family);
    let found: Vec<BackendKind> = BackendKind::REAL
        .into_iter()
        .filter(|kind| has(kind, Family::Ipv4))
        .collect();
    if found.is_empty() {
        return Line::fault(
            ABOUT,
            "none of iptables-nft-restore, iptables-restore and iptables-legacy-restore is \
             installed",
            "install iptables on this node",
        );
    }
    let wanted = BackendKind::configured(config.iptables_mode);
    if let Some(wanted) = wanted.filter(|wanted| !found.contains(wanted)) {
        let mode = IptablesMode::as_str(config.iptables_mode);
        let used = found.first().copied().unwrap_or(wanted);
        return Line::warning(
            ABOUT,
            format!("iptables-mode {mode} has no programs here, {used} is used instead"),
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
    Line::fine(ABOUT, format!("installed: {}", kinds.join(", ")))
}
