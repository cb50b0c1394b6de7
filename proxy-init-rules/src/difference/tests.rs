use serde_json::json;

use super::*;
use crate::config::{Config, RawConfig};

fn rules() -> RuleSet {
    let raw = RawConfig::from_value(&json!({
        "incoming-proxy-port": 4143, "outgoing-proxy-port": 4140, "proxy-uid": 2102,
        "ports-to-redirect": [80, 443], "inbound-ports-to-ignore": ["4190", "4191"],
        "outbound-ports-to-ignore": ["25"],
    }));
    RuleSet::new(&Config::try_from(raw.unwrap()).unwrap(), Family::Ipv4)
}

/// The differences, in words, after a change to the lines of the installed table.
fn after(change: impl FnOnce(&mut Vec<String>)) -> Vec<String> {
    let mut lines: Vec<String> = rules()
        .render_install()
        .lines()
        .map(str::to_owned)
        .collect();
    change(&mut lines);
    let table = NatTable::parse(&lines.join("\n"), Family::Ipv4).unwrap();
    difference(&rules(), &table)
        .iter()
        .map(ToString::to_string)
        .collect()
}

fn find(lines: &[String], part: &str) -> usize {
    lines.iter().position(|line| line.contains(part)).unwrap()
}

const UID: &str = r#"-m owner --uid-owner 2102 -m comment --comment "proxy-init/ignore-proxy-user-id" -j RETURN (outbound connections of uid 2102 (the proxy) are left alone)"#;
const LOOPBACK: &str = r#"-o lo -m comment --comment "proxy-init/ignore-loopback" -j RETURN (outbound connections over loopback are left alone)"#;
const JUMP: &str = r#"-m comment --comment "proxy-init/install-proxy-init-prerouting" -j PROXY_INIT_REDIRECT (inbound traffic is handed to PROXY_INIT_REDIRECT)"#;

#[test]
fn untouched_rules_have_no_difference() {
    assert_eq!(after(|_| {}), [""; 0]);
}

#[test]
fn a_deleted_rule_is_missing_alone() {
    let found = after(|lines| {
        let at = find(lines, "uid-owner");
        lines.remove(at);
    });
    assert_eq!(
        found,
        [format!("IPv4 PROXY_INIT_OUTPUT: rule 1 is missing: {UID}")]
    );
    let found = after(|lines| {
        let at = find(lines, "-A PREROUTING");
        lines.remove(at);
    });
    assert_eq!(
        found,
        [format!("IPv4 PREROUTING: rule 1 is missing: {JUMP}")]
    );
}

#[test]
fn a_changed_rule_is_named_with_both_forms() {
    let found = after(|lines| {
        let at = find(lines, "uid-owner");
        lines[at] = lines[at].replace("2102", "2103");
    });
    let now = r#"-m owner --uid-owner 2103 -m comment --comment "proxy-init/ignore-proxy-user-id" -j RETURN"#;
    assert_eq!(
        found,
        [format!(
            "IPv4 PROXY_INIT_OUTPUT: rule 1 was changed from: {UID} to: {now}"
        )]
    );
}

#[test]
fn a_second_copy_is_named_once() {
    let found = after(|lines| {
        let at = find(lines, "uid-owner");
        lines.insert(at, lines[at].clone());
    });
    assert_eq!(
        found,
        [format!(
            "IPv4 PROXY_INIT_OUTPUT: rule 2 is a second copy: {UID}"
        )]
    );
    let found = after(|lines| {
        let at = find(lines, "-A PREROUTING");
        lines.insert(at, lines[at].clone());
    });
    assert_eq!(
        found,
        [format!("IPv4 PREROUTING: rule 2 is a second copy: {JUMP}")]
    );
}

#[test]
fn a_moved_rule_is_out_of_place_and_nothing_else() {
    let found = after(|lines| {
        let at = find(lines, "-o lo");
        let moved = lines.remove(at);
        let end = find(lines, "-A OUTPUT");
        lines.insert(end, moved);
    });
    assert_eq!(
        found,
        [format!(
            "IPv4 PROXY_INIT_OUTPUT: rule 2 is out of place, it stands at 4: {LOOPBACK}"
        )]
    );
}

#[test]
fn a_foreign_rule_in_our_chain_is_extra() {
    let found = after(|lines| {
        let at = find(lines, "-o lo");
        lines.insert(at, "-A PROXY_INIT_OUTPUT -p tcp -j ACCEPT".to_owned());
    });
    assert_eq!(
        found,
        ["IPv4 PROXY_INIT_OUTPUT: rule 2 was added: -p tcp -j ACCEPT"]
    );
}

#[test]
fn a_flushed_or_deleted_chain_is_one_difference() {
    let flushed = after(|lines| lines.retain(|l| !l.starts_with("-A PROXY_INIT_OUTPUT")));
    assert_eq!(
        flushed,
        ["IPv4 PROXY_INIT_OUTPUT: the chain is empty, all its rules are missing"]
    );
    let deleted = after(|lines| lines.retain(|l| !l.contains("OUTPUT")));
    assert_eq!(
        deleted,
        ["IPv4 PROXY_INIT_OUTPUT: the chain is missing, and with it the jump to it"]
    );
    let nothing = after(|lines| lines.retain(|l| l.starts_with('*')));
    assert_eq!(
        nothing,
        ["IPv4: no redirect rules at all, traffic is in the clear"]
    );
}

#[test]
fn rules_of_others_matter_only_where_they_take_tcp_away() {
    let before = |rule: &str| {
        let rule = rule.to_owned();
        after(move |lines| {
            let (chain, _) = rule.split_once(' ').unwrap();
            let at = find(lines, &format!("-A {chain} "));
            lines.insert(at, format!("-A {rule}"));
            lines.insert(1, "-N OTHERS".to_owned());
            lines.insert(
                2,
                "-A OTHERS -p tcp -j DNAT --to-destination 192.0.2.1".to_owned(),
            );
        })
    };
    for taking in [
        "PREROUTING -p tcp -j ACCEPT",
        "PREROUTING -j RETURN",
        "OUTPUT -m owner --uid-owner 0 -j ACCEPT",
        "OUTPUT ! -p udp -j ACCEPT",
        "OUTPUT -j OTHERS",
        "OUTPUT ! -o lo -j ACCEPT",
    ] {
        let found = before(taking);
        let (chain, spec) = taking.split_once(' ').unwrap();
        let words = format!(
            "IPv4 {chain}: rule 1 of somebody else stands before ours and takes connections away: {spec}"
        );
        assert_eq!(found, [words]);
    }
    for harmless in [
        "PREROUTING -p udp -j ACCEPT",
        "PREROUTING ! -p tcp -j ACCEPT",
        "PREROUTING -j LOG --log-prefix \"x \"",
        "OUTPUT -d 127.0.0.11/32 -j OTHERS",
        "OUTPUT -o lo -j ACCEPT",
        "OUTPUT -p udp -j OTHERS",
    ] {
        assert_eq!(before(harmless), [""; 0], "{harmless}");
    }
    let behind = after(|lines| {
        let at = find(lines, "COMMIT");
        lines.insert(at, "-A PREROUTING -p tcp -j ACCEPT".to_owned());
    });
    assert_eq!(behind, [""; 0]);
}

#[test]
fn one_rule_per_port_means_the_same_as_groups_of_fifteen() {
    let ports: Vec<u16> = (1..=20).collect();
    let raw = RawConfig::from_value(&json!({
        "incoming-proxy-port": 4143, "outgoing-proxy-port": 4140, "ports-to-redirect": ports,
    }));
    let rules = RuleSet::new(&Config::try_from(raw.unwrap()).unwrap(), Family::Ipv4);
    let grouped = rules.render_install();
    let mut singles: Vec<String> = grouped
        .lines()
        .filter(|line| !line.contains("redirect-port"))
        .map(str::to_owned)
        .collect();
    let at = find(&singles, "-A PREROUTING");
    for port in ports.iter().rev() {
        singles.insert(at, format!("-A PROXY_INIT_REDIRECT -p tcp -m tcp --dport {port} -m comment --comment \"proxy-init/redirect-port-{port}-to-proxy-port/1620000000\" -j REDIRECT --to-ports 4143"));
    }
    let table = NatTable::parse(&singles.join("\n"), Family::Ipv4).unwrap();
    assert_eq!(difference(&rules, &table), []);
}

#[test]
fn a_jump_with_a_condition_is_a_changed_jump() {
    let found = after(|lines| {
        let at = find(lines, "-A PREROUTING");
        lines[at] = "-A PREROUTING -p tcp -j PROXY_INIT_REDIRECT".to_owned();
    });
    assert_eq!(
        found,
        [format!(
            "IPv4 PREROUTING: rule 1 was changed from: {JUMP} to: -p tcp -j PROXY_INIT_REDIRECT"
        )]
    );
    let found = after(|lines| {
        let at = find(lines, "-A PREROUTING");
        lines.insert(at, "-A PREROUTING -p tcp -j PROXY_INIT_REDIRECT".to_owned());
    });
    assert_eq!(
        found,
        ["IPv4 PREROUTING: rule 1 was added: -p tcp -j PROXY_INIT_REDIRECT"]
    );
}

#[test]
fn one_rule_per_port_is_compared_port_by_port() {
    let single = |port: u16| {
        format!("-A PROXY_INIT_REDIRECT -p tcp -m tcp --dport {port} -j REDIRECT --to-ports 4143")
    };
    let (lines, _) = listed(&[80, 443, 8080]);
    let with = |ports: &[u16]| {
        let mut lines: Vec<String> = lines.clone();
        let at = find(&lines, "redirect-port");
        lines.splice(at..=at, ports.iter().map(|port| single(*port)));
        differences_of(&[80, 443, 8080], &lines)
    };
    assert_eq!(with(&[80, 443, 8080]), [""; 0]);
    let shown = |port: u16| {
        format!(
            "-p tcp -m multiport --dports {port} -m comment --comment \
             \"proxy-init/redirect-port-{port}-to-proxy-port\" -j REDIRECT --to-ports 4143 \
             (inbound connections to TCP port {port} go to the proxy's port 4143)"
        )
    };
    let at = "IPv4 PROXY_INIT_REDIRECT: rule";
    assert_eq!(
        with(&[80, 8080]),
        [format!("{at} 2 is missing: {}", shown(443))]
    );
    assert_eq!(
        with(&[80, 443, 443, 8080]),
        [format!("{at} 3 is a second copy: {}", shown(443))]
    );
}

#[test]
fn in_effect_port_lists_may_be_cut_in_another_way() {
    let (lines, rules) = listed(&[80, 443]);
    let with = |dports: &[&str]| {
        let mut lines: Vec<String> = lines.clone();
        let at = find(&lines, "redirect-port");
        let rule = |ports: &&str| {
            format!(
                "-A PROXY_INIT_REDIRECT -p tcp -m multiport --dports {ports} -j REDIRECT --to-ports 4143"
            )
        };
        lines.splice(at..=at, dports.iter().map(rule));
        let table = NatTable::parse(&lines.join("\n"), Family::Ipv4).unwrap();
        difference_in_effect(&rules, &table).len()
    };
    for same in [
        &["443,80"][..],
        &["80,443,80"],
        &["80", "443", "80"],
        &["80,443"],
    ] {
        assert_eq!(with(same), 0, "{same:?}");
    }
    for other in [
        &["80"][..],
        &["80,444"],
        &["80:443"],
        &["80", "443", "8080"],
    ] {
        assert_ne!(with(other), 0, "{other:?}");
    }
}

/// The installed table of a configuration that redirects these ports alone.
fn listed(ports: &[u16]) -> (Vec<String>, RuleSet) {
    let raw = RawConfig::from_value(&json!({
        "incoming-proxy-port": 4143, "outgoing-proxy-port": 4140, "ports-to-redirect": ports,
    }));
    let rules = RuleSet::new(&Config::try_from(raw.unwrap()).unwrap(), Family::Ipv4);
    let lines = rules.render_install().lines().map(str::to_owned).collect();
    (lines, rules)
}

fn differences_of(ports: &[u16], lines: &[String]) -> Vec<String> {
    let table = NatTable::parse(&lines.join("\n"), Family::Ipv4).unwrap();
    let found = difference(&listed(ports).1, &table);
    found.iter().map(ToString::to_string).collect()
}

#[test]
fn chains_of_others_that_call_each_other_many_times_are_looked_at_once() {
    let found = after(|lines| {
        let at = find(lines, "-A PREROUTING");
        lines.insert(at, "-A PREROUTING -j C1".to_owned());
        for n in 1..16 {
            let call = format!("-A C{n} -j C{}", n + 1);
            lines.splice(at..at, std::iter::repeat_n(call, 12));
        }
        lines.splice(at..at, (1..=16).map(|n| format!("-N C{n}")));
    });
    assert_eq!(found, [""; 0]);
}
