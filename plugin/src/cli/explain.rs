//! `linkerd-cni explain`: a connection's way through the live rules of a pod.

use std::path::PathBuf;

use proxy_init_rules::{Connection, Family, Walk, Way, walk};

use super::{ExplainArguments, Outcome, need_root, screen::Screen, select};
use crate::{
    attachments::Known,
    cni::in_words,
    firewall::{Backend as _, BackendKind, Live, Native, Overtaker, live},
    interfaces::{self, Address},
    netns::Namespace,
};

mod print;

/// What was found out about a connection.
#[derive(Debug)]
struct Explanation {
    connection: Connection,
    /// Whether the connection has to do with the pod at all.
    is_of_pod: bool,
    /// Its way through each table that has rules.
    walks: Vec<(BackendKind, Walk)>,
    /// What tables of others do before ours are asked.
    overtakers: Vec<Overtaker>,
}

pub(super) fn run(arguments: &ExplainArguments, screen: Screen) -> Result<Outcome, String> {
    need_root("explain")?;
    if arguments.from.ip.is_ipv4() != arguments.to.is_ipv4() {
        return Err("--from and --to must both be IPv4 or both IPv6 addresses".to_owned());
    }
    let path = namespace(arguments)?;
    let namespace = Namespace::open(&path).map_err(|error| in_words(&error))?;
    let explained = namespace.enter(|| explain(arguments));
    let explanation = explained.map_err(|error| in_words(&error))??;
    Ok(Outcome::fine(print::text(&explanation, screen)))
}

fn namespace(arguments: &ExplainArguments) -> Result<PathBuf, String> {
    if arguments.which.pod.is_none() && arguments.which.netns.is_none() {
        return Err("explain needs --pod NS/NAME or --netns PATH; see --help".to_owned());
    }
    let known = select::select(&arguments.which)?;
    let paths = known.into_iter().filter_map(|Known { netns, .. }| netns);
    // All attachments of a pod share its namespace.
    let path = paths.into_iter().next();
    path.ok_or_else(|| {
        "the pod is known here, but nobody names its network namespace; give --netns PATH"
            .to_owned()
    })
}

/// In the namespace of the calling thread.
fn explain(arguments: &ExplainArguments) -> Result<Explanation, String> {
    let addresses = interfaces::addresses();
    let connection = connection(arguments, &addresses)?;
    let family = if arguments.to.is_ipv4() {
        Family::Ipv4
    } else {
        Family::Ipv6
    };
    let live = live(family)
        .map_err(|failure| format!("the rules cannot be read: {}", in_words(&failure)))?;
    Ok(Explanation {
        is_of_pod: connection.way != Way::Outbound || is_own(&addresses, connection.from),
        walks: walks(&live, &connection),
        overtakers: overtakers(family, connection.way),
        connection,
    })
}

fn walks(live: &Live, connection: &Connection) -> Vec<(BackendKind, Walk)> {
    let tables = live.tables.iter();
    let walks = tables.map(|(kind, table)| (*kind, walk(table, connection)));
    walks.filter(|(_, walk)| !walk.steps.is_empty()).collect()
}

fn overtakers(family: Family, way: Way) -> Vec<Overtaker> {
    let mut overtakers = Native::default().overtakers(family);
    overtakers.retain(|overtaker| overtaker.base == way.base());
    overtakers
}

fn connection(arguments: &ExplainArguments, addresses: &[Address]) -> Result<Connection, String> {
    let (from, to) = (arguments.from.ip, arguments.to);
    let to_pod = to.ip().is_loopback() || is_own(addresses, to.ip());
    let from_pod = from.is_loopback() || is_own(addresses, from);
    let way = match (from_pod, to_pod) {
        (false, true) if !to.ip().is_loopback() => Way::Inbound,
        (_, true) => Way::Loopback,
        (_, false) => Way::Outbound,
    };
    Ok(Connection {
        way,
        from,
        from_port: arguments.from.port,
        to,
        interface: match (&arguments.interface, way) {
            (Some(name), way) => Some(given(name, way)?),
            (None, Way::Inbound) => interfaces::interface_of(to.ip(), addresses),
            (None, Way::Outbound) => interfaces::towards(to, addresses),
            (None, Way::Loopback) => Some("lo".to_owned()),
        },
        uid: arguments.uid,
        gid: arguments.gid,
        own: addresses.iter().map(|address| address.ip).collect(),
    })
}

/// The interface that somebody named, if the connection can go over it.
fn given(name: &str, way: Way) -> Result<String, String> {
    if (way == Way::Loopback) != (name == "lo") {
        return Err(format!(
            "a connection {way} does not go over {name}; leave --interface out"
        ));
    }
    let there = interfaces::names();
    if there.iter().any(|interface| interface == name) {
        return Ok(name.to_owned());
    }
    Err(format!(
        "the pod has no interface {name}; it has {}",
        there.join(", ")
    ))
}

fn is_own(addresses: &[Address], ip: std::net::IpAddr) -> bool {
    interfaces::interface_of(ip, addresses).is_some()
}
