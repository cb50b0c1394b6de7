//! The iptables programs.

use std::path::PathBuf;

use proxy_init_rules::{Config, Family, IptablesMode};

use super::Line;
use crate::firewall::{BackendKind, installed};

const ABOUT: &str = "programs";

/// One backend is enough: ADD tries them all.
pub(super) fn line(config: &Config) -> Line {
    if config.simulate {
        return Line::fine(ABOUT, "simulate is set, none is needed");
    }
    let found: Vec<(BackendKind, PathBuf)> = BackendKind::REAL
        .into_iter()
        .filter_map(|kind| Some((kind, installed(kind, Family::Ipv4)?)))
        .collect();
    if found.is_empty() {
        return Line::fault(
            ABOUT,
            "none of iptables-nft-restore, iptables-restore and iptables-legacy-restore is \
             installed",
            "install iptables on this node",
        );
    }
    let has = |kind| found.iter().any(|(found, _)| *found == kind);
    let wanted = BackendKind::configured(config.iptables_mode);
    if let Some(wanted) = wanted.filter(|wanted| !has(*wanted)) {
        let mode = IptablesMode::as_str(config.iptables_mode);
        let used = found.first().map_or(wanted, |(kind, _)| *kind);
        return Line::warning(
            ABOUT,
            format!("iptables-mode {mode} has no programs here, {used} is used instead"),
            "set iptables-mode to what this node has",
        );
    }
    if config.ipv6
        && !found
            .iter()
            .any(|(kind, _)| installed(*kind, Family::Ipv6).is_some())
    {
        return Line::warning(
            ABOUT,
            "none of the ip6tables programs is installed, a pod with an IPv6 address cannot start",
            "install ip6tables on this node",
        );
    }
    let shown = found
        .iter()
        .map(|(kind, path)| format!("{kind}: {}", path.display()));
    Line::fine(ABOUT, shown.collect::<Vec<_>>().join(", "))
}
