//! The startup taint goes whenever the node is ready, and no other taint with it; if that is wanted,
//! it comes when the chain is lost.

use std::thread;
use std::time::Duration;

use linkerd_cni_integration::api_server::{ApiServer, Fault, Request, TOKEN};
use linkerd_cni_integration::http;
use linkerd_cni_integration::kubeconfig::token_expiring_in;
use linkerd_cni_integration::node::{NAME, Node};
use nix::sys::signal::Signal;
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

    // What happens on the node is no reason to ask.
    for n in 0..10 {
        let name = format!("{n}0-more.conflist");
        node.write(&name, r#"{"name":"n","plugins":[{"type":"bridge"}]}"#);
        node.wait_chained(&name);
    }
    assert_eq!(methods(&server), ["GET", "PATCH"]);
}

#[test]
fn a_taint_that_comes_back_goes_again_as_long_as_the_node_is_ready() {
    let server = server(&[taint(KEY, "NoSchedule")]);
    let mut node = node(&server);
    node.set("ADMIN_ADDRESS", "127.0.0.1:0");
    node.drop_in("net.d/10-calico.conflist");
    node.start();
    node.wait("the taint gone", |node| node.logged(REMOVED) == 1);
    for times in [2, 3] {
        set_taints(
            &server,
            &[taint("a", "NoSchedule"), taint(KEY, "NoExecute")],
        );
        node.wait("the taint gone again", |node| node.logged(REMOVED) == times);
        assert_eq!(taints(&server), json!([taint("a", "NoSchedule")]));
    }
    assert_eq!(counted(&node, "removed"), Some(3.0));
    // What the API server remembers is good enough to look at.
    let looks = server.requests().into_iter().filter(|r| r.method == "GET");
    let looks: Vec<_> = looks
        .map(|r| r.target.contains("resourceVersion=0"))
        .collect();
    assert_eq!(looks, [false, true, true]);
}

#[test]
fn a_taint_on_a_node_that_is_not_ready_stays() {
    let server = server(&[taint(KEY, "NoSchedule")]);
    let mut node = node(&server);
    node.drop_in("net.d/10-calico.conflist");
    node.start();
    node.wait("the taint gone", |node| node.logged(REMOVED) == 1);
    node.write("05-strange.conflist", STRANGE);
    node.wait("the fault", |node| {
        node.logged("05-strange.conflist: not chained") == 1
    });
    set_taints(&server, &[taint(KEY, "NoSchedule")]);
    thread::sleep(Duration::from_millis(300));
    assert_eq!(taints(&server), json!([taint(KEY, "NoSchedule")]));
    std::fs::remove_file(node.conf("05-strange.conflist")).unwrap();
    node.wait("the taint gone again", |node| node.logged(REMOVED) == 2);
}

/// Sorted before the others, and of a plugin that is not on this node: it is not chained.
const STRANGE: &str = r#"{"name":"n","cniVersion":"1.0.0","plugins":[{"type":"strange"}]}"#;

const SET: &str = "Set taint linkerd.io/cni-not-ready:NoSchedule on node node-7";

fn set_taints(server: &ApiServer, taints: &[Value]) {
    let mut again = server.object(&path()).unwrap();
    again["spec"]["taints"] = json!(taints);
    server.put(again);
}

fn counted(node: &Node, result: &str) -> Option<f64> {
    let name = "linkerd_cni_installer_startup_taint_total";
    node.metrics()
        .value(&format!("{name}{{result=\"{result}\"}}"))
}

fn lose(node: &Node) {
    node.write("05-strange.conflist", STRANGE);
}

/// A node that was ready, and that sets the taint when it loses the chain.
fn ready(server: &ApiServer) -> Node {
    let mut node = node(server);
    node.set("TAINT_ON_LOSS", "true");
    node.set("ADMIN_ADDRESS", "127.0.0.1:0");
    node.drop_in("net.d/10-calico.conflist");
    node.start();
    node.wait("no taint", |node| node.logged("has no taint") == 1);
    node
}

#[test]
fn a_chain_that_is_lost_sets_the_taint_until_it_is_back() {
    let other = taint("a", "NoExecute");
    let ours = json!({"key": KEY, "effect": "NoSchedule"});
    for (before, after) in [
        (json!([other]), json!([other, ours])),
        (json!([]), json!([ours])),
    ] {
        let server = server(before.as_array().unwrap());
        let node = ready(&server);
        lose(&node);
        node.wait("the taint", |node| node.logged(SET) == 1);
        assert_eq!(taints(&server), after);
        assert_eq!(counted(&node, "set"), Some(1.0));
        let status = node.run(&["status"]);
        let said = String::from_utf8_lossy(&status.stdout).into_owned();
        assert!(
            said.contains(&format!("note  taint         {KEY} is on node")),
            "{said}"
        );
        let answer = http::get(node.admin(), "/ready");
        assert_eq!(answer.status, 503);
        assert!(
            answer
                .body
                .contains("taint: linkerd.io/cni-not-ready is on"),
            "{answer:?}"
        );

        std::fs::remove_file(node.conf("05-strange.conflist")).unwrap();
        node.wait("the taint gone", |node| node.logged(REMOVED) == 1);
        assert_eq!(taints(&server), before);
        node.wait("no word of it", |node| {
            http::get(node.admin(), "/ready").body == "ok\n"
        });
    }
}

#[test]
fn a_taint_that_comes_while_ours_is_set_is_not_lost() {
    let server = ApiServer::start();
    // As the API server has it for a node without any.
    server.put(json!({
        "apiVersion": "v1", "kind": "Node", "spec": {},
        "metadata": {"name": NAME, "resourceVersion": "7"},
    }));
    let mut first = true;
    server.before_patch(move |node| {
        if std::mem::take(&mut first) {
            node["spec"]["taints"] = json!([taint("a", "NoSchedule")]);
            node["metadata"]["resourceVersion"] = json!("8");
        }
    });
    let node = ready(&server);
    lose(&node);
    node.wait("the taint", |node| node.logged(SET) == 1);
    let ours = json!({"key": KEY, "effect": "NoSchedule"});
    assert_eq!(taints(&server), json!([taint("a", "NoSchedule"), ours]));
}

#[test]
fn only_a_lost_chain_sets_it_and_only_if_that_is_wanted() {
    thread::scope(|scope| {
        scope.spawn(|| {
            let server = server(&[]);
            let mut node = node(&server);
            node.drop_in("net.d/10-calico.conflist");
            node.start();
            node.wait("no taint", |node| node.logged("has no taint") == 1);
            lose(&node);
            never_set(&node, &server);
        });
        // Pods wait where the token has ended or no network is there: none starts in the clear.
        scope.spawn(|| {
            let server = server(&[]);
            let node = ready(&server);
            node.rotate_token(&token_expiring_in(-60));
            never_set(&node, &server);
        });
        scope.spawn(|| {
            let server = server(&[]);
            let node = ready(&server);
            std::fs::remove_file(node.conf("10-calico.conflist")).unwrap();
            never_set(&node, &server);
        });
        // A node that was never ready has lost nothing.
        scope.spawn(|| {
            let server = server(&[]);
            let mut node = node(&server);
            node.set("TAINT_ON_LOSS", "true");
            node.write("05-strange.conflist", STRANGE);
            node.start();
            never_set(&node, &server);
        });
    });
}

fn never_set(node: &Node, server: &ApiServer) {
    node.wait("not ready", |node| {
        node.run(&["status"]).status.and_then(|s| s.code()) == Some(1)
    });
    thread::sleep(Duration::from_millis(1500));
    assert_eq!(taints(server), json!([]), "{}", node.log());
}

#[test]
fn a_taint_of_ours_goes_with_us_and_one_that_was_left_goes_with_the_successor() {
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        let server = server(&[taint("a", "NoSchedule")]);
        let mut node = ready(&server);
        node.set("ON_EXIT", "keep");
        // It is read at start.
        node.stop(Signal::SIGKILL);
        node.start();
        node.wait("no taint", |node| node.logged("has no taint") == 2);
        lose(&node);
        node.wait("the taint", |node| node.logged(SET) == 1);
        node.stop(signal);
        assert_eq!(taints(&server).as_array().map(Vec::len), Some(2));
        std::fs::remove_file(node.conf("05-strange.conflist")).unwrap();
        node.start();
        node.wait("the taint gone", |node| node.logged(REMOVED) == 1);
        assert_eq!(taints(&server), json!([taint("a", "NoSchedule")]));
    }
    for command in [false, true] {
        let server = server(&[taint("a", "NoSchedule")]);
        let mut node = ready(&server);
        lose(&node);
        node.wait("the taint", |node| node.logged(SET) == 1);
        if command {
            node.stop(Signal::SIGKILL);
            assert!(node.run(&["uninstall"]).status.is_some_and(|s| s.success()));
        } else {
            // There is no DaemonSet.
            assert!(node.stop(Signal::SIGTERM).success());
        }
        assert!(!node.is_chained("10-calico.conflist"), "{}", node.log());
        assert_eq!(taints(&server), json!([taint("a", "NoSchedule")]));
    }
}

#[test]
fn a_taint_that_we_may_no_longer_remove_is_named_with_the_command_that_does() {
    let server = server(&[]);
    let mut node = ready(&server);
    lose(&node);
    node.wait("the taint", |node| node.logged(SET) == 1);
    server.allow_only(&[]);
    node.stop(Signal::SIGTERM);
    let command = format!("`kubectl taint node {NAME} {KEY}-` removes it");
    assert_eq!(node.logged(&command), 1, "{}", node.log());
    assert!(!node.is_chained("10-calico.conflist"));
}

#[test]
fn a_taint_that_stays_on_a_ready_node_is_a_line_of_its_own_and_no_fault() {
    let server = server(&[taint(KEY, "NoSchedule")]);
    server.allow_only(&[("GET", &path())]);
    let mut node = node(&server);
    node.set("ADMIN_ADDRESS", "127.0.0.1:0");
    node.drop_in("net.d/10-calico.conflist");
    node.start();
    node.wait("the warning", |node| node.logged("is not removed yet") == 1);
    let status = node.run(&["status"]);
    let said = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(status.status.is_some_and(|s| s.success()), "{said}");
    let line = format!("note  taint         {KEY} may still be on node {NAME}");
    assert!(said.contains(&line), "{said}");
    let answer = http::get(node.admin(), "/ready");
    assert_eq!(answer.status, 200);
    assert!(answer.body.starts_with("ok\ntaint: "), "{answer:?}");
    assert!(counted(&node, "failed") >= Some(1.0));
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
