use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;
use crate::config::RawConfig;

fn check(value: &Value, family: Family, expected: Expect) {
    let config = Config::try_from(RawConfig::from_value(value).unwrap()).unwrap();
    let lines: Vec<String> = RuleSet::new(&config, family)
        .rules()
        .iter()
        .map(ToString::to_string)
        .collect();
    expected.assert_eq(&lines.join("\n"));
}

#[test]
fn the_seed_configuration() {
    check(
        &json!({
            "incoming-proxy-port": 4143, "outgoing-proxy-port": 4140, "proxy-uid": 2102,
            "ports-to-redirect": [], "inbound-ports-to-ignore": ["4191", "4190"],
            "simulate": false, "use-wait-flag": false,
        }),
        Family::Ipv4,
        expect![[r#"
            -A PROXY_INIT_REDIRECT -p tcp -m multiport --dports 4191,4190 -m comment --comment "proxy-init/ignore-port-4191,4190" -j RETURN
            -A PROXY_INIT_REDIRECT -p tcp -m comment --comment "proxy-init/redirect-all-incoming-to-proxy-port" -j REDIRECT --to-ports 4143
            -A PREROUTING -m comment --comment "proxy-init/install-proxy-init-prerouting" -j PROXY_INIT_REDIRECT
            -A PROXY_INIT_OUTPUT -m owner --uid-owner 2102 -m comment --comment "proxy-init/ignore-proxy-user-id" -j RETURN
            -A PROXY_INIT_OUTPUT -o lo -m comment --comment "proxy-init/ignore-loopback" -j RETURN
            -A PROXY_INIT_OUTPUT -p tcp -m comment --comment "proxy-init/redirect-all-outgoing-to-proxy-port" -j REDIRECT --to-ports 4140
            -A OUTPUT -m comment --comment "proxy-init/install-proxy-init-output" -j PROXY_INIT_OUTPUT"#]],
    );
}

#[test]
fn everything_configured_and_a_subnet_only_in_its_family() {
    let all = json!({
        "incoming-proxy-port": 4143, "outgoing-proxy-port": 4140, "proxy-uid": 2102,
        "proxy-gid": 2103, "ports-to-redirect": [80, 443],
        "inbound-ports-to-ignore": ["4190", "8000-8010"], "outbound-ports-to-ignore": ["3306"],
        "subnets-to-ignore": ["10.0.0.0/8", "fd00::/8", "0.0.0.0/0"],
    });
    check(
        &all,
        Family::Ipv4,
        expect![[r#"
            -A PROXY_INIT_REDIRECT -p tcp -m multiport --dports 4190,8000:8010 -m comment --comment "proxy-init/ignore-port-4190,8000:8010" -j RETURN
            -A PROXY_INIT_REDIRECT -s 10.0.0.0/8 -m comment --comment "proxy-init/ignore-subnet-10.0.0.0/8" -j RETURN
            -A PROXY_INIT_REDIRECT -s 0.0.0.0/0 -m comment --comment "proxy-init/ignore-subnet-0.0.0.0/0" -j RETURN
            -A PROXY_INIT_REDIRECT -p tcp -m multiport --dports 80,443 -m comment --comment "proxy-init/redirect-port-80,443-to-proxy-port" -j REDIRECT --to-ports 4143
            -A PREROUTING -m comment --comment "proxy-init/install-proxy-init-prerouting" -j PROXY_INIT_REDIRECT
            -A PROXY_INIT_OUTPUT -m owner --uid-owner 2102 -m comment --comment "proxy-init/ignore-proxy-user-id" -j RETURN
            -A PROXY_INIT_OUTPUT -m owner --gid-owner 2103 -m comment --comment "proxy-init/ignore-proxy-group-id" -j RETURN
            -A PROXY_INIT_OUTPUT -o lo -m comment --comment "proxy-init/ignore-loopback" -j RETURN
            -A PROXY_INIT_OUTPUT -p tcp -m multiport --dports 3306 -m comment --comment "proxy-init/ignore-port-3306" -j RETURN
            -A PROXY_INIT_OUTPUT -p tcp -m comment --comment "proxy-init/redirect-all-outgoing-to-proxy-port" -j REDIRECT --to-ports 4140
            -A OUTPUT -m comment --comment "proxy-init/install-proxy-init-output" -j PROXY_INIT_OUTPUT"#]],
    );
    let config = Config::try_from(RawConfig::from_value(&all).unwrap()).unwrap();
    let six = RuleSet::new(&config, Family::Ipv6);
    let subnets: Vec<&Rule> = six
        .rules()
        .iter()
        .filter(|rule| matches!(rule.condition, Condition::Source(_)))
        .collect();
    assert_eq!(subnets.len(), 1);
    assert!(subnets[0].spec().starts_with("-s fd00::/8 "));
}

#[test]
fn interfaces_and_subnets_stand_where_they_belong_and_outbound_has_a_list_of_its_own() {
    let value = json!({
        "incoming-proxy-port": 4143, "outgoing-proxy-port": 4140, "proxy-uid": 2102,
        "inbound-ports-to-ignore": ["4190"], "outbound-ports-to-ignore": ["3306"],
        "subnets-to-ignore": ["10.0.0.0/8"], "interfaces-to-ignore": ["net1", "lo", "tun+"],
        "outbound-subnets-to-ignore": ["fd00::/8", "192.0.2.0/24", "0.0.0.0/0"],
        "outbound-ports-to-redirect": [80, "443"],
    });
    check(
        &value,
        Family::Ipv4,
        expect![[r#"
            -A PROXY_INIT_REDIRECT -i net1 -m comment --comment "proxy-init/ignore-interface-net1" -j RETURN
            -A PROXY_INIT_REDIRECT -i tun+ -m comment --comment "proxy-init/ignore-interface-tun+" -j RETURN
            -A PROXY_INIT_REDIRECT -p tcp -m multiport --dports 4190 -m comment --comment "proxy-init/ignore-port-4190" -j RETURN
            -A PROXY_INIT_REDIRECT -s 10.0.0.0/8 -m comment --comment "proxy-init/ignore-subnet-10.0.0.0/8" -j RETURN
            -A PROXY_INIT_REDIRECT -p tcp -m comment --comment "proxy-init/redirect-all-incoming-to-proxy-port" -j REDIRECT --to-ports 4143
            -A PREROUTING -m comment --comment "proxy-init/install-proxy-init-prerouting" -j PROXY_INIT_REDIRECT
            -A PROXY_INIT_OUTPUT -m owner --uid-owner 2102 -m comment --comment "proxy-init/ignore-proxy-user-id" -j RETURN
            -A PROXY_INIT_OUTPUT -o lo -m comment --comment "proxy-init/ignore-loopback" -j RETURN
            -A PROXY_INIT_OUTPUT -o net1 -m comment --comment "proxy-init/ignore-interface-net1" -j RETURN
            -A PROXY_INIT_OUTPUT -o tun+ -m comment --comment "proxy-init/ignore-interface-tun+" -j RETURN
            -A PROXY_INIT_OUTPUT -p tcp -m multiport --dports 3306 -m comment --comment "proxy-init/ignore-port-3306" -j RETURN
            -A PROXY_INIT_OUTPUT -d 192.0.2.0/24 -m comment --comment "proxy-init/ignore-subnet-192.0.2.0/24" -j RETURN
            -A PROXY_INIT_OUTPUT -d 0.0.0.0/0 -m comment --comment "proxy-init/ignore-subnet-0.0.0.0/0" -j RETURN
            -A PROXY_INIT_OUTPUT -p tcp -m multiport --dports 80,443 -m comment --comment "proxy-init/redirect-port-80,443-to-proxy-port" -j REDIRECT --to-ports 4140
            -A OUTPUT -m comment --comment "proxy-init/install-proxy-init-output" -j PROXY_INIT_OUTPUT"#]],
    );
    let config = Config::try_from(RawConfig::from_value(&value).unwrap()).unwrap();
    let six = RuleSet::new(&config, Family::Ipv6);
    let subnets = six.rules().iter().map(|rule| &rule.condition);
    let subnets = subnets
        .filter(|condition| matches!(condition, Condition::Source(_) | Condition::Destination(_)));
    let only = Condition::Destination("fd00::/8".parse().unwrap());
    assert_eq!(subnets.collect::<Vec<_>>(), [&only]);
}

#[test]
fn joined_each_list_of_ports_is_one_rule_without_overlaps() {
    let many: Vec<String> = (1..=500).map(|n| (2 * n).to_string()).collect();
    let value = json!({
        "incoming-proxy-port": 4143, "outgoing-proxy-port": 4140,
        "inbound-ports-to-ignore": ["80", "8000-8010", "79", "8005-8020", "65535", "81-90"],
        "outbound-ports-to-ignore": many,
    });
    let config = Config::try_from(RawConfig::from_value(&value).unwrap()).unwrap();
    let joined = RuleSet::new(&config, Family::Ipv4).joined();
    let ports = |chain| match &joined.of(chain).find_map(|rule| match &rule.condition {
        Condition::TcpPorts(ports) => Some(ports.to_string()),
        _ => None,
    }) {
        Some(ports) => ports.clone(),
        None => String::new(),
    };
    assert_eq!(ports(Chain::Inbound), "79:90,8000:8020,65535");
    assert_eq!(ports(Chain::Outbound).split(',').count(), 500);
    assert_eq!(joined.rules().len(), 7);
    assert_eq!(joined.joined(), joined);
    let text: String = joined
        .rules()
        .iter()
        .map(|rule| format!("{rule}\n"))
        .collect();
    let read = crate::NatTable::parse(&format!("*nat\n{text}"), Family::Ipv4).unwrap();
    assert_eq!(read.rule_set(), joined, "what is recorded is read back");
}
