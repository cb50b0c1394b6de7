//! The rules of one address family, in their order (rules.md 3).

use ipnet::IpNet;

use crate::{
    config::Config,
    interface::Interface,
    port::{Port, PortRange},
    rule::{Action, Chain, Condition, Family, PortGroup, Rule},
};

/// All rules that one address family of a pod gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleSet {
    family: Family,
    rules: Vec<Rule>,
}

impl RuleSet {
    /// The rules that `config` asks for.
    #[must_use]
    pub fn new(config: &Config, family: Family) -> Self {
        let rules = inbound(config, family)
            .into_iter()
            .chain([Rule::jump_to(Chain::Inbound)])
            .chain(outbound(config, family))
            .chain([Rule::jump_to(Chain::Outbound)])
            .collect();
        Self { family, rules }
    }

    /// A set of rules found somewhere, in the order of [`RuleSet::new`].
    pub(crate) fn found(family: Family, rules: Vec<Rule>) -> Self {
        Self { family, rules }
    }

    /// The family.
    #[must_use]
    pub fn family(&self) -> Family {
        self.family
    }

    /// The rules: of `PROXY_INIT_REDIRECT`, the jump to it, of `PROXY_INIT_OUTPUT`, the jump to it.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The same rules with each list of ports in one rule, sorted, ports that touch or overlap made
    /// one: as nftables holds them, which has no limit of 15 and takes no overlaps.
    #[must_use]
    pub fn joined(&self) -> Self {
        let runs = self.rules.chunk_by(|one, next| one.differs_in_ports(next));
        let family = self.family;
        Self {
            family,
            rules: runs.filter_map(Rule::joined).collect(),
        }
    }

    /// The rules of one chain.
    pub fn of(&self, chain: Chain) -> impl Iterator<Item = &Rule> {
        self.rules.iter().filter(move |rule| rule.chain == chain)
    }
}

fn inbound(config: &Config, family: Family) -> Vec<Rule> {
    let chain = Chain::Inbound;
    let mut rules = over(chain, &config.interfaces_to_ignore, Condition::In);
    rules.extend(ignored(chain, &config.inbound_ports_to_ignore));
    let subnets = &config.subnets_to_ignore;
    rules.extend(subnets_of(family, chain, subnets, Condition::Source));
    let only = &config.ports_to_redirect;
    rules.extend(redirected(chain, only, config.incoming_proxy_port));
    rules
}

fn outbound(config: &Config, family: Family) -> Vec<Rule> {
    let chain = Chain::Outbound;
    let user = config.proxy_uid.map(Condition::Uid);
    let group = config.proxy_gid.map(Condition::Gid);
    let own = user.into_iter().chain(group).chain([Condition::Loopback]);
    let mut rules: Vec<Rule> = own.map(|condition| left_alone(chain, condition)).collect();
    rules.extend(over(chain, &config.interfaces_to_ignore, Condition::Out));
    rules.extend(ignored(chain, &config.outbound_ports_to_ignore));
    let subnets = &config.outbound_subnets_to_ignore;
    rules.extend(subnets_of(family, chain, subnets, Condition::Destination));
    let only = &config.outbound_ports_to_redirect;
    rules.extend(redirected(chain, only, config.outgoing_proxy_port));
    rules
}

fn left_alone(chain: Chain, condition: Condition) -> Rule {
    Rule {
        chain,
        condition,
        action: Action::Return,
    }
}

/// What goes over loopback is left alone without: outbound by a rule of its own, and what then
/// comes in has been through the table already.
fn over(chain: Chain, interfaces: &[Interface], by: fn(Interface) -> Condition) -> Vec<Rule> {
    let others = interfaces.iter().filter(|one| !one.is_loopback());
    others
        .map(|one| left_alone(chain, by(one.clone())))
        .collect()
}

fn ignored(chain: Chain, ports: &[PortRange]) -> Vec<Rule> {
    let groups = PortGroup::split(ports).into_iter();
    groups
        .map(|ports| left_alone(chain, Condition::TcpPorts(ports)))
        .collect()
}

/// A subnet of the other family would make the whole transaction fail.
fn subnets_of(
    family: Family,
    chain: Chain,
    subnets: &[IpNet],
    at: fn(IpNet) -> Condition,
) -> Vec<Rule> {
    let subnets = subnets.iter().filter(|net| family.owns(net));
    subnets.map(|net| left_alone(chain, at(*net))).collect()
}

/// Everything, or only these ports.
fn redirected(chain: Chain, only: &[Port], to: Port) -> Vec<Rule> {
    let only: Vec<PortRange> = only.iter().map(|port| (*port).into()).collect();
    let conditions = match PortGroup::split(&only) {
        groups if groups.is_empty() => vec![Condition::Tcp],
        groups => groups.into_iter().map(Condition::TcpPorts).collect(),
    };
    let rule = |condition| Rule {
        chain,
        condition,
        action: Action::Redirect(to),
    };
    conditions.into_iter().map(rule).collect()
}

#[cfg(test)]
mod tests;
