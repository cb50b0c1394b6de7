//! The startup taint goes once the node is ready, and no other taint with it.

use std::thread;
use std::time::Duration;

use linkerd_cni_integration::api_server::{ApiServer, Fault, Request, TOKEN};
use linkerd_cni_integration::node::{NAME, Node};
use serde_json::{Value, json};

const KEY: &str = "linkerd.io/cni-not-ready";

fn path() -> String {
    format!("/api/v1/nodes/{NAME}")
}

fn taint(key: &str, effect: &str) -> Value {
    // With a member that no client of ours knows.
    json!({"key": key, "effect": effect, "value": "v", "since-later-versions": {"a": 1}})
}

fn server(taints: &[Value]) -> ApiServer {
    let server = ApiServer::start();
    server.put(json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": NAME}, "spec": {"taints": taints},
    }));
    server
}

fn node(server: &ApiServer) -> Node {
    let mut node = Node::new();
    node.use_server(server);
    node.set("STARTUP_TAINT", KEY);
    node.set("RESYNC_INTERVAL", "50ms");
    node
}

fn taints(server: &ApiServer) -> Value {
    server.object(&path()).unwrap()["spec"]["taints"].clone()
}

fn methods(server: &ApiServer) -> Vec<String> {
    let of_node = |request: &Request| request.path() == path();
    let requests = server.requests().into_iter().filter(of_node);
    requests.map(|request| request.method).collect()
}

const REMOVED: &str = "Removed taint linkerd.io/cni-not-ready from node node-7";

#[test]
fn the_taint_goes_when_the_node_is_ready_and_not_before_and_the_others_stay() {
    let others = [taint("a", "NoSchedule"), taint("b", "NoExecute")];
    let server = server(&[
        others[0].clone(),
        taint(KEY, "NoSchedule"),
        others[1].clone(),
        taint(KEY, "NoExecute"),
    ]);
    let mut node = node(&server);
    node.start();
    node.wait("waiting", |node| {
        node.logged("No active CNI configuration") == 1
    });
    assert!(methods(&server).is_empty());
    node.drop_in("net.d/10-calico.conflist");
    node.wait("the taint gone", |node| node.logged(REMOVED) == 1);
    assert_eq!(taints(&server), json!(others));
    assert_eq!(methods(&server), ["GET", "PATCH"]);

    // It is a startup taint: one that somebody sets later is none of ours.
    let mut again = server.object(&path()).unwrap();
    again["spec"]["taints"] = json!([taint(KEY, "NoSchedule")]);
    server.put(again);
    std::fs::remove_file(node.conf("10-calico.conflist")).unwrap();
    node.wait("not chained", |node| {
        node.logged("No active CNI configuration") == 2
    });
    node.drop_in("net.d/10-calico.conflist");
    node.wait_chained("10-calico.conflist");
    thread::sleep(Duration::from_millis(300));
    assert_eq!(methods(&server), ["GET", "PATCH"]);
}

#[test]
fn a_taint_that_comes_in_between_is_not_lost() {
    let server = server(&[taint("a", "NoSchedule"), taint(KEY, "NoSchedule")]);
    let mut times = 3;
    server.before_patch(move |node| {
        if times > 0 {
            let taints = node["spec"]["taints"].as_array_mut().unwrap();
            taints.insert(0, taint(&format!("new-{times}"), "NoSchedule"));
            times -= 1;
        }
    });
    let mut node = node(&server);
    node.drop_in("net.d/10-calico.conflist");
    node.start();
    node.wait("the taint gone", |node| node.logged(REMOVED) == 1);
    let left = ["new-1", "new-2", "new-3", "a"].map(|key| taint(key, "NoSchedule"));
    assert_eq!(taints(&server), json!(left));
}

#[test]
fn a_taint_that_somebody_else_removes_in_between_is_fine() {
    let server = server(&[taint(KEY, "NoSchedule"), taint("a", "NoSchedule")]);
    server.before_patch(|node| {
        let taints = node["spec"]["taints"].as_array_mut().unwrap();
        taints.retain(|taint| taint["key"] != KEY);
    });
    let mut node = node(&server);
    node.drop_in("net.d/10-calico.conflist");
    node.start();
    node.wait("no taint", |node| {
        node.logged("Node node-7 has no taint") == 1
    });
    assert_eq!(taints(&server), json!([taint("a", "NoSchedule")]));
}

#[test]
fn a_conflict_is_tried_again() {
    let server = server(&[taint(KEY, "NoSchedule")]);
    server.misbehave_times_on(2, "fieldManager", Fault::Status(409));
    let mut node = node(&server);
    node.drop_in("net.d/10-calico.conflist");
    node.start();
    node.wait("the taint gone", |node| node.logged(REMOVED) == 1);
    assert_eq!(taints(&server), json!([]));
    assert_eq!(node.logged("is not removed yet"), 0, "{}", node.log());
}

#[test]
fn a_node_without_the_taint_is_not_patched() {
    for taints in [&[][..], &[taint("linkerd.io/cni", "NoSchedule")]] {
        let server = server(taints);
        let mut node = node(&server);
        node.drop_in("net.d/10-calico.conflist");
        node.start();
        node.wait("no taint", |node| {
            node.logged("Node node-7 has no taint") == 1
        });
        assert_eq!(methods(&server), ["GET"]);
    }
}

#[test]
fn a_refusal_is_one_warning_that_names_the_right_and_holds_nothing_up() {
    let of_node = path();
    thread::scope(|scope| {
        scope.spawn(|| refused(&[], "get"));
        scope.spawn(|| refused(&[("GET", &of_node)], "patch"));
    });
}

fn refused(allowed: &[(&str, &str)], verb: &str) {
    let server = server(&[taint(KEY, "NoSchedule")]);
    server.allow_only(allowed);
    let mut node = node(&server);
    node.drop_in("net.d/10-calico.conflist");
    node.start();
    let warning = format!("does not let us {verb} nodes (403)");
    node.wait("the warning", |node| node.logged(&warning) == 1);
    node.drop_in("net.d/10-flannel.conflist");
    node.wait_chained("10-flannel.conflist");
    let before = methods(&server).len();
    node.wait("another attempt", |_| methods(&server).len() > before);
    assert_eq!(node.logged("is not removed yet"), 1, "{}", node.log());
    server.allow_only(&[("GET", &path()), ("PATCH", &path())]);
    node.wait("the taint gone", |node| node.logged(REMOVED) == 1);
    assert_eq!(taints(&server), json!([]));
}

#[test]
fn an_api_server_that_is_away_holds_nothing_up() {
    thread::scope(|scope| {
        for fault in [
            Fault::HangAfterRequest,
            Fault::Reset,
            Fault::Status(500),
            Fault::Truncated,
        ] {
            scope.spawn(|| away(fault));
        }
    });
}

fn away(fault: Fault) {
    let server = server(&[taint(KEY, "NoSchedule")]);
    server.misbehave(fault);
    let mut node = node(&server);
    node.start();
    node.drop_in("net.d/10-calico.conflist");
    node.wait_chained("10-calico.conflist");
    node.wait("the warning", |node| node.logged("is not removed yet") > 0);
    node.drop_in("net.d/10-flannel.conflist");
    node.wait_chained("10-flannel.conflist");
    server.behave();
    node.wait("the taint gone", |node| node.logged(REMOVED) == 1);
    assert!(!node.log().contains(TOKEN), "{}", node.log());
}

#[test]
fn a_taint_that_is_none_is_an_error_at_start() {
    for key in ["linkerd.io/x=true:NoSchedule", "a b", "x:NoSchedule"] {
        let mut node = Node::new();
        node.set("STARTUP_TAINT", key);
        let finished = node.run(&[]);
        let log = String::from_utf8_lossy(&finished.stderr).into_owned();
        assert_eq!(finished.status.and_then(|s| s.code()), Some(1), "{log}");
        assert!(
            log.contains(&format!("STARTUP_TAINT={key}: expected the key")),
            "{log}"
        );
    }
}
