//! What the API server is asked for, and that nothing else is needed: it refuses the rest.

use std::collections::BTreeSet;
use std::fs;

use linkerd_cni_integration::api_server::ApiServer;
use linkerd_cni_integration::node::{NAME, Node};
use linkerd_cni_integration::rules;
use linkerd_cni_integration::stage::Stage;
use nix::sys::signal::Signal;
use serde_json::json;

const SERVICE: &str = "/api/v1/namespaces/default/services/kubernetes";
const DAEMONSET: &str = "/apis/apps/v1/namespaces/linkerd-cni/daemonsets/linkerd-cni";

fn asked(server: &ApiServer) -> BTreeSet<(String, String)> {
    let requests = server.requests().into_iter();
    requests
        .map(|request| (request.method.clone(), request.path().to_owned()))
        .collect()
}

fn expected(all: &[(&str, &str)]) -> BTreeSet<(String, String)> {
    let all = all.iter();
    all.map(|(m, p)| ((*m).to_owned(), (*p).to_owned()))
        .collect()
}

#[test]
fn every_kind_of_pod_needs_itself_its_namespace_and_the_one_service() {
    for (fixture, redirected) in [
        ("meshed", true),
        ("annotated", true),
        ("native-sidecar", true),
        ("control-plane", true),
        ("custom-uid", true),
        ("shared-uid", true),
        ("typo-annotation", true),
        ("user-namespace", true),
        ("unmeshed", false),
        ("init-container", false),
    ] {
        let stage = Stage::new(fixture);
        let pod = linkerd_cni_integration::fixtures::pod(fixture);
        let field = |name: &str| pod["metadata"][name].as_str().unwrap().to_owned();
        let namespace = format!("/api/v1/namespaces/{}", field("namespace"));
        let path = format!("{namespace}/pods/{}", field("name"));
        let mut allowed = vec![("GET", path.as_str())];
        if redirected {
            allowed.push(("GET", namespace.as_str()));
        }
        if fixture == "control-plane" {
            allowed.push(("GET", SERVICE));
        }
        stage.api.allow_only(&allowed);
        let output = stage.add().succeed();
        assert!(!output.stderr.contains(": 403"), "{fixture}: {output:#?}");
        assert_eq!(
            !rules::effective(&stage.netns).is_empty(),
            redirected,
            "{fixture}"
        );
        assert_eq!(asked(&stage.api), expected(&allowed), "{fixture}");
        stage.api.take_requests();
        stage.call("CHECK").succeed();
        stage.del().succeed();
        assert!(asked(&stage.api).is_empty(), "{fixture}");
    }
}

/// From start to SIGTERM; the DaemonSet is there or gone, the taint wanted or not.
fn life(daemonset: bool, taint: bool) {
    let server = ApiServer::start();
    let of_node = format!("/api/v1/nodes/{NAME}");
    let mut allowed = vec![("GET", DAEMONSET)];
    if daemonset || taint {
        allowed.push(("GET", &of_node));
    }
    if taint {
        allowed.push(("PATCH", &of_node));
    }
    server.allow_only(&allowed);
    let taints = json!([{"key": "linkerd.io/cni-not-ready", "effect": "NoSchedule"}]);
    server.put(json!({"kind": "Node", "metadata": {"name": NAME}, "spec": {"taints": taints}}));
    if daemonset {
        server.put(json!({
            "kind": "DaemonSet", "metadata": {"name": "linkerd-cni", "namespace": "linkerd-cni"},
            "spec": {"selector": {}, "template": {"metadata": {}, "spec": {
                "containers": [], "tolerations": [{"operator": "Exists"}]}}},
        }));
    }
    let mut node = Node::new();
    node.use_server(&server);
    node.set("ADMIN_ADDRESS", "127.0.0.1:0");
    if taint {
        node.set("STARTUP_TAINT", "linkerd.io/cni-not-ready");
    }
    fs::create_dir_all(node.run_dir()).unwrap();
    node.drop_in("net.d/10-calico.conflist");
    node.start();
    node.wait_chained("10-calico.conflist");
    if taint {
        node.wait("the taint gone", |node| node.logged("Removed taint") == 1);
    }
    assert!(node.stop(Signal::SIGTERM).success(), "{}", node.log());
    assert_eq!(node.executable().exists(), daemonset, "{}", node.log());
    assert_eq!(asked(&server), expected(&allowed), "{}", node.log());
    assert!(!node.log().contains("(403)"), "{}", node.log());
}

#[test]
fn an_installers_life_needs_its_daemonset_and_its_node_and_nothing_else() {
    for daemonset in [true, false] {
        for taint in [false, true] {
            life(daemonset, taint);
        }
    }
}
