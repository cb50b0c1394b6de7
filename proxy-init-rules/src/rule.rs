//! One redirect rule, as a value (rules.md 3).

use std::fmt;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::{
    config::Id,
    interface::Interface,
    port::{Port, PortRange},
};

/// An address family; each has a `nat` table of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
}

/// A chain of the `nat` table that carries rules of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Chain {
    /// The kernel's `PREROUTING`: packets that come in.
    Prerouting,
    /// The kernel's `OUTPUT`: packets that a process of the pod sends.
    Output,
    /// Ours, `PROXY_INIT_REDIRECT`, to which `PREROUTING` jumps.
    Inbound,
    /// Ours, `PROXY_INIT_OUTPUT`, to which `OUTPUT` jumps.
    Outbound,
}

/// Which packets a rule is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Condition {
    /// Every packet.
    Any,
    /// Every TCP packet.
    Tcp,
    /// TCP packets to one of these ports.
    TcpPorts(PortGroup),
    /// Packets from this subnet.
    Source(IpNet),
    /// Packets to this subnet.
    Destination(IpNet),
    /// Packets that come in by this interface.
    In(Interface),
    /// Packets that leave by this interface.
    Out(Interface),
    /// Packets that a process of this user sends.
    Uid(Id),
    /// Packets that a process of this group sends.
    Gid(Id),
    /// Packets that leave over the loopback interface.
    Loopback,
}

/// What a rule does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Leaves the packet alone.
    Return,
    /// Hands the connection to a port of the pod itself.
    Redirect(Port),
    /// Asks the rules of a chain of ours.
    Jump(Chain),
}

/// The ports of one rule. One xtables `multiport` match holds at most 15 slots, of which a range
/// takes two; a set of nftables holds any number.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PortGroup(Vec<PortRange>);

/// One rule of ours.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Rule {
    /// Where it stands.
    pub chain: Chain,
    /// What it is about.
    pub condition: Condition,
    /// What it does.
    pub action: Action,
}

// === impl Family ===

impl Family {
    /// Both, in the order in which they are programmed.
    pub const ALL: [Self; 2] = [Self::Ipv4, Self::Ipv6];

    /// Whether a subnet is of this family.
    #[must_use]
    pub fn owns(self, net: &IpNet) -> bool {
        match net {
            IpNet::V4(_) => self == Self::Ipv4,
            IpNet::V6(_) => self == Self::Ipv6,
        }
    }

    /// The subnet that holds every address of the family.
    #[must_use]
    pub fn everything(self) -> IpNet {
        match self {
            Self::Ipv4 => IpNet::V4(ipnet::Ipv4Net::default()),
            Self::Ipv6 => IpNet::V6(ipnet::Ipv6Net::default()),
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ipv4 => "IPv4",
            Self::Ipv6 => "IPv6",
        })
    }
}

// === impl Chain ===

impl Chain {
    /// Our own chains. Their names are a public interface.
    pub const OURS: [Self; 2] = [Self::Inbound, Self::Outbound];

    /// The name in the kernel.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Prerouting => "PREROUTING",
            Self::Output => "OUTPUT",
            Self::Inbound => "PROXY_INIT_REDIRECT",
            Self::Outbound => "PROXY_INIT_OUTPUT",
        }
    }

    /// The chain of that name, if rules of ours stand in it.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [
            Self::Prerouting,
            Self::Output,
            Self::Inbound,
            Self::Outbound,
        ]
        .into_iter()
        .find(|chain| chain.name() == name)
    }

    /// The kernel's chain that jumps to a chain of ours; the kernel's chains are their own.
    #[must_use]
    pub fn base(self) -> Self {
        match self {
            Self::Inbound | Self::Prerouting => Self::Prerouting,
            Self::Outbound | Self::Output => Self::Output,
        }
    }

    pub(crate) fn is_inbound(self) -> bool {
        self.base() == Self::Prerouting
    }
}

impl fmt::Display for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

// === impl Condition ===

impl Condition {
    /// Whether rules of ours ask this in that chain: where a packet comes from and by what when it
    /// comes in, where it goes and whose it is when it leaves.
    pub(crate) fn can_stand_in(&self, chain: Chain) -> bool {
        match self {
            Self::Any | Self::Tcp | Self::TcpPorts(_) => true,
            Self::Source(_) | Self::In(_) => chain.is_inbound(),
            Self::Destination(_) | Self::Out(_) | Self::Uid(_) | Self::Gid(_) | Self::Loopback => {
                !chain.is_inbound()
            }
        }
    }
}

// === impl PortGroup ===

impl PortGroup {
    /// What the kernel's `multiport` match holds (`XT_MULTI_PORTS`).
    pub const MOST_SLOTS: usize = 15;

    /// Puts ports into as few groups as their order allows. No ports, no groups.
    #[must_use]
    pub fn split(ports: &[PortRange]) -> Vec<Self> {
        let mut groups: Vec<Self> = Vec::new();
        for port in ports {
            match groups.last_mut() {
                Some(group) if group.slots() + port.slots() <= Self::MOST_SLOTS => {
                    group.0.push(*port);
                }
                _ => groups.push(Self(vec![*port])),
            }
        }
        groups
    }

    /// A group of exactly these, however many; `None` if there are none.
    #[must_use]
    pub fn new(ports: Vec<PortRange>) -> Option<Self> {
        (!ports.is_empty()).then_some(Self(ports))
    }

    /// The ports of all these groups in one, sorted, those that touch or overlap made one: as a
    /// set of nftables holds them. `None` if there are none.
    #[must_use]
    pub fn joined<'a>(groups: impl IntoIterator<Item = &'a Self>) -> Option<Self> {
        let ports = groups.into_iter().flat_map(|group| &group.0).copied();
        Self::new(PortRange::joined(ports))
    }

    /// The ports.
    #[must_use]
    pub fn ports(&self) -> &[PortRange] {
        &self.0
    }

    pub(crate) fn slots(&self) -> usize {
        self.0.iter().map(|port| port.slots()).sum()
    }
}

/// `4190,4191,8000:8010`: as `multiport` takes it.
impl fmt::Display for PortGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, port) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            match port.slots() {
                1 => write!(f, "{comma}{}", port.low())?,
                _ => write!(f, "{comma}{}:{}", port.low(), port.high())?,
            }
        }
        Ok(())
    }
}

// === impl Rule ===

impl Rule {
    /// The jump from the kernel's chain to `ours`.
    #[must_use]
    pub fn jump_to(ours: Chain) -> Self {
        Self {
            chain: ours.base(),
            condition: Condition::Any,
            action: Action::Jump(ours),
        }
    }

    /// Whether both are about ports, and do the same to them at the same place.
    pub(crate) fn differs_in_ports(&self, other: &Self) -> bool {
        let is_about = |rule: &Self| matches!(rule.condition, Condition::TcpPorts(_));
        let same = (self.chain, self.action) == (other.chain, other.action);
        same && is_about(self) && is_about(other)
    }

    /// One rule for the ports of all these, which differ in nothing else.
    pub(crate) fn joined(rules: &[Self]) -> Option<Self> {
        let groups = rules.iter().filter_map(|rule| match &rule.condition {
            Condition::TcpPorts(group) => Some(group),
            _ => None,
        });
        let first = rules.first()?.clone();
        Some(match PortGroup::joined(groups) {
            Some(ports) => Self {
                condition: Condition::TcpPorts(ports),
                ..first
            },
            None => first,
        })
    }

    /// The comment that marks the rule in the kernel. A public interface: other tools look for it.
    #[must_use]
    pub fn comment(&self) -> String {
        let text = match (&self.condition, self.action) {
            (_, Action::Jump(chain)) if chain.is_inbound() => {
                "install-proxy-init-prerouting".to_owned()
            }
            (_, Action::Jump(_)) => "install-proxy-init-output".to_owned(),
            (Condition::TcpPorts(ports), Action::Return) => format!("ignore-port-{ports}"),
            (Condition::TcpPorts(ports), Action::Redirect(_)) => {
                format!("redirect-port-{ports}-to-proxy-port")
            }
            (Condition::Source(net) | Condition::Destination(net), _) => {
                format!("ignore-subnet-{net}")
            }
            (Condition::In(interface) | Condition::Out(interface), _) => {
                format!("ignore-interface-{interface}")
            }
            (Condition::Uid(_), _) => "ignore-proxy-user-id".to_owned(),
            (Condition::Gid(_), _) => "ignore-proxy-group-id".to_owned(),
            (Condition::Loopback, _) => "ignore-loopback".to_owned(),
            (Condition::Any | Condition::Tcp, _) if self.chain.is_inbound() => {
                "redirect-all-incoming-to-proxy-port".to_owned()
            }
            (Condition::Any | Condition::Tcp, _) => {
                "redirect-all-outgoing-to-proxy-port".to_owned()
            }
        };
        format!("proxy-init/{text}")
    }

    /// What the rule is there for, in words.
    #[must_use]
    pub fn meaning(&self) -> String {
        let way = if self.chain.is_inbound() {
            "inbound"
        } else {
            "outbound"
        };
        match (&self.condition, self.action) {
            (_, Action::Jump(chain)) => format!("{way} traffic is handed to {chain}"),
            (condition, Action::Return) => {
                format!("{way} connections {} are left alone", about(condition))
            }
            (condition, Action::Redirect(port)) => {
                format!(
                    "{way} connections {} go to the proxy's port {port}",
                    about(condition)
                )
            }
        }
    }

    /// The rule without its chain, in the words and the order of `iptables-save`.
    #[must_use]
    pub fn spec(&self) -> String {
        let condition = match &self.condition {
            Condition::Any => String::new(),
            Condition::Tcp => "-p tcp ".to_owned(),
            Condition::TcpPorts(ports) => format!("-p tcp -m multiport --dports {ports} "),
            Condition::Source(net) => format!("-s {net} "),
            Condition::Destination(net) => format!("-d {net} "),
            Condition::In(interface) => format!("-i {interface} "),
            Condition::Out(interface) => format!("-o {interface} "),
            Condition::Uid(id) => format!("-m owner --uid-owner {id} "),
            Condition::Gid(id) => format!("-m owner --gid-owner {id} "),
            Condition::Loopback => "-o lo ".to_owned(),
        };
        let action = match self.action {
            Action::Return => "RETURN".to_owned(),
            Action::Redirect(port) => format!("REDIRECT --to-ports {port}"),
            Action::Jump(chain) => chain.name().to_owned(),
        };
        let comment = self.comment();
        format!("{condition}-m comment --comment \"{comment}\" -j {action}")
    }
}

/// `-A CHAIN …`: as `iptables-restore` takes it.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "-A {} {}", self.chain, self.spec())
    }
}

fn about(condition: &Condition) -> String {
    match condition {
        Condition::Any => "of every protocol".to_owned(),
        Condition::Tcp => "to every TCP port".to_owned(),
        Condition::TcpPorts(ports) => format!("to TCP port {ports}"),
        Condition::Source(net) => format!("from {net}"),
        Condition::Destination(net) => format!("to {net}"),
        Condition::In(interface) | Condition::Out(interface) => {
            format!("over interface {interface}")
        }
        Condition::Uid(id) => format!("of uid {id} (the proxy)"),
        Condition::Gid(id) => format!("of gid {id} (the proxy)"),
        Condition::Loopback => "over loopback".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ranges() -> impl Strategy<Value = Vec<PortRange>> {
        let range = (any::<u16>(), any::<u16>(), any::<bool>()).prop_map(|(a, b, single)| {
            PortRange::new(a.min(b), if single { a.min(b) } else { a.max(b) }).unwrap()
        });
        proptest::collection::vec(range, 0..100)
    }

    #[test]
    fn a_group_is_full_at_fifteen_slots() {
        let ports: Vec<PortRange> = (1..=16).map(PortRange::single).collect();
        let shown: Vec<String> = PortGroup::split(&ports)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(shown, ["1,2,3,4,5,6,7,8,9,10,11,12,13,14,15", "16"]);
        assert_eq!(PortGroup::split(&[]), []);
        assert_eq!(PortGroup::new(vec![]), None);
    }

    proptest! {
        #[test]
        fn groups_fit_lose_nothing_and_are_as_few_as_can_be(ports in ranges()) {
            let groups = PortGroup::split(&ports);
            let all: Vec<PortRange> = groups.iter().flat_map(|g| g.ports().to_vec()).collect();
            prop_assert_eq!(all, ports);
            for group in &groups {
                prop_assert!((1..=PortGroup::MOST_SLOTS).contains(&group.slots()));
                // xt_comment holds 255 characters.
                let comment = format!("proxy-init/redirect-port-{group}-to-proxy-port");
                prop_assert!(comment.len() < 256);
            }
            for pair in groups.windows(2) {
                prop_assert!(pair[0].slots() + pair[1].ports()[0].slots() > PortGroup::MOST_SLOTS);
            }
        }
    }
}
