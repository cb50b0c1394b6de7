//! The rules lead to where the proxy of this pod listens.

use linkerd_cni_integration::fixtures;
use linkerd_cni_integration::rules::Family;
use linkerd_cni_integration::stage::Stage;
use linkerd_cni_integration::traffic::{As, Listener};
use serde_json::{Value, json};

use crate::traffic::{Mesh, assert_redirected, assert_untouched, peer, pod};

const INBOUND: u16 = 5143;
const OUTBOUND: u16 = 5140;
/// Admin and control.
const OWN: [u16; 2] = [5191, 5190];

/// What the injector of linkerd writes for these ports.
const ENV: [(&str, &str); 5] = [
    ("LINKERD2_PROXY_CONTROL_LISTEN_ADDR", "[::]:5190"),
    ("LINKERD2_PROXY_ADMIN_LISTEN_ADDR", "[::]:5191"),
    ("LINKERD2_PROXY_OUTBOUND_LISTEN_ADDR", "127.0.0.1:5140"),
    (
        "LINKERD2_PROXY_OUTBOUND_LISTEN_ADDRS",
        "127.0.0.1:5140,[::1]:5140",
    ),
    ("LINKERD2_PROXY_INBOUND_LISTEN_ADDR", "[::]:5143"),
];

const ANNOTATIONS: [(&str, &str); 4] = [
    ("config.linkerd.io/inbound-port", "5143"),
    ("config.linkerd.io/outbound-port", "5140"),
    ("config.linkerd.io/admin-port", "5191"),
    ("config.linkerd.io/control-port", "5190"),
];

/// Each puts the ports in another place.
type Place = fn(&mut Value, &mut Value);

const PLACES: [(&str, Place); 4] = [
    ("the environment", |pod, _| environment(pod)),
    ("the pod's annotations", |pod, _| annotate(pod)),
    ("the namespace's annotations", |_, namespace| {
        annotate(namespace);
    }),
    ("the environment, not the annotations", |pod, namespace| {
        environment(pod);
        annotate(pod);
        annotate(namespace);
        pod["metadata"]["annotations"]["config.linkerd.io/inbound-port"] = json!("6143");
        namespace["metadata"]["annotations"]["config.linkerd.io/admin-port"] = json!("6191");
    }),
];

fn environment(pod: &mut Value) {
    let env = ENV.map(|(name, value)| json!({"name": name, "value": value}));
    pod["spec"]["containers"][0]["env"] = json!(env);
}

fn annotate(object: &mut Value) {
    for (key, value) in ANNOTATIONS {
        object["metadata"]["annotations"][key] = json!(value);
    }
}

#[test]
fn connections_land_where_the_proxy_listens_whoever_says_it_with_nft() {
    for (what, place) in PLACES {
        land_where_the_proxy_listens("nft", what, place);
    }
}

#[test]
fn connections_land_where_the_proxy_listens_whoever_says_it_with_native() {
    for (what, place) in PLACES {
        land_where_the_proxy_listens("native", what, place);
    }
}

fn land_where_the_proxy_listens(mode: &str, what: &str, place: Place) {
    eprintln!("{mode}: {what}");
    let [mut meshed, mut namespace] = ["meshed", "namespace"].map(fixtures::pod);
    place(&mut meshed, &mut namespace);
    let mesh = Mesh::of(meshed, |stage| {
        stage.api.put(namespace);
        stage.linkerd("iptables-mode", mode)
    });
    for family in [Family::V4, Family::V6] {
        let ours = [INBOUND, OUTBOUND, OWN[0], OWN[1], 4190, 4191];
        let _listening = [
            Listener::all(&mesh.network.pod, family, &ours),
            Listener::all(&mesh.network.peer, family, &[80]),
        ];
        let inbound = |port| mesh.network.inbound(family, port);
        for port in [80, 4143, 4140] {
            assert_redirected(inbound(port), INBOUND, pod(family, port));
        }
        let web = peer(family, 80);
        assert_redirected(mesh.network.outbound(As::APP, web), OUTBOUND, web);
        assert_untouched(mesh.network.outbound(As::user(2102), web), 80);
        // Those of the configuration stay: it lists them among others.
        for port in OWN.into_iter().chain([4190, 4191]) {
            assert_untouched(inbound(port), port);
        }
    }
}

#[test]
fn a_contradiction_is_a_warning_that_names_both_ports() {
    let mut pod = fixtures::pod("meshed");
    environment(&mut pod);
    pod["metadata"]["annotations"]["config.linkerd.io/outbound-port"] = json!("6140");
    let stage = of(pod);
    let output = stage.add().succeed();
    output.logs(&["WARN", "inbound port is 5143", "not 4143"]);
    output.logs(&["WARN", "outbound port is 5140", "not 6140"]);
    assert!(!output.stderr.contains("admin"), "{}", output.stderr);
}

#[test]
fn a_value_that_does_not_parse_is_a_warning_and_the_configuration_holds() {
    let mut pod = fixtures::pod("meshed");
    let name = "LINKERD2_PROXY_INBOUND_LISTEN_ADDR";
    pod["spec"]["containers"][0]["env"] = json!([{"name": name, "value": "0.0.0.0:inbound"}]);
    let stage = of(pod);
    let output = stage.add().succeed();
    output.logs(&["WARN", name, "0.0.0.0:inbound"]);
    let rules = linkerd_cni_integration::rules::effective(&stage.netns).join("\n");
    assert!(rules.contains("--to-ports 4143"), "{rules}");
}

fn of(pod: Value) -> Stage {
    let netns = std::sync::Arc::new(linkerd_cni_integration::netns::Netns::new());
    Stage::in_namespace(pod, &netns)
}
