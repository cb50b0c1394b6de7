//! The rules of one address family, in their order (rules.md 3).

use crate::{
    config::Config,
    port::PortRange,
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
            .chain(outbound(config))
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
    let rule = |condition, action| Rule {
        chain: Chain::Inbound,
        condition,
        action,
    };
    let redirect = Action::Redirect(config.incoming_proxy_port);
    let subnets = config.subnets_to_ignore.iter();
    // A subnet of the other family would make the whole transaction fail.
    let subnets = subnets.filter(|net| family.owns(net));

    let mut rules = ignored(Chain::Inbound, &config.inbound_ports_to_ignore);
    rules.extend(subnets.map(|net| rule(Condition::Source(*net), Action::Return)));
    if config.ports_to_redirect.is_empty() {
        rules.push(rule(Condition::Tcp, redirect));
    } else {
        let only: Vec<PortRange> = config
            .ports_to_redirect
            .iter()
            .map(|p| (*p).into())
            .collect();
        let groups = PortGroup::split(&only);
        rules.extend(
            groups
                .into_iter()
                .map(|ports| rule(Condition::TcpPorts(ports), redirect)),
        );
    }
    rules
}

fn outbound(config: &Config) -> Vec<Rule> {
    let rule = |condition, action| Rule {
        chain: Chain::Outbound,
        condition,
        action,
    };
    let mut rules = Vec::new();
    rules.extend(
        config
            .proxy_uid
            .map(|id| rule(Condition::Uid(id), Action::Return)),
    );
    rules.extend(
        config
            .proxy_gid
            .map(|id| rule(Condition::Gid(id), Action::Return)),
    );
    rules.push(rule(Condition::Loopback, Action::Return));
    rules.extend(ignored(Chain::Outbound, &config.outbound_ports_to_ignore));
    let redirect = Action::Redirect(config.outgoing_proxy_port);
    rules.push(rule(Condition::Tcp, redirect));
    rules
}

fn ignored(chain: Chain, ports: &[PortRange]) -> Vec<Rule> {
    let groups = PortGroup::split(ports).into_iter();
    groups
        .map(|ports| Rule {
            chain,
            condition: Condition::TcpPorts(ports),
            action: Action::Return,
        })
        .collect()
}

#[cfg(test)]
mod tests;
