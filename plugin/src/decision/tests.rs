use proxy_init_rules::RawConfig;
use serde_json::{Value, json};

use super::*;

mod identity;
mod listening;

fn name(namespace: &str, name: &str) -> PodRef {
    PodRef {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        uid: None,
    }
}

fn pod(value: Value) -> Pod {
    serde_json::from_value(value).unwrap()
}

fn base() -> Config {
    let raw = RawConfig::from_value(&json!({
        "incoming-proxy-port": 4143, "outgoing-proxy-port": 4140, "proxy-uid": 2102,
        "outbound-ports-to-ignore": ["25"],
    }));
    Config::try_from(raw.unwrap()).unwrap()
}

fn with_proxy(mut value: Value) -> Pod {
    let context = value["proxy"].take();
    value["spec"]["containers"] = json!([
        {"name": "web", "securityContext": value["web"]},
        {"name": "linkerd-proxy", "securityContext": context},
    ]);
    pod(value)
}

fn decide(pod: &Pod, api_server: Option<ApiServerPorts>) -> (Config, Vec<String>) {
    let found = meshed(&name("ns", "web"), pod, None, api_server, &base()).unwrap();
    (found.config, found.warnings)
}

#[test]
fn only_the_installers_own_pods_are_exempt() {
    let kubernetes = KubernetesConfig {
        exclude_namespaces: vec!["kube-system".to_owned()],
        ..KubernetesConfig::default()
    };
    for (pod, expected) in [
        (
            name("linkerd-cni", "linkerd-cni-x7k2p"),
            Some(Pass::Installer),
        ),
        (name("linkerd-cni", "linkerd-cni-x7k2pq"), None),
        (name("linkerd-cni", "linkerd-cni-x7k2"), None),
        (name("linkerd-cni", "linkerd-cni-X7k2p"), None),
        (name("linkerd-cni", "linkerd-cni"), None),
        (name("linkerd-cni", "linkerd-cni-a-b2cd"), None),
        (name("linkerd-cni", "linkerd-destination-x7k2p"), None),
        (name("other", "linkerd-cni-x7k2p"), None),
        (
            name("kube-system", "coredns-1"),
            Some(Pass::ExcludedNamespace),
        ),
    ] {
        assert_eq!(exempt(&pod, &kubernetes), expected, "{pod}");
    }
}

#[test]
fn a_proxy_of_either_kind_meshes_and_the_init_container_does_not() {
    let container = |name: &str| json!([{ "name": name }]);
    for (spec, expected) in [
        (json!({"containers": container("linkerd-proxy")}), Ok(())),
        (
            json!({"initContainers": container("linkerd-proxy")}),
            Ok(()),
        ),
        (json!({"containers": container("web")}), Err(Pass::NoProxy)),
        (
            json!({"containers": container("linkerd-proxy"), "initContainers": container("linkerd-init")}),
            Err(Pass::InitContainer),
        ),
        (json!({"containers": null}), Err(Pass::NoProxy)),
        (
            json!({"containers": container("linkerd-proxy"), "initContainers": container("linkerd-network-validator")}),
            Ok(()),
        ),
    ] {
        assert_eq!(is_meshed(&pod(json!({"spec": spec}))), expected, "{spec}");
    }
}

#[test]
fn the_control_plane_reaches_the_api_server_directly() {
    let ports = |config: &Config| {
        let shown = config
            .outbound_ports_to_ignore
            .iter()
            .map(ToString::to_string);
        shown.collect::<Vec<_>>().join(",")
    };
    let control_plane = with_proxy(json!({
        "metadata": {"labels": {"linkerd.io/control-plane-component": "destination"}},
    }));
    assert!(is_control_plane(&control_plane));
    let found = vec![PortRange::single(443), PortRange::single(8443)];
    let (config, warnings) = decide(&control_plane, Some(Ok(found)));
    assert_eq!(
        (ports(&config).as_str(), warnings.len()),
        ("25,443,8443", 0)
    );
    for failed in [Ok(vec![]), Err("refused".to_owned())] {
        let (config, warnings) = decide(&control_plane, Some(failed));
        assert_eq!(
            (ports(&config).as_str(), warnings.len()),
            ("25,443,6443", 1)
        );
    }
}

#[test]
fn an_annotation_that_does_not_parse_fails_the_pod() {
    let bad = with_proxy(json!({
        "metadata": {"annotations": {"config.linkerd.io/skip-inbound-ports": "8081,80a"}},
    }));
    let error = meshed(&name("ns", "web"), &bad, None, None, &base())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("config.linkerd.io/skip-inbound-ports of pod ns/web"),
        "{error}"
    );
}

#[test]
fn a_pod_whose_own_interface_is_left_alone_is_told_of() {
    let skipping = |interfaces: &str| {
        let pod = with_proxy(json!({
            "metadata": {"annotations": {"config.linkerd.io/skip-interfaces": interfaces}},
        }));
        decide(&pod, None).0
    };
    for (interfaces, ifname, expected) in [
        ("net1,eth0", "eth0", true),
        ("e+", "eth0", true),
        ("net1", "net1", true),
        ("net1", "eth0", false),
        ("eth", "eth0", false),
        ("", "eth0", false),
    ] {
        let said = left_alone(&skipping(interfaces), ifname);
        assert_eq!(said.is_some(), expected, "{interfaces} {ifname}: {said:?}");
    }
    assert_eq!(
        left_alone(&skipping("e+"), "eth0").unwrap(),
        "interface eth0 of this attachment is left alone (e+ is among the interfaces to ignore); \
         all traffic over it bypasses the proxy"
    );
}

#[test]
fn a_misspelt_annotation_is_a_warning() {
    let typo = with_proxy(json!({
        "metadata": {"annotations": {"config.linkerd.io/skip-oubound-ports": "3306"}},
    }));
    let (config, warnings) = decide(&typo, None);
    assert_eq!(
        config.outbound_ports_to_ignore,
        base().outbound_ports_to_ignore
    );
    assert!(warnings[0].contains("did you mean config.linkerd.io/skip-outbound-ports?"));
}
