//! The network configuration in the ConfigMap: what the plugin and the installer make of it.

use std::fs;

use linkerd_cni_integration::chart::Chart;
use linkerd_cni_integration::node::Node;
use proxy_init_rules::{Config, Family, RawConfig, RuleSet};
use serde_json::{Value, json};

const VALUES: [&str; 3] = [
    "everything.yaml",
    "present-test.yaml",
    "present-fully-configured.yaml",
];

fn linkerd(chart: &Chart) -> Value {
    let config: Value = serde_json::from_str(&chart.network_configuration()).expect("JSON");
    assert_eq!(config["type"], "linkerd-cni");
    assert_eq!(config["name"], "linkerd-cni");
    config["linkerd"].clone()
}

fn parsed(chart: &Chart) -> Config {
    let raw = RawConfig::from_value(&linkerd(chart)).unwrap_or_else(|e| panic!("{chart:?}: {e}"));
    Config::try_from(raw).unwrap_or_else(|e| panic!("{chart:?}: {e}"))
}

#[test]
fn the_rules_crate_reads_every_configuration_that_the_chart_renders() {
    parsed(&Chart::new());
    for values in VALUES {
        parsed(&Chart::new().values(values));
    }
}

/// The schema lets through what the plugin understands, all of it.
#[test]
fn every_mode_of_the_schema_is_one_that_the_rules_crate_knows() {
    let schema =
        fs::read_to_string(linkerd_cni_integration::chart::directory().join("values.schema.json"));
    let schema: Value = serde_json::from_str(&schema.unwrap()).unwrap();
    let modes = schema["properties"]["iptablesMode"]["enum"].as_array();
    for mode in modes.expect("a list of modes") {
        parsed(&Chart::new().set("iptablesMode", mode));
    }
}

#[test]
fn what_the_values_say_is_in_the_rules() {
    let rules = RuleSet::new(
        &parsed(&Chart::new().values("everything.yaml")),
        Family::Ipv6,
    );
    let text = rules.render_install();
    for wanted in [
        "--dports 5191,5190,222,5432:5433 ",
        "-s 2001:db8::/32 ",
        "--dports 80,443 ",
        "-d 2001:db8:1::/48 ",
        "-i net1 ",
        "-o tun+ ",
        "--dports 80,443,8080 ",
        "--to-ports 5143",
        "--uid-owner 12102 ",
        "--gid-owner 12103 ",
        "--dports 3306 ",
        "--to-ports 5140",
    ] {
        assert!(text.contains(wanted), "lacks {wanted:?}:\n{text}");
    }
    assert!(!text.contains("192.0.2"), "{text}");
    assert!(!text.contains("198.51.100"), "{text}");
}

#[test]
fn a_group_below_zero_is_no_group() {
    assert_eq!(linkerd(&Chart::new())["proxy-gid"], Value::Null);
    let zero = Chart::new().set("proxyGID", &json!(0));
    assert_eq!(linkerd(&zero)["proxy-gid"], 0);
}

/// The present chart pastes values in, quoted or not.
#[test]
fn a_quoted_number_is_the_same_as_a_number() {
    let quoted = Chart::new()
        .set("inboundProxyPort", &json!("4143"))
        .set("proxyAdminPort", &json!("4191"))
        .set("proxyUID", &json!("2102"))
        .set("proxyGID", &json!("-1"));
    assert_eq!(
        quoted.network_configuration(),
        Chart::new().network_configuration()
    );
}

#[test]
fn keys_of_the_log_file_are_there_only_if_there_is_one() {
    let config: Value = serde_json::from_str(&Chart::new().network_configuration()).expect("JSON");
    assert_eq!(config["log_file"], Value::Null);
    assert_eq!(config["log_file_max_bytes"], Value::Null);
    let chart = Chart::new().set("logFile", &json!("/var/log/l.log"));
    let config: Value = serde_json::from_str(&chart.network_configuration()).expect("JSON");
    assert_eq!(config["log_file"], "/var/log/l.log");
    assert_eq!(config["log_file_max_bytes"], 10_485_760);
}

/// An entry on a node that says the same stays byte for byte, whichever chart made it.
#[test]
fn keys_that_the_present_chart_does_not_know_are_there_only_if_they_say_something() {
    const OURS: [&str; 3] = [
        "outbound-ports-to-redirect",
        "outbound-subnets-to-ignore",
        "interfaces-to-ignore",
    ];
    for chart in [
        Chart::new(),
        Chart::new().set("outboundPortsToRedirect", &json!(" , ")),
    ] {
        let linkerd = linkerd(&chart);
        for key in OURS {
            assert_eq!(linkerd.get(key), None, "{key}");
        }
    }
    let linkerd = linkerd(&Chart::new().values("everything.yaml"));
    assert_eq!(linkerd[OURS[0]], json!([80, 443, 8080]));
    assert_eq!(
        linkerd[OURS[1]],
        json!(["198.51.100.0/24", "2001:db8:1::/48"])
    );
    assert_eq!(linkerd[OURS[2]], json!(["net1", "tun+"]));
}

/// What a user wrote stays inside of its JSON string.
#[test]
fn no_value_breaks_out_of_the_configuration() {
    let evil = json!("info\", \"linkerd\": {}, \"x\": \"\n---\nkind: Secret\n");
    let chart = Chart::new().set("logLevel", &evil);
    let config: Value = serde_json::from_str(&chart.network_configuration()).expect("JSON");
    assert_eq!(config["log_level"], evil);
    assert_eq!(chart.objects().len(), Chart::new().objects().len());
}

/// The installer checks its template before it touches the node.
#[test]
fn the_installer_takes_every_configuration_that_the_chart_renders() {
    for chart in [
        Chart::new(),
        Chart::new().values("everything.yaml"),
        Chart::new().values("present-test.yaml"),
        Chart::new().values("present-fully-configured.yaml"),
    ] {
        let mut node = Node::new();
        node.set("CNI_NETWORK_CONFIG", &chart.network_configuration());
        let plan = node.run(&["plan"]);
        let said = String::from_utf8_lossy(&plan.stderr).into_owned();
        assert!(plan.status.unwrap().success(), "{chart:?}: {said}");
        node.drop_in("net.d/10-calico.conflist");
        node.install_once();
        assert!(node.is_chained("10-calico.conflist"), "{chart:?}");
    }
}
