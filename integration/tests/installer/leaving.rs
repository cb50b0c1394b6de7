//! What a signal means for the node.

use std::fs;
use std::time::Instant;

use linkerd_cni_integration::api_server::{ApiServer, Fault, TOKEN};
use linkerd_cni_integration::node::{NAME, Node, send};
use linkerd_cni_integration::verdicts::Case;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

/// Seconds in which it has to be over: 2, and 3 for the question, and what a
/// busy machine adds. Without a bound of its own it would not end at all.
const BOUND: u64 = 15;

const DAEMONSET: &str = "/apis/apps/v1/namespaces/linkerd-cni/daemonsets/linkerd-cni";

fn daemonset(pod: Value) -> Value {
    let mut pod = pod;
    pod["containers"] = json!([]);
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": "linkerd-cni", "namespace": "linkerd-cni"},
        "spec": {"selector": {}, "template": {"metadata": {}, "spec": pod}},
    })
}

fn node_object() -> String {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NAME, "labels": {"kubernetes.io/os": "linux"}}}).to_string()
}

/// A chained node whose API server answers as it was set up to.
fn node(server: &ApiServer) -> Node {
    server.misbehave_at(&format!("/api/v1/nodes/{NAME}"), Fault::Json(node_object()));
    let mut node = Node::new();
    node.use_server(server);
    node.drop_in("net.d/10-calico.conflist");
    node.drop_in("net.d/80-openshift-network.conf");
    node
}

/// Leaves as PID 1 of a PID namespace, without a shell, and returns the seconds
/// it took.
fn leave(node: &mut Node, signal: Signal) -> u64 {
    node.start_behind(&["unshare", "--pid", "--fork", "--kill-child"]);
    node.wait_chained("10-calico.conflist");
    node.wait_chained("80-openshift-network.conflist");
    let outer = node.pid();
    let children = fs::read_to_string(format!("/proc/{outer}/task/{outer}/children")).unwrap();
    let init: u32 = children.trim().parse().expect("one child");
    let status = fs::read_to_string(format!("/proc/{init}/status")).unwrap();
    assert!(
        status
            .lines()
            .any(|l| l.starts_with("NSpid:") && l.ends_with("\t1")),
        "not PID 1: {status}"
    );
    let started = Instant::now();
    send(init, signal);
    let ended = node.ended();
    assert!(ended.success(), "{ended}: {}", node.log());
    started.elapsed().as_secs()
}

#[track_caller]
fn stays(node: &Node) {
    assert!(
        node.is_chained("10-calico.conflist") && node.is_chained("80-openshift-network.conflist"),
        "{}",
        node.log()
    );
    assert!(
        node.executable().exists() && node.kubeconfig().exists(),
        "{}",
        node.log()
    );
}

#[track_caller]
fn is_gone(node: &Node) {
    assert_eq!(
        node.names(),
        ["10-calico.conflist", "80-openshift-network.conf"],
        "{}",
        node.log()
    );
    assert!(
        !fs::read_to_string(node.conf("10-calico.conflist"))
            .unwrap()
            .contains("linkerd")
    );
    assert!(!node.executable().exists(), "{}", node.log());
}

#[test]
fn a_daemonset_that_is_there_means_that_everything_stays() {
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let server = ApiServer::start();
        server.put(daemonset(
            json!({"nodeSelector": {"kubernetes.io/os": "linux"}}),
        ));
        let mut node = node(&server);
        node.set("LOG_LEVEL", "trace");
        assert!(leave(&mut node, signal) < BOUND);
        stays(&node);
        assert!(!node.log().contains(TOKEN), "{}", node.log());
        assert!(node.logged("Our DaemonSet stays") == 1, "{}", node.log());
        assert!(
            server
                .requests()
                .iter()
                .any(|r| r.target.starts_with(DAEMONSET)),
            "{:?}",
            server.requests()
        );
    }
}

#[test]
fn a_daemonset_that_is_being_deleted_means_that_everything_goes() {
    let server = ApiServer::start();
    let mut deleted = daemonset(json!({}));
    deleted["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    server.put(deleted);
    let mut node = node(&server);
    assert!(leave(&mut node, Signal::SIGTERM) < BOUND);
    is_gone(&node);
}

#[test]
fn a_daemonset_that_is_gone_means_that_everything_goes() {
    let server = ApiServer::start();
    let mut node = node(&server);
    assert!(leave(&mut node, Signal::SIGTERM) < BOUND);
    is_gone(&node);
}

/// An image of nothing but its executables has no certificate authorities.
#[test]
fn it_is_asked_where_the_image_has_no_authorities_of_its_own() {
    for skip in ["false", "true"] {
        let server = ApiServer::start();
        let mut node = node(&server);
        node.set("SSL_CERT_FILE", "/dev/null");
        node.set("SSL_CERT_DIR", "/dev/null");
        node.set("SKIP_TLS_VERIFY", skip);
        assert!(leave(&mut node, Signal::SIGTERM) < BOUND);
        is_gone(&node);
    }
}

#[test]
fn a_daemonset_that_is_not_meant_for_this_node_means_that_everything_goes() {
    let server = ApiServer::start();
    server.put(daemonset(
        json!({"nodeSelector": {"linkerd.io/mesh": "yes"}}),
    ));
    let mut node = node(&server);
    assert!(leave(&mut node, Signal::SIGTERM) < BOUND);
    is_gone(&node);
}

#[test]
fn a_node_that_cannot_be_read_means_that_everything_stays() {
    let server = ApiServer::start();
    server.put(daemonset(
        json!({"nodeSelector": {"linkerd.io/mesh": "yes"}}),
    ));
    server.misbehave_at(&format!("/api/v1/nodes/{NAME}"), Fault::Status(403));
    let mut node = node(&server);
    assert!(leave(&mut node, Signal::SIGTERM) < BOUND);
    stays(&node);
}

#[test]
fn a_refusal_means_that_everything_goes() {
    for status in [401, 403] {
        let server = ApiServer::start();
        server.put(daemonset(json!({})));
        server.misbehave_at(DAEMONSET, Fault::Status(status));
        let mut node = node(&server);
        assert!(leave(&mut node, Signal::SIGTERM) < BOUND);
        is_gone(&node);
    }
}

#[test]
fn an_api_server_that_cannot_be_asked_means_that_everything_stays() {
    for fault in [
        Fault::HangBeforeTls,
        Fault::HangAfterRequest,
        Fault::Reset,
        Fault::Status(500),
        Fault::Status(429),
        Fault::Truncated,
    ] {
        let server = ApiServer::start();
        server.put(daemonset(json!({})));
        let mut node = node(&server);
        server.misbehave(fault.clone());
        assert!(leave(&mut node, Signal::SIGTERM) < BOUND, "{fault:?}");
        stays(&node);
        assert_eq!(
            node.logged("The API server cannot be asked"),
            1,
            "{fault:?}: {}",
            node.log()
        );
    }
    // Nobody listens there, and another authority's certificate.
    let (server, other) = (ApiServer::start(), ApiServer::start());
    let mut closed = node(&server);
    closed.set("KUBERNETES_SERVICE_PORT", "1");
    assert!(leave(&mut closed, Signal::SIGTERM) < BOUND);
    stays(&closed);
    let mut strange = node(&server);
    strange.trust(&other.ca());
    assert!(leave(&mut strange, Signal::SIGTERM) < BOUND);
    stays(&strange);
}

/// The DaemonSet is gone: who has the answer gives the node back.
#[test]
fn an_api_server_that_go_trusts_is_asked() {
    for name in [
        "signed by p521 with ECDSA-SHA512",
        "itself with CA:TRUE, p256",
        "itself with CA:FALSE, p256",
    ] {
        let (server, case) = (ApiServer::start(), Case::named(name));
        server.show(&case);
        let mut node = node(&server);
        node.trust(&case.roots);
        assert!(leave(&mut node, Signal::SIGTERM) < BOUND, "{name}");
        is_gone(&node);
    }
    let server = ApiServer::start();
    let mut node = node(&server);
    let garbage = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    node.trust(&format!("{garbage}{}", server.ca()));
    assert!(leave(&mut node, Signal::SIGTERM) < BOUND);
    is_gone(&node);
    let skipped = "ca.crt: the block in line 1 is skipped: it is not a certificate";
    assert_eq!(node.logged(skipped), 1, "{}", node.log());
}

#[test]
fn an_api_server_that_is_not_trusted_is_named_with_its_dates_and_everything_stays() {
    for (name, words) in [
        (
            "itself with CA:TRUE, past",
            "expired at 2025-06-01T12:00:00Z, and by this node's clock",
        ),
        (
            "root future",
            "not valid before 2100-06-01T12:00:00Z, and by this node's clock",
        ),
        ("signed with SHA-1", "ECDSA with SHA-1 is not supported"),
    ] {
        let (server, case) = (ApiServer::start(), Case::named(name));
        server.show(&case);
        let mut node = node(&server);
        node.trust(&case.roots);
        assert!(leave(&mut node, Signal::SIGTERM) < BOUND, "{name}");
        stays(&node);
        assert_eq!(node.logged(words), 1, "{name}: {}", node.log());
    }
    let server = ApiServer::start();
    let mut node = node(&server);
    node.trust("a CA\n");
    assert!(leave(&mut node, Signal::SIGTERM) < BOUND);
    stays(&node);
    assert!(node.logged("holds no certificate") >= 1, "{}", node.log());
}

#[test]
fn keep_and_remove_do_not_ask() {
    for (on_exit, remains) in [("keep", true), ("remove", false)] {
        let server = ApiServer::start();
        let mut node = node(&server);
        node.set("ON_EXIT", on_exit);
        assert!(leave(&mut node, Signal::SIGTERM) < BOUND);
        if remains {
            stays(&node)
        } else {
            is_gone(&node)
        }
        assert!(server.requests().is_empty());
    }
}
