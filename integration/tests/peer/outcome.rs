//! What an ADD comes to: whether the pod starts, its rules as the kernel has them, and where real
//! connections land.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use anyhow::Result;
use linkerd_cni_integration::rules::{self, Family};
use linkerd_cni_integration::stage::Stage;
use linkerd_cni_integration::traffic::{As, Landed, Listener, Network};

use crate::matrix::Setup;
use crate::model;

/// Who makes the pod's network.
#[derive(Clone, Debug)]
pub(crate) enum Plugin {
    /// `linkerd-cni`.
    Ours,
    /// Another executable, in the same environment and with the same input.
    Other(PathBuf),
    /// What `PEER.md` says of the Go plugin.
    Model,
}

/// What became of one pod.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    /// Whether it starts.
    pub(crate) added: bool,
    /// What the plugin said, if it does not.
    pub(crate) said: String,
    /// `TABLES FAMILY` and a line of `iptables-save`, in their order.
    pub(crate) rules: Vec<(String, String)>,
    /// Where each connection landed, by its name; of a pod that starts.
    pub(crate) landed: BTreeMap<&'static str, String>,
}

/// Ports that something listens on in the pod: proxies and application.
const IN_POD: [u16; 8] = [4143, 4140, 5143, 5140, 8080, 8081, 9005, 4191];

/// And at its neighbour.
const AT_PEER: [u16; 7] = [25, 80, 443, 3306, 6443, 8081, 9005];

/// One connection.
#[derive(Clone, Copy, Debug)]
enum Probe {
    /// To a port of the pod.
    Inbound(u16),
    /// The same, from the subnet that is sometimes ignored.
    InboundFromSubnet(u16),
    /// From the pod to a port of its neighbour.
    Outbound(As, u16),
    /// From the pod to itself.
    Loopback(As, u16),
}

/// The connections that are made, and what `PEER.md` calls them.
const PROBES: &[(&str, Probe)] = &[
    ("in-8080", Probe::Inbound(8080)),
    ("in-4191", Probe::Inbound(4191)),
    ("in-8081", Probe::Inbound(8081)),
    ("in-9005", Probe::Inbound(9005)),
    ("in-8080-from-subnet", Probe::InboundFromSubnet(8080)),
    ("out-80", Probe::Outbound(As::APP, 80)),
    ("out-25", Probe::Outbound(As::APP, 25)),
    ("out-443", Probe::Outbound(As::APP, 443)),
    ("out-3306", Probe::Outbound(As::APP, 3306)),
    ("out-6443", Probe::Outbound(As::APP, 6443)),
    ("out-8081", Probe::Outbound(As::APP, 8081)),
    ("out-9005", Probe::Outbound(As::APP, 9005)),
    ("out-80-as-uid-0", Probe::Outbound(As::user(0), 80)),
    ("out-80-as-uid-2102", Probe::Outbound(As::user(2102), 80)),
    ("out-80-as-uid-1234", Probe::Outbound(As::user(1234), 80)),
    ("out-80-as-gid-2102", Probe::Outbound(As::group(2102), 80)),
    ("out-80-as-gid-1234", Probe::Outbound(As::group(1234), 80)),
    ("loopback-8080", Probe::Loopback(As::APP, 8080)),
];

/// The names of all connections.
pub(crate) fn connections() -> impl Iterator<Item = &'static str> {
    PROBES.iter().map(|(name, _)| *name)
}

// === impl Outcome ===

impl Outcome {
    /// Has a plugin add a pod in namespaces of its own, and looks.
    pub(crate) fn of(setup: &Setup, plugin: &Plugin) -> Self {
        let network = Network::new();
        let mut stage = Stage::in_namespace(setup.pod.clone(), &network.pod);
        stage.api.put(setup.namespace.clone());
        stage.config["linkerd"] = setup.linkerd.clone();
        let (added, said) = match plugin {
            Plugin::Model => model::add(setup, &network.pod),
            Plugin::Ours => add(&stage, None),
            Plugin::Other(executable) => add(&stage, Some(executable)),
        };
        Self {
            added,
            said,
            rules: rules_of(&network),
            landed: if added {
                landed(&network)
            } else {
                BTreeMap::new()
            },
        }
    }
}

fn add(stage: &Stage, executable: Option<&PathBuf>) -> (bool, String) {
    let call = stage.add();
    let call = executable.map_or(call.clone(), |other| call.executable(other));
    let output = call.run();
    let said = format!("{} {}", output.msg(), output.details());
    (output.exit == Some(0), said.trim().to_owned())
}

fn rules_of(network: &Network) -> Vec<(String, String)> {
    let everything = rules::everything(&network.pod);
    let mut section = "";
    let mut found = Vec::new();
    for line in everything.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            section = heading;
        } else if line.starts_with("-A ") || line.starts_with(":PROXY_INIT") {
            found.push((section.to_owned(), line.to_owned()));
        }
    }
    found
}

fn landed(network: &Network) -> BTreeMap<&'static str, String> {
    let mut all: BTreeMap<&str, String> = BTreeMap::new();
    for family in [Family::V4, Family::V6] {
        let _in_pod = Listener::all(&network.pod, family, &IN_POD);
        let _at_peer = Listener::all(&network.peer, family, &AT_PEER);
        for (name, probe) in PROBES {
            let where_to = in_words(&probe.carry_out(network, family));
            let both = all.entry(name).or_default();
            *both += &format!("{family} {where_to}; ");
        }
    }
    all
}

fn in_words(landed: &Result<Landed>) -> String {
    match landed {
        Ok(Landed {
            port,
            original: Some(original),
            ..
        }) => format!("redirected from {} to {port}", original.port()),
        Ok(Landed { port, .. }) => format!("untouched at {port}"),
        Err(_) => "nowhere".to_owned(),
    }
}

// === impl Probe ===

impl Probe {
    fn carry_out(self, network: &Network, family: Family) -> Result<Landed> {
        match self {
            Self::Inbound(port) => network.inbound(family, port),
            Self::InboundFromSubnet(port) => network.inbound_from_elsewhere(family, port),
            Self::Outbound(who, port) => {
                network.outbound(who, SocketAddr::new(Network::peer_ip(family), port))
            }
            Self::Loopback(who, port) => {
                let localhost: IpAddr = match family {
                    Family::V4 => Ipv4Addr::LOCALHOST.into(),
                    Family::V6 => Ipv6Addr::LOCALHOST.into(),
                };
                network.outbound(who, SocketAddr::new(localhost, port))
            }
        }
    }
}
