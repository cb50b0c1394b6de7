//! The rights that the chart asks for are enough, and there is none that nobody uses.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use linkerd_cni_integration::api_server::{ApiServer, Request};
use linkerd_cni_integration::chart::{Chart, NAMESPACE};
use linkerd_cni_integration::node::{NAME, Node};
use linkerd_cni_integration::stage::Stage;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

/// A right: a verb on a kind, in one namespace (empty: everywhere), on one name (empty: any).
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Right {
    verb: String,
    group: String,
    resource: String,
    namespace: String,
    name: String,
}

/// The rights that the chart gives its service account.
fn rights(chart: &Chart) -> Vec<Right> {
    let objects = chart.objects();
    let bindings = |o: &&Value| o["kind"].as_str().is_some_and(|k| k.ends_with("Binding"));
    let subject =
        json!([{"kind": "ServiceAccount", "name": "linkerd-cni", "namespace": NAMESPACE}]);
    let mut rights = Vec::new();
    for binding in objects.iter().filter(bindings) {
        assert_eq!(binding["subjects"], subject);
        let reference = &binding["roleRef"];
        let role = objects
            .iter()
            .find(|o| {
                o["kind"] == reference["kind"]
                    && o["metadata"]["name"] == reference["name"]
                    && o["metadata"]["namespace"] == binding["metadata"]["namespace"]
            })
            .expect("the role that is bound");
        let namespace = text(&binding["metadata"]["namespace"]);
        for rule in role["rules"].as_array().expect("rules") {
            rights.extend(of_rule(rule, &namespace));
        }
    }
    rights
}

fn of_rule(rule: &Value, namespace: &str) -> Vec<Right> {
    let list = |key: &str| rule[key].as_array().cloned().unwrap_or_default();
    let names = match list("resourceNames") {
        names if names.is_empty() => vec![Value::Null],
        names => names,
    };
    let mut rights = Vec::new();
    for verb in list("verbs") {
        for group in list("apiGroups") {
            for resource in list("resources") {
                rights.extend(names.iter().map(|name| Right {
                    verb: text(&verb),
                    group: text(&group),
                    resource: text(&resource),
                    namespace: namespace.to_owned(),
                    name: text(name),
                }));
            }
        }
    }
    rights
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// What a request needs, as an API server reads its path.
fn needed(request: &Request) -> Right {
    let path = request.target.split('?').next().unwrap_or_default();
    let words: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let (group, rest) = match words.as_slice() {
        ["api", _, rest @ ..] => ("", rest),
        ["apis", group, _, rest @ ..] => (*group, rest),
        _ => ("?", [].as_slice()),
    };
    let (namespace, resource, name) = match rest {
        ["namespaces", namespace, resource, name] => (*namespace, *resource, *name),
        [resource, name] => ("", *resource, *name),
        _ => ("?", "?", "?"),
    };
    let verb = match request.method.as_str() {
        "GET" => "get",
        "PATCH" => "patch",
        method => method,
    };
    let [verb, group, resource, namespace, name] =
        [verb, group, resource, namespace, name].map(str::to_owned);
    Right {
        verb,
        group,
        resource,
        namespace,
        name,
    }
}

impl Right {
    fn covers(&self, needed: &Self) -> bool {
        let same = |ours: &str, theirs: &str| ours.is_empty() || ours == theirs;
        self.verb == needed.verb
            && self.group == needed.group
            && self.resource == needed.resource
            && same(&self.namespace, &needed.namespace)
            && same(&self.name, &needed.name)
    }
}

/// Lets the server refuse what no right covers; the rights that were used are noted.
fn enforce(server: &ApiServer, chart: &Chart, used: &Arc<Mutex<BTreeSet<Right>>>) {
    let (rights, used) = (rights(chart), Arc::clone(used));
    server.allow_if(move |request| {
        let needed = needed(request);
        let right = rights.iter().find(|right| right.covers(&needed));
        used.lock()
            .expect("no thread panicked")
            .extend(right.cloned());
        right.is_some()
    });
}

fn leave_a_chained_node(server: &ApiServer) {
    let mut daemonset = Chart::new().object("DaemonSet", "linkerd-cni");
    daemonset["spec"]["template"]["spec"]["containers"] = json!([]);
    server.put(daemonset);
    server.put_at(
        &format!("/api/v1/nodes/{NAME}"),
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NAME,
               "labels": {"kubernetes.io/os": "windows"}}}),
    );
    let mut node = Node::new();
    node.use_server(server);
    node.set("POD_NAMESPACE", NAMESPACE);
    node.drop_in("net.d/10-calico.conflist");
    node.start();
    node.wait_chained("10-calico.conflist");
    assert!(node.stop(Signal::SIGTERM).success());
    // It read both objects: the DaemonSet is for another operating system than the node's.
    assert!(!node.is_chained("10-calico.conflist"), "{}", node.log());
}

#[test]
fn plugin_and_installer_need_no_more_than_the_chart_asks_for_and_use_all_of_it() {
    let used = Arc::default();
    for pod in ["unmeshed", "meshed", "control-plane"] {
        let stage = Stage::new(pod);
        enforce(&stage.api, &Chart::new(), &used);
        let output = stage.add().succeed();
        let said = output.stderr.as_str();
        assert!(!said.contains("WARN"), "{said}");
    }
    let server = ApiServer::start();
    enforce(&server, &Chart::new(), &used);
    leave_a_chained_node(&server);

    let asked: BTreeSet<Right> = rights(&Chart::new()).into_iter().collect();
    assert_eq!(*used.lock().unwrap(), asked);
}

#[test]
fn one_thing_more_is_asked_for_if_there_is_a_startup_taint() {
    let without: BTreeSet<Right> = rights(&Chart::new()).into_iter().collect();
    let tainted = Chart::new().set("startupTaint", &json!("linkerd.io/cni-not-ready"));
    let with: BTreeSet<Right> = rights(&tainted).into_iter().collect();
    let more: Vec<_> = with.difference(&without).collect();
    assert_eq!(more.len(), 1, "{more:?}");
    assert_eq!(
        (more[0].verb.as_str(), more[0].resource.as_str()),
        ("patch", "nodes")
    );
    assert!(without.is_subset(&with));
}

#[test]
fn to_set_the_taint_when_the_chain_is_lost_needs_no_more_than_to_remove_it() {
    let tainted = Chart::new().set("startupTaint", &json!("linkerd.io/cni-not-ready"));
    let (without, used) = (rights(&tainted), Arc::default());
    let chart = tainted.set("taintOnLoss", &json!(true));
    assert_eq!(rights(&chart), without);
    let server = ApiServer::start();
    enforce(&server, &chart, &used);
    server.put(json!({
        "apiVersion": "v1", "kind": "Node", "spec": {}, "metadata": {"name": NAME, "resourceVersion": "1"},
    }));
    let mut node = Node::new();
    node.use_server(&server);
    node.set("STARTUP_TAINT", "linkerd.io/cni-not-ready");
    node.set("TAINT_ON_LOSS", "true");
    node.drop_in("net.d/10-calico.conflist");
    node.start();
    node.wait("ready", |node| node.logged("has no taint") == 1);
    node.write(
        "05-x.conflist",
        r#"{"name":"n","plugins":[{"type":"strange"}]}"#,
    );
    node.wait("the taint", |node| node.logged("Set taint") == 1);
    std::fs::remove_file(node.conf("05-x.conflist")).unwrap();
    node.wait("the taint gone", |node| node.logged("Removed taint") == 1);
    let used = used.lock().unwrap();
    let verbs: BTreeSet<_> = used.iter().map(|right| right.verb.as_str()).collect();
    assert_eq!(verbs, BTreeSet::from(["get", "patch"]));
}

#[test]
fn nothing_is_listed_watched_or_changed() {
    for right in rights(&Chart::new()) {
        assert_eq!(right.verb, "get", "{right:?}");
        assert_ne!(right.resource, "*");
    }
}
