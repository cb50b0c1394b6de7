//! Each value: that it does something, that it is refused if it is wrong, that it is explained.

use std::fs;

use linkerd_cni_integration::chart::{Chart, default_values, deploy, refuses};
use serde_json::{Value, json};

/// Values that must not change what is installed; the notes say so (see `objects`).
const IGNORED: [&str; 2] = ["enablePSP", "repairController.enabled"];

/// What a value only means something beside.
fn companions(path: &str) -> Vec<(&'static str, Value)> {
    match path {
        "logFileMaxBytes" => vec![("logFile", json!("/var/log/l.log"))],
        "taintOnLoss" => vec![("startupTaint", json!("linkerd.io/cni-not-ready"))],
        "hostMountDir" => vec![
            ("destCNINetDir", json!("/some/net")),
            ("destCNIBinDir", json!("/some/bin")),
        ],
        "podMonitor.enabled" => vec![("adminAddress", json!("0.0.0.0:9990"))],
        path if path.starts_with("podMonitor.") => vec![
            ("adminAddress", json!("0.0.0.0:9990")),
            ("podMonitor.enabled", json!(true)),
        ],
        _ => Vec::new(),
    }
}

/// A value that is another one than this, and valid.
fn other(path: &str, value: &Value) -> Value {
    let by_name = match path {
        "iptablesMode" => Some(json!("legacy")),
        "onExit" => Some(json!("keep")),
        "installerLogLevel" => Some(json!("warn")),
        "installerLogFormat" => Some(json!("json")),
        "adminAddress" => Some(json!("0.0.0.0:9990")),
        "resyncInterval" => Some(json!("7s")),
        "image.pullPolicy" => Some(json!("Never")),
        "ignoreInboundPorts" | "ignoreOutboundPorts" => Some(json!("77")),
        "portsToRedirect" | "outboundPortsToRedirect" => Some(json!("77")),
        "ignoreSubnets" | "ignoreOutboundSubnets" => Some(json!(["192.0.2.0/24"])),
        "ignoreInterfaces" => Some(json!(["net1"])),
        "excludeNamespaces" => Some(json!(["other"])),
        "capabilities" => Some(json!(["CHOWN"])),
        "ignoreConfigurations" => Some(json!(["other"])),
        "hostMountDir" => Some(json!("/some")),
        "podMonitor.enabled" => Some(json!(true)),
        "podMonitor.scrapeInterval" | "podMonitor.scrapeTimeout" => Some(json!("7s")),
        "logFile" | "destCNINetDir" | "destCNIBinDir" => Some(json!("/some/where")),
        "nodeAffinity" => Some(json!({"preferredDuringSchedulingIgnoredDuringExecution": []})),
        "updateStrategy.rollingUpdate.maxUnavailable" => Some(json!("10%")),
        _ => None,
    };
    by_name.unwrap_or_else(|| match value {
        Value::Bool(value) => json!(!value),
        Value::Number(number) => json!(number.as_i64().expect("a whole number") + 11),
        Value::String(_) => json!("other"),
        Value::Array(_) => json!([{"name": "other"}]),
        Value::Object(_) => json!({"other": "other"}),
        Value::Null => panic!("{path} has no default"),
    })
}

/// Paths and defaults of all values; lists and empty objects count as one.
fn leaves(path: &str, value: &Value) -> Vec<(String, Value)> {
    match value {
        Value::Object(members) if !members.is_empty() => members
            .iter()
            .flat_map(|(key, value)| leaves(&format!("{path}.{key}"), value))
            .collect(),
        _ => vec![(path.trim_start_matches('.').to_owned(), value.clone())],
    }
}

#[test]
fn every_value_changed_from_its_default_changes_what_is_rendered() {
    let values = leaves("", &Value::Object(default_values()));
    assert!(values.len() > 50, "{values:?}");
    for (path, default) in values {
        let chart = companions(&path)
            .iter()
            .fold(Chart::new(), |chart, (name, value)| chart.set(name, value));
        let before = chart.render().expect("the value's companions");
        let after = chart.set(&path, &other(&path, &default)).render();
        let after = after.unwrap_or_else(|error| panic!("{path}: {error:#}"));
        assert_eq!(
            after == before,
            IGNORED.contains(&path.as_str()),
            "{path}, which is {default}"
        );
    }
}

#[test]
fn a_value_that_cannot_be_is_refused_and_named() {
    for (path, value) in [
        ("inboundProxyPort", json!(70000)),
        ("ignoreInboundPorts", json!("80;443")),
        ("ignoreOutboundPorts", json!("abc")),
        ("portsToRedirect", json!("80-90")),
        ("outboundPortsToRedirect", json!("80-90")),
        ("ignoreOutboundSubnets", json!(["10.0.0.0"])),
        ("ignoreInterfaces", json!("net1")),
        ("ignoreInterfaces", json!(["eth0:1"])),
        ("ignoreInterfaces", json!(["+"])),
        ("ignoreInterfaces", json!(["sixteen-letters-"])),
        ("iptablesMode", json!("nftables")),
        ("onExit", json!("never")),
        ("resyncInterval", json!("0s")),
        ("destCNINetDir", json!("etc/cni/net.d")),
        ("adminAddress", json!(":9990")),
        ("terminationGracePeriodSeconds", json!(2)),
        ("proxyUID", json!("root")),
        ("disableIPv6", json!("yes")),
        ("logFile", json!("relative.log")),
        ("commonLabels", json!({"a": true})),
        // It needs the taint's key.
        ("taintOnLoss", json!(true)),
    ] {
        refuses(&Chart::new().set(path, &value), &[path]).unwrap();
    }
}

/// `ignoreOutboundPort: "3306"` would send a database's traffic through the proxy.
#[test]
fn a_value_that_does_not_exist_is_refused_and_named() {
    let typo = Chart::new().set("ignoreOutboundPort", &json!("3306"));
    refuses(&typo, &["ignoreOutboundPort"]).unwrap();
}

#[test]
fn every_value_is_explained_in_the_documentation() {
    let text = fs::read_to_string(deploy().join("README.md")).unwrap();
    for name in default_values().keys() {
        let row = format!("| `{name}`");
        let shared = format!(", `{name}`");
        assert!(
            text.contains(&row) || text.contains(&shared),
            "{name} is not in a table of deploy/README.md"
        );
    }
}
