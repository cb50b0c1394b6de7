use serde_json::json;

use super::*;

fn parse(value: Value) -> Result<Config, ConfigError> {
    Config::try_from(RawConfig::from_value(&value)?)
}

fn with(key: &str, value: Value) -> Value {
    let mut object = json!({"incoming-proxy-port": 4143, "outgoing-proxy-port": 4140});
    object[key] = value;
    object
}

#[test]
fn absent_null_and_empty_values_have_the_defaults() {
    let least = parse(json!({"incoming-proxy-port": 4143, "outgoing-proxy-port": 4140})).unwrap();
    let empty = parse(json!({
        "incoming-proxy-port": 4143, "outgoing-proxy-port": 4140, "proxy-uid": null,
        "proxy-gid": 0, "ports-to-redirect": [], "inbound-ports-to-ignore": [""],
        "outbound-ports-to-ignore": null, "subnets-to-ignore": [], "simulate": false,
        "outbound-ports-to-redirect": [""], "outbound-subnets-to-ignore": null,
        "interfaces-to-ignore": ["", " "],
        "use-wait-flag": null, "iptables-mode": "", "ipv6": false, "unknown": {"a": 1},
    }))
    .unwrap();
    assert_eq!(least, empty);
    assert_eq!(least.iptables_mode, IptablesMode::Legacy);
    assert_eq!(least.proxy_uid, None);
}

#[test]
fn numbers_and_strings_are_accepted_in_lists() {
    let config = parse(json!({
        "incoming-proxy-port": 4143, "outgoing-proxy-port": 4140, "proxy-uid": 2102,
        "ports-to-redirect": [8080, "9090", 8080],
        "inbound-ports-to-ignore": ["4191", 4190, " 8000 - 8010 ", "25,587"],
        "outbound-ports-to-ignore": ["0-65535"],
        "subnets-to-ignore": ["10.1.0.0/8", "fd00::/8"], "iptables-mode": "auto",
        "outbound-ports-to-redirect": ["80", 443], "interfaces-to-ignore": ["net1,tun+", "net1"],
        "outbound-subnets-to-ignore": ["192.0.2.1/24", "192.0.2.0/24"],
    }))
    .unwrap();
    let shown = serde_json::to_value(&config).unwrap();
    assert_eq!(shown["ports-to-redirect"], json!([8080, 9090]));
    assert_eq!(
        shown["inbound-ports-to-ignore"],
        json!(["4191", "4190", "8000-8010", "25", "587"])
    );
    assert_eq!(
        shown["subnets-to-ignore"],
        json!(["10.0.0.0/8", "fd00::/8"])
    );
    assert_eq!(shown["outbound-ports-to-redirect"], json!([80, 443]));
    assert_eq!(shown["outbound-subnets-to-ignore"], json!(["192.0.2.0/24"]));
    assert_eq!(shown["interfaces-to-ignore"], json!(["net1", "tun+"]));
    assert_eq!(shown["iptables-mode"], json!("auto"));
    assert_eq!(parse(shown), Ok(config));
}

#[test]
fn unknown_keys_are_kept() {
    let raw = RawConfig::from_value(&with("later", json!([1.50]))).unwrap();
    assert_eq!(raw.other["later"], json!([1.50]));
}

#[test]
fn an_id_of_zero_or_less_means_no_rule() {
    for number in [0, -1, i64::MIN] {
        assert_eq!(
            parse(with("proxy-uid", json!(number))).unwrap().proxy_uid,
            None
        );
    }
}

#[test]
fn every_fault_names_its_key_and_value() {
    for (key, value, words) in [
        (
            "incoming-proxy-port",
            json!(0),
            "0 is not a port (1..=65535)",
        ),
        ("incoming-proxy-port", json!(70000), "70000 is not a port"),
        ("incoming-proxy-port", json!(-1), "-1 is not a port"),
        ("incoming-proxy-port", json!(1.5), "1.5 is not a port"),
        ("incoming-proxy-port", json!(null), "is missing"),
        (
            "outgoing-proxy-port",
            json!("4140"),
            "is a string, not a number",
        ),
        ("proxy-uid", json!("2102"), "is a string, not a number"),
        ("proxy-gid", json!(4294967295u32), "4294967295 is not an id"),
        ("ports-to-redirect", json!([0]), "0 is not a port"),
        ("ports-to-redirect", json!(["80-90"]), "80-90 is not a port"),
        (
            "inbound-ports-to-ignore",
            json!("80"),
            "is a string, not a list",
        ),
        (
            "inbound-ports-to-ignore",
            json!(["80", "80a"]),
            r#"item 2: "80a" is not a port"#,
        ),
        (
            "outbound-ports-to-ignore",
            json!([true]),
            "item 1: is a boolean",
        ),
        (
            "outbound-ports-to-ignore",
            json!([1.5]),
            r#"item 1: "1.5" is not a port"#,
        ),
        (
            "subnets-to-ignore",
            json!(["10.0.0.0/33"]),
            "is not a subnet",
        ),
        (
            "outbound-ports-to-redirect",
            json!(["80-90"]),
            "80-90 is not a port",
        ),
        (
            "outbound-subnets-to-ignore",
            json!(["10.0.0.0/8", "ten"]),
            r#"item 2: "ten" is not a subnet"#,
        ),
        (
            "interfaces-to-ignore",
            json!("net1"),
            "is a string, not a list",
        ),
        (
            "interfaces-to-ignore",
            json!(["net1", "eth0:1"]),
            r#"item 2: "eth0:1" is not the name of a network interface"#,
        ),
        (
            "interfaces-to-ignore",
            json!(["+"]),
            "stands for every interface",
        ),
        ("simulate", json!("true"), "is a string, not true or false"),
        (
            "iptables-mode",
            json!("nftables"),
            r#""nftables" is not one of legacy, nft, plain, native, auto"#,
        ),
        ("iptables-mode", json!(1), "is a number, not one of"),
        ("ipv6", json!(1), "is a number, not true or false"),
    ] {
        let error = parse(with(key, value)).unwrap_err();
        assert_eq!(error.key(), key);
        let text = error.to_string();
        assert!(text.starts_with(&format!("linkerd.{key}: ")), "{text}");
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn another_shape_is_named() {
    let error = parse(json!(["linkerd"])).unwrap_err();
    assert_eq!(error.to_string(), "linkerd: is an array, not an object");
}

#[test]
fn each_mode_is_read_as_it_is_shown() {
    for mode in ["legacy", "nft", "plain", "native", "auto"] {
        let value = json!({
            "incoming-proxy-port": 4143, "outgoing-proxy-port": 4140, "iptables-mode": mode,
        });
        let config = Config::try_from(RawConfig::from_value(&value).unwrap()).unwrap();
        assert_eq!(config.iptables_mode.as_str(), mode);
    }
}
