//! The tables of our own: what nftables calls a family, and what we put where.

use std::{ffi::CStr, fmt};

use netlink_bindings::nftables::Nfgenmsg;
use proxy_init_rules::{Action, Chain, Condition, Family, Rule, RuleSet};

/// The name of our tables.
pub(super) const TABLE: &CStr = c"linkerd-cni";

/// The priority of destination NAT, in both hooks: where iptables has its `nat` table.
pub(super) const PRIORITY: i32 = -100;

/// What a table of nftables is for (`NFPROTO_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Kind {
    /// Both families.
    Inet = 1,
    /// IPv4.
    Ip = 2,
    /// IPv6.
    Ip6 = 10,
}

/// Whether one table holds both families.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// It does (Linux 5.2 and later).
    Shared,
    /// Each family has a table of its own.
    Apart,
}

/// A table with the rules that go into it, in order.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) kind: Kind,
    pub(super) rules: Vec<Rule>,
}

// === impl Kind ===

impl Kind {
    pub(super) const ALL: [Self; 3] = [Self::Inet, Self::Ip, Self::Ip6];

    pub(super) fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == number)
    }

    /// The kind that is for one family only.
    pub(super) fn of(family: Family) -> Self {
        match family {
            Family::Ipv4 => Self::Ip,
            Family::Ipv6 => Self::Ip6,
        }
    }

    /// Whether connections of this family meet its chains.
    pub(super) fn holds(self, family: Family) -> bool {
        self == Self::Inet || self == Self::of(family)
    }

    pub(super) fn header(self) -> Nfgenmsg {
        let mut header = Nfgenmsg::new();
        header.nfgen_family = self as u8;
        header
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Inet => "inet",
            Self::Ip => "ip",
            Self::Ip6 => "ip6",
        })
    }
}

// === impl Table ===

impl Table {
    /// The tables for these rule sets. One family alone needs no shared table, and so nothing that
    /// keeps the other out of it.
    pub(super) fn all(sets: &[RuleSet], layout: Layout) -> Vec<Self> {
        match sets {
            [one, other] if layout == Layout::Shared => vec![Self {
                kind: Kind::Inet,
                rules: merged(one, other),
            }],
            sets => sets.iter().map(Self::of).collect(),
        }
    }

    fn of(rules: &RuleSet) -> Self {
        Self {
            kind: Kind::of(rules.family()),
            rules: rules.rules().to_vec(),
        }
    }
}

/// The families only differ in the subnets, which stand before the first redirect of a chain.
fn merged(one: &RuleSet, other: &RuleSet) -> Vec<Rule> {
    let mut rules = one.rules().to_vec();
    let is_subnet = |rule: &&Rule| {
        matches!(
            rule.condition,
            Condition::Source(_) | Condition::Destination(_)
        )
    };
    for chain in Chain::OURS {
        let is_redirect =
            |rule: &Rule| rule.chain == chain && matches!(rule.action, Action::Redirect(_));
        let at = rules.iter().position(is_redirect).unwrap_or(rules.len());
        rules.splice(at..at, other.of(chain).filter(is_subnet).cloned());
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;
    use proxy_init_rules::{Config, RawConfig};

    fn sets() -> [RuleSet; 2] {
        let raw = RawConfig::from_value(&serde_json::json!({
            "incoming-proxy-port": 4143, "outgoing-proxy-port": 4140,
            "ports-to-redirect": [1, 3], "inbound-ports-to-ignore": ["25"],
            "subnets-to-ignore": ["fd00::/8", "10.0.0.0/8"], "interfaces-to-ignore": ["net1"],
            "outbound-subnets-to-ignore": ["10.2.0.0/16", "fd02::/16"],
        }));
        let config = Config::try_from(raw.unwrap()).unwrap();
        Family::ALL.map(|family| RuleSet::new(&config, family).joined())
    }

    #[test]
    fn the_shared_table_has_the_subnets_of_both_families() {
        let tables = Table::all(&sets(), Layout::Shared);
        let [
            Table {
                kind: Kind::Inet,
                rules,
            },
        ] = tables.as_slice()
        else {
            panic!("{tables:?}");
        };
        let shown: Vec<String> = rules.iter().map(Rule::comment).collect();
        assert_eq!(
            shown[..5],
            [
                "proxy-init/ignore-interface-net1",
                "proxy-init/ignore-port-25",
                "proxy-init/ignore-subnet-10.0.0.0/8",
                "proxy-init/ignore-subnet-fd00::/8",
                "proxy-init/redirect-port-1,3-to-proxy-port"
            ]
        );
        assert_eq!(
            shown[6..11],
            [
                "proxy-init/ignore-loopback",
                "proxy-init/ignore-interface-net1",
                "proxy-init/ignore-subnet-10.2.0.0/16",
                "proxy-init/ignore-subnet-fd02::/16",
                "proxy-init/redirect-all-outgoing-to-proxy-port"
            ]
        );
    }

    #[test]
    fn one_family_never_shares_a_table() {
        let [ipv4, ipv6] = sets();
        let kinds = |sets: &[RuleSet], layout| {
            let tables = Table::all(sets, layout);
            tables.iter().map(|table| table.kind).collect::<Vec<_>>()
        };
        assert_eq!(
            kinds(std::slice::from_ref(&ipv4), Layout::Shared),
            [Kind::Ip]
        );
        assert_eq!(
            kinds(std::slice::from_ref(&ipv6), Layout::Shared),
            [Kind::Ip6]
        );
        assert_eq!(kinds(&[ipv4, ipv6], Layout::Apart), [Kind::Ip, Kind::Ip6]);
    }
}
