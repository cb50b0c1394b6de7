//! Real connections in the pod's namespace, and where they land.
//!
//! The configuration is the chart's with a subnet of each family to ignore: the
//! peer has an address in it. The fixture's namespace skips outbound 25 and 587,
//! which replaces the chart's 3306.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use linkerd_cni_integration::fixtures;
use linkerd_cni_integration::rules::Family;
use linkerd_cni_integration::stage::Stage;
use linkerd_cni_integration::traffic::{As, Landed, Listener, Network};
use serde_json::{Value, json};

const INBOUND: u16 = 4143;
const OUTBOUND: u16 = 4140;
const PROXY: u32 = 2102;

#[test]
fn traffic_goes_through_the_proxy_with_nft() {
    goes_through_the_proxy("nft");
}

#[test]
fn traffic_goes_through_the_proxy_with_legacy() {
    goes_through_the_proxy("legacy");
}

#[test]
fn traffic_goes_through_the_proxy_with_plain() {
    goes_through_the_proxy("plain");
}

#[test]
fn traffic_goes_through_the_proxy_with_native() {
    goes_through_the_proxy("native");
}

#[test]
fn only_the_ports_to_redirect_are_redirected_inbound() {
    for mode in ["nft", "legacy", "plain", "native"] {
        let mesh = Mesh::new("meshed", |stage| {
            stage
                .linkerd("iptables-mode", mode)
                .linkerd("ports-to-redirect", json!([8080, 9090]))
        });
        for family in [Family::V4, Family::V6] {
            let _listening = mesh.listen(family);
            for port in [8080, 9090] {
                assert_redirected(
                    mesh.network.inbound(family, port),
                    INBOUND,
                    pod(family, port),
                );
            }
            for port in [80, 4191, 8081] {
                assert_untouched(mesh.network.inbound(family, port), port);
            }
            let web = peer(family, 80);
            assert_redirected(mesh.network.outbound(As::APP, web), OUTBOUND, web);
        }
    }
}

#[test]
fn before_add_and_after_del_nothing_is_redirected() {
    for mode in ["nft", "native"] {
        nothing_is_redirected_without(mode);
    }
}

fn nothing_is_redirected_without(mode: &str) {
    let mesh = Mesh::new("meshed", |stage| stage.linkerd("iptables-mode", mode));
    let del = || mesh.stage.del().succeed();
    del();
    for _ in 0..2 {
        for family in [Family::V4, Family::V6] {
            let _listening = mesh.listen(family);
            assert_untouched(mesh.network.inbound(family, 80), 80);
            assert_untouched(mesh.network.outbound(As::APP, peer(family, 80)), 80);
        }
        mesh.stage.add().succeed();
        del();
    }
}

#[test]
fn a_proxy_with_a_user_of_its_own_passes_and_the_configured_one_does_not() {
    for mode in ["nft", "native"] {
        a_user_of_its_own_passes(mode);
    }
}

fn a_user_of_its_own_passes(mode: &str) {
    let mesh = Mesh::new("custom-uid", |stage| stage.linkerd("iptables-mode", mode));
    for family in [Family::V4, Family::V6] {
        let _listening = mesh.listen(family);
        let web = peer(family, 80);
        let network = &mesh.network;
        assert_untouched(network.outbound(As::user(1_000_680_000), web), 80);
        assert_untouched(network.outbound(As::group(1_000_680_000), web), 80);
        assert_redirected(network.outbound(As::user(PROXY), web), OUTBOUND, web);
    }
}

fn goes_through_the_proxy(mode: &str) {
    let mesh = Mesh::new("meshed", |stage| stage.linkerd("iptables-mode", mode));
    for family in [Family::V4, Family::V6] {
        let _listening = mesh.listen(family);
        inbound(&mesh.network, family);
        outbound(&mesh.network, family);
        loopback(&mesh.network, family);
    }
}

fn inbound(network: &Network, family: Family) {
    // Whether anything listens on the port or not.
    for port in [1, 80, 8080, 4140, 65535] {
        assert_redirected(network.inbound(family, port), INBOUND, pod(family, port));
    }
    for port in [4191, 4190, 222, 5432, 5433] {
        assert_untouched(network.inbound(family, port), port);
    }
    assert_untouched(network.inbound_from_elsewhere(family, 80), 80);
}

fn outbound(network: &Network, family: Family) {
    for port in [80, 3306] {
        let to = peer(family, port);
        assert_redirected(network.outbound(As::APP, to), OUTBOUND, to);
        assert_redirected(network.outbound(As::user(0), to), OUTBOUND, to);
    }
    for port in [25, 587] {
        assert_untouched(network.outbound(As::APP, peer(family, port)), port);
    }
    // Subnets are ignored where connections come from, not where they go to.
    let elsewhere = SocketAddr::new(Network::peer_elsewhere(family), 80);
    assert_redirected(network.outbound(As::APP, elsewhere), OUTBOUND, elsewhere);
    let web = peer(family, 80);
    assert_untouched(network.outbound(As::user(PROXY), web), 80);
    assert_untouched(network.outbound(As::group(PROXY), web), 80);
}

fn loopback(network: &Network, family: Family) {
    let localhost: IpAddr = match family {
        Family::V4 => Ipv4Addr::LOCALHOST.into(),
        Family::V6 => Ipv6Addr::LOCALHOST.into(),
    };
    for address in [localhost, Network::pod_ip(family)] {
        for who in [As::APP, As::user(PROXY)] {
            assert_untouched(network.outbound(who, SocketAddr::new(address, 80)), 80);
        }
    }
}

/// A pod with a network, after ADD.
pub(crate) struct Mesh {
    pub(crate) network: Network,
    pub(crate) stage: Stage,
}

// === impl Mesh ===

impl Mesh {
    fn new(pod: &str, configure: impl FnOnce(Stage) -> Stage) -> Self {
        Self::of(fixtures::pod(pod), configure)
    }

    pub(crate) fn of(pod: Value, configure: impl FnOnce(Stage) -> Stage) -> Self {
        let network = Network::new();
        let stage = Stage::in_namespace(pod, &network.pod)
            .linkerd("subnets-to-ignore", json!(["192.168.77.0/24", "fd77::/64"]));
        let stage = configure(stage);
        let output = stage.add().succeed();
        let fell_back = output.stderr.contains("is used instead");
        assert!(!fell_back, "{}", output.stderr);
        Self { network, stage }
    }

    pub(crate) fn listen(&self, family: Family) -> Vec<Listener> {
        let pod = [INBOUND, OUTBOUND, 80, 222, 4190, 4191, 5432, 5433, 8081];
        let mut listeners = Listener::all(&self.network.pod, family, &pod);
        listeners.extend(Listener::all(
            &self.network.peer,
            family,
            &[25, 80, 587, 3306],
        ));
        listeners
    }
}

pub(crate) fn pod(family: Family, port: u16) -> SocketAddr {
    SocketAddr::new(Network::pod_ip(family), port)
}

pub(crate) fn peer(family: Family, port: u16) -> SocketAddr {
    SocketAddr::new(Network::peer_ip(family), port)
}

#[track_caller]
pub(crate) fn assert_redirected(landed: anyhow::Result<Landed>, port: u16, meant: SocketAddr) {
    let landed = landed.unwrap_or_else(|error| panic!("to {meant}: {error:#}"));
    assert_eq!(
        (landed.port, landed.original),
        (port, Some(meant)),
        "to {meant}"
    );
}

#[track_caller]
pub(crate) fn assert_untouched(landed: anyhow::Result<Landed>, port: u16) {
    let landed = landed.unwrap_or_else(|error| panic!("to port {port}: {error:#}"));
    assert_eq!(
        (landed.port, landed.original),
        (port, None),
        "to port {port}"
    );
}
