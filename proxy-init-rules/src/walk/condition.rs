//! Whether a rule is about a connection.

use std::net::IpAddr;

use ipnet::IpNet;

use super::{Connection, Way};
use crate::parse::LiveRule;

mod ports;

/// Whether a rule is about a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    Yes,
    /// No, and why not.
    No(String),
    /// It cannot be told, and why not.
    Unknown(String),
}

/// Matches whose options are read here; others are not evaluated.
const KNOWN: [&str; 8] = [
    "addrtype",
    "comment",
    "conntrack",
    "multiport",
    "owner",
    "socket",
    "state",
    "tcp",
];

/// Every condition of the rule must hold; one that does not is enough to pass it by.
pub(super) fn of(rule: &LiveRule, connection: &Connection) -> Answer {
    let mut words = rule.words().iter().map(String::as_str);
    let mut answer = Answer::Yes;
    let mut negated = false;
    while let Some(option) = words.next() {
        match option {
            "!" => {
                negated = true;
                continue;
            }
            "-j" | "-g" | "--jump" | "--goto" => break,
            _ => {}
        }
        let one = holds(option, &mut words, connection);
        answer = both(answer, if negated { not(one, option) } else { one });
        negated = false;
    }
    answer
}

fn both(first: Answer, second: Answer) -> Answer {
    match (first, second) {
        (no @ Answer::No(_), _) | (_, no @ Answer::No(_)) => no,
        (unknown @ Answer::Unknown(_), _) | (_, unknown @ Answer::Unknown(_)) => unknown,
        (Answer::Yes, Answer::Yes) => Answer::Yes,
    }
}

fn not(answer: Answer, option: &str) -> Answer {
    match answer {
        Answer::Yes => Answer::No(format!("! {option} excludes it")),
        Answer::No(_) => Answer::Yes,
        unknown @ Answer::Unknown(_) => unknown,
    }
}

/// Whether one option holds; takes the option's value out of `words`.
fn holds<'a>(
    option: &str,
    words: &mut impl Iterator<Item = &'a str>,
    connection: &Connection,
) -> Answer {
    if matches!(option, "--syn" | "--socket-exists") {
        return Answer::Yes;
    }
    let value = words.next().unwrap_or_default();
    let of_sender = connection.way != Way::Inbound;
    match option {
        "-m" | "--match" if KNOWN.contains(&value) => Answer::Yes,
        "-m" | "--match" => Answer::Unknown(format!("match {value} is not evaluated here")),
        "--comment" => Answer::Yes,
        "-p" | "--protocol" => test(matches!(value, "tcp" | "6" | "all" | "0"), "it is TCP"),
        "-s" | "--source" => within(connection.from, value),
        "-d" | "--destination" => within(connection.to.ip(), value),
        "-i" | "--in-interface" => interface(!of_sender, value, connection),
        "-o" | "--out-interface" => interface(of_sender, value, connection),
        "--dport" | "--dports" | "--destination-port" | "--destination-ports" => {
            ports::to(value, connection)
        }
        "--sport" | "--sports" | "--source-port" | "--source-ports" => {
            ports::from(value, connection)
        }
        "--ports" => ports::either(value, connection),
        "--uid-owner" => owner("uid", connection.uid, value),
        "--gid-owner" => owner("gid", connection.gid, value),
        "--dst-type" => kind(connection.to.ip(), value, connection),
        "--src-type" => kind(connection.from, value, connection),
        "--ctstate" | "--state" => test(value.split(',').any(|state| state == "NEW"), "it is NEW"),
        "--tcp-flags" => syn(value, words.next().unwrap_or_default()),
        other => Answer::Unknown(format!("option {other} is not evaluated here")),
    }
}

fn test(holds: bool, why_not: impl Into<String>) -> Answer {
    if holds {
        Answer::Yes
    } else {
        Answer::No(why_not.into())
    }
}

fn within(address: IpAddr, net: &str) -> Answer {
    let one = net.parse::<IpAddr>().map(IpNet::from);
    match net.parse::<IpNet>().or(one) {
        Ok(net) => test(net.contains(&address), format!("{address} is not in {net}")),
        Err(_) => Answer::Unknown(format!("{net} is no subnet")),
    }
}

fn interface(has_one: bool, name: &str, connection: &Connection) -> Answer {
    if !has_one {
        return Answer::No("there is no such interface at this point".to_owned());
    }
    match &connection.interface {
        None if name == "lo" && connection.way != Way::Loopback => {
            Answer::No("it does not go over lo".to_owned())
        }
        None => Answer::Unknown(format!("whether it goes over {name} is not known")),
        Some(real) => {
            let same = match name.strip_suffix('+') {
                Some(prefix) => real.starts_with(prefix),
                None => real == name,
            };
            test(same, format!("it goes over {real}"))
        }
    }
}

/// `--uid-owner 2102` or `--uid-owner 1000-2000`.
fn owner(kind: &str, id: Option<u32>, value: &str) -> Answer {
    let (low, high) = value.split_once('-').unwrap_or((value, value));
    match (id, low.parse::<u32>(), high.parse::<u32>()) {
        (Some(id), Ok(low), Ok(high)) => {
            test((low..=high).contains(&id), format!("its {kind} is {id}"))
        }
        (None, ..) => Answer::No(format!("no {kind} is given, so it is taken for another")),
        _ => Answer::Unknown(format!("{value} is no {kind}")),
    }
}

fn kind(address: IpAddr, kind: &str, connection: &Connection) -> Answer {
    let is_own = address.is_loopback() || connection.own.contains(&address);
    match kind {
        "LOCAL" => test(is_own, format!("{address} is not the pod's own")),
        other => Answer::Unknown(format!("addresses of type {other} are not known here")),
    }
}

/// The first packet of a connection is a SYN and nothing else.
fn syn(mask: &str, wanted: &str) -> Answer {
    let has = |list: &str| list.split(',').any(|flag| matches!(flag, "SYN" | "ALL"));
    let only = wanted.split(',').all(|flag| matches!(flag, "SYN" | "NONE"));
    test(only && has(mask) == has(wanted), "it is a SYN")
}
