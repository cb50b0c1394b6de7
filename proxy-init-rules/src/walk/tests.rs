use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{
    config::{Config, RawConfig},
    rule::Family,
    ruleset::RuleSet,
};

const POD: &str = "10.244.1.2";
const PEER: &str = "10.244.1.1";

fn ours() -> NatTable {
    let raw = RawConfig::from_value(&json!({
        "incoming-proxy-port": 4143, "outgoing-proxy-port": 4140,
        "proxy-uid": 2102, "proxy-gid": 2103,
        "inbound-ports-to-ignore": ["4190", "8000-8010"],
        "outbound-ports-to-ignore": ["25"],
        "subnets-to-ignore": ["192.168.77.0/24"],
    }));
    table_of(raw.unwrap())
}

fn table_of(raw: RawConfig) -> NatTable {
    let rules = RuleSet::new(&Config::try_from(raw).unwrap(), Family::Ipv4);
    NatTable::parse(&rules.render_install(), Family::Ipv4).unwrap()
}

fn connection(way: Way, from: &str, to: &str) -> Connection {
    let interface = if way == Way::Loopback { "lo" } else { "eth0" };
    Connection {
        way,
        from: from.parse().unwrap(),
        from_port: None,
        to: to.parse().unwrap(),
        interface: Some(interface.to_owned()),
        uid: Some(1000),
        gid: Some(1000),
        own: vec![POD.parse().unwrap()],
    }
}

fn inbound(from: &str, port: u16) -> Connection {
    connection(Way::Inbound, from, &format!("{POD}:{port}"))
}

fn outbound(port: u16) -> Connection {
    connection(Way::Outbound, POD, &format!("{PEER}:{port}"))
}

fn end(table: &NatTable, connection: &Connection) -> String {
    walk(table, connection).end.to_string()
}

fn foreign(rules: &[&str]) -> NatTable {
    let text = format!("*nat\n{}\nCOMMIT\n", rules.join("\n"));
    NatTable::parse(&text, Family::Ipv4).unwrap()
}

#[test]
fn inbound_connections_end_where_our_rules_say() {
    let table = ours();
    for (from, port, expected) in [
        (
            PEER,
            80,
            "proxy inbound, port 4143 (rule 3 of PROXY_INIT_REDIRECT)",
        ),
        (
            PEER,
            4190,
            "untouched (rule 1 of PROXY_INIT_REDIRECT leaves it alone)",
        ),
        (
            PEER,
            8005,
            "untouched (rule 1 of PROXY_INIT_REDIRECT leaves it alone)",
        ),
        (
            PEER,
            8011,
            "proxy inbound, port 4143 (rule 3 of PROXY_INIT_REDIRECT)",
        ),
        (
            "192.168.77.9",
            80,
            "untouched (rule 2 of PROXY_INIT_REDIRECT leaves it alone)",
        ),
    ] {
        assert_eq!(end(&table, &inbound(from, port)), expected, "{from} {port}");
    }
}

#[test]
fn outbound_connections_end_where_our_rules_say() {
    let table = ours();
    let proxy = "proxy outbound, port 4140 (rule 5 of PROXY_INIT_OUTPUT)";
    let of = |uid, gid| Connection {
        uid,
        gid,
        ..outbound(80)
    };
    for (connection, expected) in [
        (outbound(80), proxy),
        (
            outbound(25),
            "untouched (rule 4 of PROXY_INIT_OUTPUT leaves it alone)",
        ),
        (
            of(Some(2102), Some(1000)),
            "untouched (rule 1 of PROXY_INIT_OUTPUT leaves it alone)",
        ),
        (
            of(Some(1000), Some(2103)),
            "untouched (rule 2 of PROXY_INIT_OUTPUT leaves it alone)",
        ),
        (of(None, None), proxy),
        (
            connection(Way::Loopback, "127.0.0.1", "127.0.0.1:80"),
            "untouched (rule 3 of PROXY_INIT_OUTPUT leaves it alone)",
        ),
        (
            connection(Way::Loopback, POD, &format!("{POD}:80")),
            "untouched (rule 3 of PROXY_INIT_OUTPUT leaves it alone)",
        ),
    ] {
        assert_eq!(end(&table, &connection), expected, "{connection:?}");
    }
}

#[test]
fn interfaces_destinations_and_the_outbound_list_decide_where_connections_end() {
    let raw = RawConfig::from_value(&json!({
        "incoming-proxy-port": 4143, "outgoing-proxy-port": 4140, "interfaces-to-ignore": ["net+"],
        "outbound-subnets-to-ignore": ["192.168.77.0/24"],
        "outbound-ports-to-redirect": [80, 443],
    }));
    let table = table_of(raw.unwrap());
    let by = |connection: Connection, interface: Option<&str>| Connection {
        interface: interface.map(str::to_owned),
        ..connection
    };
    let elsewhere = connection(Way::Outbound, POD, "192.168.77.9:80");
    for (connection, expected) in [
        (
            inbound(PEER, 80),
            "proxy inbound, port 4143 (rule 2 of PROXY_INIT_REDIRECT)",
        ),
        (
            by(inbound(PEER, 80), Some("net1")),
            "untouched (rule 1 of PROXY_INIT_REDIRECT leaves it alone)",
        ),
        (
            outbound(443),
            "proxy outbound, port 4140 (rule 4 of PROXY_INIT_OUTPUT)",
        ),
        (outbound(81), "untouched (no rule is about it)"),
        (
            by(outbound(80), Some("net1")),
            "untouched (rule 2 of PROXY_INIT_OUTPUT leaves it alone)",
        ),
        (
            elsewhere,
            "untouched (rule 3 of PROXY_INIT_OUTPUT leaves it alone)",
        ),
    ] {
        assert_eq!(end(&table, &connection), expected, "{connection:?}");
    }
    let unknown = walk(&table, &by(outbound(80), None));
    let doubts: Vec<String> = unknown.doubts().map(|step| step.at.to_string()).collect();
    assert_eq!(doubts, ["rule 2 of PROXY_INIT_OUTPUT"]);
}

#[test]
fn each_rule_is_named_with_what_became_of_it() {
    let walk = walk(&ours(), &inbound(PEER, 80));
    let steps: Vec<_> = walk
        .steps
        .iter()
        .map(|step| (step.at.to_string(), step.depth, step.outcome.clone()))
        .collect();
    let passed = |why: &str| Outcome::Passed(why.to_owned());
    assert_eq!(
        steps,
        [
            ("rule 1 of PREROUTING".to_owned(), 0, Outcome::Matched),
            (
                "rule 1 of PROXY_INIT_REDIRECT".to_owned(),
                1,
                passed("port 80 is not among 4190,8000:8010")
            ),
            (
                "rule 2 of PROXY_INIT_REDIRECT".to_owned(),
                1,
                passed("10.244.1.1 is not in 192.168.77.0/24")
            ),
            (
                "rule 3 of PROXY_INIT_REDIRECT".to_owned(),
                1,
                Outcome::Matched
            ),
        ]
    );
}

#[test]
fn without_rules_a_connection_is_untouched() {
    let empty = NatTable::empty(Family::Ipv4);
    assert_eq!(
        end(&empty, &inbound(PEER, 80)),
        "untouched (no rule is about it)"
    );
}

#[test]
fn conditions_of_others_are_evaluated() {
    for (rule, expected) in [
        ("-p udp", false),
        ("! -p udp", true),
        ("! -p tcp", false),
        ("-s 10.244.1.1/32", true),
        ("-s 10.244.1.1", true),
        ("! -s 10.0.0.0/8", false),
        ("-d 10.244.1.2/32", true),
        ("-i eth0", true),
        ("-i eth+", true),
        ("-i cni0", false),
        ("-o eth0", false),
        ("-p tcp -m tcp --dport 80", true),
        ("-p tcp -m tcp ! --dport 80", false),
        ("-p tcp -m tcp --dport 1024:", false),
        ("-p tcp -m tcp --dport :80", true),
        ("-p tcp -m multiport --dports 8080,80", true),
        ("-p tcp -m multiport ! --dports 8080,443", true),
        ("-m addrtype --dst-type LOCAL", true),
        ("-m addrtype --src-type LOCAL", false),
        ("-m conntrack --ctstate NEW", true),
        ("-m conntrack --ctstate RELATED,ESTABLISHED", false),
        ("-m state --state NEW,INVALID", true),
        ("-p tcp -m tcp --tcp-flags FIN,SYN,RST,ACK SYN", true),
        ("-p tcp -m tcp --tcp-flags ALL SYN,ACK", false),
        ("-p tcp -m tcp --tcp-flags SYN NONE", false),
        ("-m comment --comment \"-p udp ! -j\"", true),
    ] {
        let table = foreign(&[&format!(
            "-A PREROUTING {rule} -j DNAT --to-destination 192.0.2.1"
        )]);
        let elsewhere = "somewhere else: -j DNAT --to-destination 192.0.2.1 (rule 1 of \
                         PREROUTING, which is not ours)";
        let expected = if expected {
            elsewhere
        } else {
            "untouched (no rule is about it)"
        };
        assert_eq!(end(&table, &inbound(PEER, 80)), expected, "{rule}");
    }
}

#[test]
fn owners_of_others_are_evaluated() {
    let root = |uid| Connection {
        uid,
        ..outbound(80)
    };
    for (rule, uid, taken) in [
        ("-m owner --uid-owner 0", Some(0), true),
        ("-m owner --uid-owner 1000-1999", Some(1500), true),
        ("-m owner --uid-owner 1000-1999", Some(2000), false),
        ("-m owner ! --uid-owner 0", Some(0), false),
        ("-m owner ! --uid-owner 0", None, true),
        ("-m owner --socket-exists", None, true),
    ] {
        let table = foreign(&[&format!("-A OUTPUT {rule} -j DROP")]);
        let dropped = end(&table, &root(uid)) == "dropped (rule 1 of OUTPUT)";
        assert_eq!(dropped, taken, "{rule} {uid:?}");
    }
}

#[test]
fn what_cannot_be_evaluated_is_said_and_passed_by() {
    for rule in [
        "-m statistic --mode random --probability 0.5 -j DNAT --to-destination 192.0.2.1",
        "-m mark --mark 0x1 -j ACCEPT",
        "-p tcp -m tcp --sport 5 -j ACCEPT",
        "-m addrtype --dst-type BROADCAST -j ACCEPT",
        "-s 10.0.0.0/255.0.255.0 -j ACCEPT",
        "-j SOMETHING_NEW",
    ] {
        let table = foreign(&[&format!("-A PREROUTING {rule}")]);
        let walk = walk(&table, &inbound(PEER, 80));
        assert_eq!(walk.doubts().count(), 1, "{rule}: {walk:?}");
        assert_eq!(walk.end, End::Untouched { by: None }, "{rule}");
    }
    // A condition that fails settles it, whatever else the rule asks.
    let table = foreign(&["-A PREROUTING -m statistic --mode nth -p udp -j ACCEPT"]);
    let walked = walk(&table, &inbound(PEER, 80));
    assert_eq!(walked.doubts().count(), 0, "{walked:?}");
    // One that only logs takes nobody away.
    let table = foreign(&["-A PREROUTING -m limit --limit 1/sec -j LOG"]);
    assert_eq!(walk(&table, &inbound(PEER, 80)).doubts().count(), 0);
}

#[test]
fn chains_return_and_gotos_do_not() {
    let jump = foreign(&[
        "-A PREROUTING -j A",
        "-A PREROUTING -j DROP",
        "-A A -p udp -j ACCEPT",
        "-A A -j RETURN",
        "-A A -j ACCEPT",
    ]);
    assert_eq!(
        end(&jump, &inbound(PEER, 80)),
        "dropped (rule 2 of PREROUTING)"
    );
    let goto = foreign(&["-A PREROUTING -g A", "-A PREROUTING -j DROP", "-N A"]);
    assert_eq!(
        end(&goto, &inbound(PEER, 80)),
        "untouched (no rule is about it)"
    );
    let accept = foreign(&[
        "-A PREROUTING -j A",
        "-A PREROUTING -j DROP",
        "-A A -j ACCEPT",
    ]);
    assert_eq!(
        end(&accept, &inbound(PEER, 80)),
        "untouched (rule 1 of A leaves it alone)"
    );
    let redirect = foreign(&["-A PREROUTING -p tcp -j REDIRECT --to-ports 99"]);
    assert_eq!(walk(&redirect, &inbound(PEER, 80)).end.kind(), "elsewhere");
}

#[test]
fn chains_that_call_each_other_many_times_are_walked_in_no_more_than_their_length() {
    let mut rules: Vec<String> = (1..=12).map(|n| format!(":C{n} - [0:0]")).collect();
    rules.push("-A PREROUTING -j C1".to_owned());
    for n in 1..12 {
        let call = format!("-A C{n} -j C{}", n + 1);
        rules.extend(std::iter::repeat_n(call, 12));
    }
    rules.push("-A PREROUTING -p tcp -j DROP".to_owned());
    let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
    let walk = walk(&foreign(&rules), &inbound(PEER, 80));
    assert_eq!(walk.end.to_string(), "dropped (rule 2 of PREROUTING)");
    assert!(walk.steps.len() < 20_000, "{}", walk.steps.len());
}

#[test]
fn chains_that_call_each_other_come_to_an_end() {
    let mutual = foreign(&["-A PREROUTING -j A", "-A A -j B", "-A B -j A"]);
    assert_eq!(
        end(&mutual, &inbound(PEER, 80)),
        "untouched (no rule is about it)"
    );
}

proptest! {
    #[test]
    fn no_rule_makes_the_walk_panic(rules in proptest::collection::vec("[ -~]{0,60}", 0..5)) {
        let rules: Vec<String> = rules.iter().map(|rule| format!("-A PREROUTING {rule}")).collect();
        let text = format!("*nat\n{}\n", rules.join("\n"));
        if let Ok(table) = NatTable::parse(&text, Family::Ipv4) {
            let _ = walk(&table, &inbound(PEER, 80)).end.to_string();
        }
    }
}
