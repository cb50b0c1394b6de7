//! Which pods are redirected.

use std::net::SocketAddr;

use linkerd_cni_integration::fixtures;
use linkerd_cni_integration::rules::{self, Family};
use linkerd_cni_integration::traffic::{As, Listener, connect};

use crate::machine::{EXCLUDED, Machine};
use crate::pod::{GATEWAY, INBOUND, OUTBOUND, Pod, WEB};

/// A token that the installer's service account has not, or not yet.
const OTHER: &str = "another-token-of-which-the-node-knows-nothing";

#[test]
fn pods_of_the_mesh_are_redirected() {
    let machine = Machine::chained();
    for fixture in ["meshed", "native-sidecar", "control-plane"] {
        let pod = Pod::of(&machine, fixtures::pod(fixture));
        let serving = pod.start(&machine).unwrap().serve();
        assert_eq!(serving.redirected(&machine), (true, true), "{fixture}");
        assert!(serving.sandbox.record(&machine).exists(), "{fixture}");
        serving.sandbox.end(&machine).unwrap();
    }
    assert_eq!(machine.left(), [""; 0]);
}

#[test]
fn what_a_pod_leaves_alone_is_left_alone() {
    let machine = Machine::chained();
    let _at_the_node = [443, 3306].map(|port| Listener::new(&machine.netns(), Family::V4, port));
    let start = |object| {
        let pod = Pod::of(&machine, object);
        pod.start(&machine).unwrap().serve()
    };
    let to = |port| SocketAddr::from((GATEWAY, port));

    // Its fixture leaves 10.0.0.0/8 alone, in which the node is.
    let mut object = fixtures::pod("annotated");
    assert_eq!(start(object.clone()).inbound(&machine).port, WEB);
    object["metadata"]["name"] = "web-annotated-1".into();
    object["metadata"]["annotations"]["config.linkerd.io/skip-subnets"] = "10.99.0.0/16".into();
    let annotated = start(object);
    assert_eq!(annotated.redirected(&machine), (true, true));
    let _listener = Listener::new(&annotated.sandbox.netns, Family::V4, 8081);
    let skipped = SocketAddr::new(annotated.sandbox.ip, 8081);
    let landed = machine.namespaces.enter(|| connect(skipped)).unwrap();
    assert_eq!((landed.port, landed.original), (8081, None));
    assert_eq!(annotated.out(As::APP, to(3306)).port, 3306);
    assert_eq!(annotated.out(As::APP, to(443)).port, OUTBOUND);

    // The API server's port.
    let control_plane = start(fixtures::pod("control-plane"));
    assert_eq!(control_plane.out(As::APP, to(443)).port, 443);
}

#[test]
fn other_pods_are_not_touched() {
    let machine = Machine::chained();
    let pods = [
        Pod::of(&machine, fixtures::pod("unmeshed")),
        Pod::named("linkerd-cni", "linkerd-cni-x7k2p"),
        Pod::named(EXCLUDED, "kube-proxy-abcde"),
    ];
    for pod in pods {
        let serving = pod.start(&machine).unwrap().serve();
        assert_eq!(serving.redirected(&machine), (false, false), "{pod:?}");
        assert_eq!(serving.inbound(&machine).port, WEB);
        assert_eq!(rules::effective(&serving.sandbox.netns), [""; 0]);
        serving.sandbox.end(&machine).unwrap();
    }
    assert_eq!(machine.left(), [""; 0]);
}

#[test]
fn a_pod_with_the_hosts_network_leaves_the_host_alone() {
    let machine = Machine::chained();
    let before = rules::everything(&machine.netns());
    let pod = Pod::of(&machine, fixtures::pod("meshed")).host_network();
    let sandbox = pod.start(&machine).unwrap();
    assert!(!sandbox.record(&machine).exists());
    assert_eq!(rules::everything(&machine.netns()), before);
    sandbox.end(&machine).unwrap();
    assert_eq!(machine.left(), [""; 0]);
}

#[test]
fn a_dead_token_locks_out_neither_our_own_pod_nor_an_excluded_one() {
    let machine = Machine::chained();
    machine.api.set_token(OTHER);
    let meshed = Pod::of(&machine, fixtures::pod("meshed"));
    let refused = meshed.start(&machine).err().unwrap();
    assert!(refused.contains("401"), "{refused}");
    for pod in [
        Pod::named("linkerd-cni", "linkerd-cni-x7k2p"),
        Pod::named(EXCLUDED, "kube-proxy-abcde"),
    ] {
        pod.start(&machine).unwrap().end(&machine).unwrap();
    }
    assert_eq!(machine.left(), [""; 0]);

    // What our own pod then does: a token that is taken.
    machine.node.rotate_token(OTHER);
    machine.wait_token(OTHER);
    let serving = meshed.start(&machine).unwrap().serve();
    assert_eq!(serving.redirected(&machine), (true, true));
    assert_eq!(serving.inbound(&machine).port, INBOUND);
}
