//! Telling whether a rule is of a kind that we make.
//!
//! The comment does not count: earlier releases of the init container put a trace id into it, and
//! what redirects is the rest.

use ipnet::IpNet;

use crate::{
    config::Id,
    interface::Interface,
    port::{Port, PortRange},
    rule::{Action, Chain, Condition, Family, PortGroup, Rule},
};

/// What a rule says, option by option.
#[derive(Default)]
struct Options<'a> {
    protocol: Option<&'a str>,
    ports: Option<&'a str>,
    source: Option<&'a str>,
    destination: Option<&'a str>,
    input: Option<&'a str>,
    output: Option<&'a str>,
    uid: Option<&'a str>,
    gid: Option<&'a str>,
    target: Option<&'a str>,
    to_ports: Option<&'a str>,
}

/// The rule that these words spell, if we make such rules in that chain.
pub(super) fn rule(chain: Chain, words: &[String], family: Family) -> Option<Rule> {
    let options = Options::read(words)?;
    let condition = options.condition()?;
    let action = options.action()?;
    // The kernel does not keep a subnet that holds everything; nothing else of ours returns all.
    let condition = match (condition, action) {
        (Condition::Any, Action::Return) if chain.is_inbound() => {
            Condition::Source(family.everything())
        }
        (Condition::Any, Action::Return) => Condition::Destination(family.everything()),
        (condition, _) => condition,
    };
    condition.can_stand_in(chain).then_some(Rule {
        chain,
        condition,
        action,
    })
}

impl<'a> Options<'a> {
    fn read(words: &'a [String]) -> Option<Self> {
        let mut options = Self::default();
        let mut words = words.iter().map(String::as_str);
        while let Some(option) = words.next() {
            let value = words.next()?;
            let place = match option {
                "-p" | "--protocol" => &mut options.protocol,
                "--dports" | "--destination-ports" | "--dport" | "--destination-port" => {
                    &mut options.ports
                }
                "-s" | "--source" => &mut options.source,
                "-d" | "--destination" => &mut options.destination,
                "-i" | "--in-interface" => &mut options.input,
                "-o" | "--out-interface" => &mut options.output,
                "--uid-owner" => &mut options.uid,
                "--gid-owner" => &mut options.gid,
                "-j" | "--jump" => &mut options.target,
                "--to-ports" | "--to-port" => &mut options.to_ports,
                "-m" | "--match" | "--comment" => continue,
                _ => return None,
            };
            if place.replace(value).is_some() {
                return None;
            }
        }
        Some(options)
    }

    fn condition(&self) -> Option<Condition> {
        match (self.protocol, self.ports) {
            (None, None) => self.without_protocol(),
            (Some("tcp"), ports) if self.others().all(|other| other.is_none()) => match ports {
                Some(ports) => group(ports).map(Condition::TcpPorts),
                None => Some(Condition::Tcp),
            },
            _ => None,
        }
    }

    /// Any packet, or one condition.
    fn without_protocol(&self) -> Option<Condition> {
        let net = |text: &str| text.parse::<IpNet>().ok();
        let interface = |text: &str| Interface::parse(text).ok();
        if self.others().flatten().count() > 1 {
            return None;
        }
        match (self.source, self.destination, self.input, self.output) {
            (Some(source), ..) => net(source).map(Condition::Source),
            (_, Some(destination), ..) => net(destination).map(Condition::Destination),
            (_, _, Some(input), _) => interface(input).map(Condition::In),
            (.., Some("lo")) => Some(Condition::Loopback),
            (.., Some(output)) => interface(output).map(Condition::Out),
            _ => match (self.uid, self.gid) {
                (Some(uid), _) => id(uid).map(Condition::Uid),
                (_, Some(gid)) => id(gid).map(Condition::Gid),
                (None, None) => Some(Condition::Any),
            },
        }
    }

    /// Everything but protocol and ports.
    fn others(&self) -> impl Iterator<Item = Option<&'a str>> {
        let nets = [self.source, self.destination];
        let interfaces = [self.input, self.output];
        let owners = [self.uid, self.gid];
        [nets, interfaces, owners].into_iter().flatten()
    }

    fn action(&self) -> Option<Action> {
        match (self.target?, self.to_ports) {
            ("RETURN", None) => Some(Action::Return),
            ("REDIRECT", Some(port)) => Port::new(port.parse().ok()?).map(Action::Redirect),
            (name, None) => Chain::OURS
                .into_iter()
                .find(|chain| chain.name() == name)
                .map(Action::Jump),
            _ => None,
        }
    }
}

fn group(ports: &str) -> Option<PortGroup> {
    let range = |item: &str| match item.split_once(':') {
        Some((low, high)) => PortRange::new(low.parse().ok()?, high.parse().ok()?),
        None => item.parse().ok().map(PortRange::single),
    };
    PortGroup::new(ports.split(',').map(range).collect::<Option<_>>()?)
}

fn id(number: &str) -> Option<Id> {
    Id::from_number(number.parse().ok()?).ok().flatten()
}
