//! A network configuration that does not hold is refused by key, before anything
//! is asked or touched.

use linkerd_cni_integration::rules;
use linkerd_cni_integration::stage::Stage;
use serde_json::{Value, json};

#[test]
fn a_bad_value_is_named_by_its_key_and_nothing_is_touched() {
    let stage = Stage::new("meshed");
    let before = rules::everything(&stage.netns);
    for (key, value, words) in bad_values() {
        let mut config = stage.config.clone();
        config["linkerd"][key] = value.clone();
        let output = stage.add().config(&config).fail(7);
        output.says(&[&format!("linkerd.{key}")]).says(words);
    }
    assert_eq!(before, rules::everything(&stage.netns));
    assert!(stage.api.requests().is_empty());
    assert!(!stage.record("eth0").exists());
}

fn bad_values() -> Vec<(&'static str, Value, &'static [&'static str])> {
    vec![
        ("incoming-proxy-port", json!(0), &["65535"]),
        ("incoming-proxy-port", json!(70000), &["70000", "65535"]),
        ("incoming-proxy-port", json!(-1), &[]),
        ("incoming-proxy-port", json!(1.5), &[]),
        ("incoming-proxy-port", json!([]), &[]),
        ("outgoing-proxy-port", json!(0), &["65535"]),
        ("outgoing-proxy-port", json!(70000), &["70000", "65535"]),
        ("outgoing-proxy-port", json!({"port": 4140}), &[]),
        (
            "iptables-mode",
            json!("nftables"),
            &["nftables", "legacy", "nft", "plain", "native", "auto"],
        ),
        (
            "subnets-to-ignore",
            json!(["10.0.0.0/33"]),
            &["10.0.0.0/33"],
        ),
        ("subnets-to-ignore", json!(["10.0.0.0/8", "ten"]), &["ten"]),
        ("subnets-to-ignore", json!(["fd00::/129"]), &["fd00::/129"]),
        (
            "subnets-to-ignore",
            json!(["10.0.0.0/8 -j ACCEPT"]),
            &["-j ACCEPT"],
        ),
        ("inbound-ports-to-ignore", json!(["80a"]), &["80a"]),
        (
            "inbound-ports-to-ignore",
            json!(["4191", "70000"]),
            &["70000"],
        ),
        ("outbound-ports-to-ignore", json!(["5-3"]), &["5-3"]),
        ("outbound-ports-to-ignore", json!(["1-2-3"]), &["1-2-3"]),
        ("ports-to-redirect", json!([0]), &["0"]),
        ("ports-to-redirect", json!(["http"]), &["http"]),
        ("ports-to-redirect", json!([65536]), &["65536"]),
        ("outbound-ports-to-redirect", json!([0]), &["0"]),
        ("outbound-ports-to-redirect", json!(["80-90"]), &["80-90"]),
        (
            "outbound-subnets-to-ignore",
            json!(["10.0.0.0/8 -j ACCEPT"]),
            &["-j ACCEPT"],
        ),
        ("interfaces-to-ignore", json!(["eth0/1"]), &["eth0/1"]),
        ("interfaces-to-ignore", json!(["net1", "net*"]), &["net*"]),
        (
            "interfaces-to-ignore",
            json!(["+"]),
            &["stands for every interface"],
        ),
    ]
}

#[test]
fn a_missing_port_is_named() {
    let stage = Stage::new("meshed");
    for key in ["incoming-proxy-port", "outgoing-proxy-port"] {
        let mut config = stage.config.clone();
        let linkerd = config["linkerd"].as_object_mut().expect("an object");
        linkerd.remove(key);
        let output = stage.add().config(&config).fail(7);
        output.says(&[&format!("linkerd.{key}")]);
    }
}

#[test]
fn a_configuration_without_linkerd_is_refused() {
    let stage = Stage::new("meshed");
    for value in [None, Some(json!([])), Some(json!("x")), Some(Value::Null)] {
        let mut config = stage.config.clone();
        let object = config.as_object_mut().expect("an object");
        object.remove("linkerd");
        if let Some(value) = value {
            object.insert("linkerd".to_owned(), value);
        }
        stage.add().config(&config).fail(7).says(&["linkerd"]);
    }
}

#[test]
fn a_meshed_cluster_without_kubeconfig_key_is_named() {
    let stage = Stage::new("meshed");
    for (kubernetes, key) in [
        (json!({}), "kubernetes.kubeconfig"),
        (json!({"kubeconfig": ""}), "kubernetes.kubeconfig"),
        (json!({"kubeconfig": 7}), "kubernetes"),
        (json!("kubeconfig"), "kubernetes"),
    ] {
        let mut config = stage.config.clone();
        config["kubernetes"] = kubernetes;
        stage.add().config(&config).fail(7).says(&[key]);
    }
}

#[test]
fn keys_nobody_knows_are_ignored() {
    let stage = Stage::new("meshed")
        .top(
            "policy",
            json!({"type": "k8s", "k8s_auth_token": "__SERVICEACCOUNT_TOKEN__"}),
        )
        .top("runtimeConfig", json!({"portMappings": []}))
        .linkerd("from-the-future", json!({"a": [1]}))
        .linkerd("use-wait-flag", true);
    stage.add().succeed();
    assert!(!rules::effective(&stage.netns).is_empty());
}

#[test]
fn ports_are_taken_as_numbers_and_as_strings() {
    let stage = Stage::new("meshed")
        .linkerd(
            "inbound-ports-to-ignore",
            json!([4191, " 4190 ", "222 - 223"]),
        )
        .linkerd("ports-to-redirect", json!(["8080", 9090]));
    stage.add().succeed();
    let rules = rules::effective(&stage.netns).join("\n");
    assert!(rules.contains("--dports 4191,4190,222:223 "), "{rules}");
    assert!(rules.contains("--dports 8080,9090 "), "{rules}");
}
