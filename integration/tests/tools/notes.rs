//! What `check` says of a pod whose rules are all there, and yet not all of its
//! traffic goes through the proxy; and `rules` of a proxy that listens elsewhere.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use linkerd_cni_integration::fixtures;
use linkerd_cni_integration::netns::Netns;
use linkerd_cni_integration::stage::Stage;
use linkerd_cni_integration::tool::{Tool, scratch};
use linkerd_cni_integration::traffic::Network;
use serde_json::{Value, json};

use crate::check_all::{Node, args, rows};

fn check(netns: &Path, words: &[&str]) -> Tool {
    Tool::new(&["check", "--netns"]).arg(netns).args(words)
}

/// The only row; its rules are as they should be.
fn only_row(netns: &Path) -> Value {
    let document = check(netns, &["-o", "json"]).exits(0).json();
    let rows = document["attachments"].as_array().expect("a list");
    assert_eq!(rows.len(), 1, "{document:#}");
    assert_eq!(rows[0]["state"], json!("ok"), "{document:#}");
    assert_eq!(rows[0]["differences"], json!([]));
    rows[0].clone()
}

fn notes(row: &Value) -> String {
    let notes = row["notes"].as_array().expect("a list").iter();
    let notes = notes.map(|note| note.as_str().expect("a sentence"));
    notes.collect::<Vec<_>>().join("\n")
}

#[test]
fn ipv6_in_the_clear_is_a_note_of_the_table_and_of_the_json() {
    for mode in ["nft", "native"] {
        let network = Network::new();
        let stage = Stage::in_namespace(fixtures::pod("meshed"), &network.pod)
            .linkerd("iptables-mode", mode)
            .linkerd("ipv6", false);
        let path = network.pod.path();
        stage.add().succeed();
        let said = notes(&only_row(&path));
        for word in ["fd00:244:1::2 (eth0)", "disableIPv6=false"] {
            assert!(said.contains(word), "{mode}: {said}");
        }
        check(&path, &[])
            .exits(0)
            .prints(&["ok\n", "\nemojivoto/web-meshed\n", "fd00:244:1::2"]);

        let both = stage.linkerd("ipv6", true);
        both.add().succeed();
        assert_eq!(notes(&only_row(&path)), "", "{mode}");
    }
}

#[test]
fn a_sandboxed_runtime_is_a_note_of_the_table_and_of_the_json() {
    let mut pod = fixtures::pod("meshed");
    pod["spec"]["runtimeClassName"] = json!("gvisor");
    let stage = Stage::in_namespace(pod, &Arc::new(Netns::new()));
    let path = stage.netns.path();
    stage.add().succeed();
    let said = notes(&only_row(&path));
    assert!(said.contains("runtimeClassName gvisor"), "{said}");
    check(&path, &[])
        .exits(0)
        .prints(&["runtimeClassName gvisor"]);

    // What an earlier version wrote has no notes.
    let file = stage.record("eth0");
    let text = fs::read_to_string(&file).expect("there is a record");
    let mut record: Value = serde_json::from_str(&text).expect("JSON");
    let decision = record["decision"].as_object_mut().expect("an object");
    decision.remove("notes").expect("it has notes");
    fs::write(&file, record.to_string()).expect("it can be written");
    let row = only_row(&path);
    assert_eq!((notes(&row).as_str(), &row["recorded"]), ("", &json!(true)));
}

#[test]
fn without_a_record_the_pod_is_asked_for_and_one_that_is_refused_does_not_blind_the_rest() {
    let mut node = Node::new();
    let mut remembered = |name: &str| {
        let netns = node.unrecorded("meshed", name).netns.path();
        node.remember(json!({"cniArgs": args(name), "netns": netns}));
    };
    remembered("a-refused");
    remembered("b-gvisor");
    node.has_entry();
    let put = |name: &str, spec: Value| {
        let mut pod = fixtures::pod("meshed");
        pod["metadata"]["name"] = json!(name);
        for (key, value) in spec.as_object().expect("an object") {
            pod["spec"][key] = value.clone();
        }
        node.base.api.put(pod);
    };
    let shared = json!({"runAsUser": 0, "runAsGroup": 7});
    let container = |name: &str| json!({"name": name, "securityContext": shared});
    let containers = json!([container("linkerd-proxy"), container("web")]);
    put("a-refused", json!({ "containers": containers }));
    put("b-gvisor", json!({"runtimeClassName": "gvisor"}));

    let document = node.check(&["--all", "-o", "json"]).run().json();
    let rows = rows(&document);
    let refused = notes(&rows["a-refused"]);
    assert!(refused.contains("may run with group 7"), "{refused}");
    assert_eq!(rows["b-gvisor"]["state"], json!("ok"));
    assert_eq!(rows["b-gvisor"]["meshed"], json!(true));
    let sandboxed = notes(&rows["b-gvisor"]);
    assert!(sandboxed.contains("runtimeClassName gvisor"), "{sandboxed}");
    assert!(!sandboxed.contains("only looked at"), "{sandboxed}");
}

#[test]
fn the_rules_of_a_proxy_that_listens_elsewhere_are_printed() {
    let directory = scratch();
    let file = directory.path().join("10-net.conf");
    let config = &Stage::new("meshed").config;
    fs::write(&file, config.to_string()).expect("it can be written");
    let rules = |words: &[&str]| {
        let tool = Tool::new(&["rules", "--conf"]).arg(&file);
        tool.args(words)
    };
    let said = rules(&[
        "--annotation",
        "config.linkerd.io/inbound-port=5143",
        "--annotation",
        "config.linkerd.io/outbound-port=5140",
        "--annotation",
        "config.linkerd.io/admin-port=5191",
        "--annotation",
        "config.linkerd.io/control-port=4190",
    ])
    .exits(0);
    said.prints(&[
        "--dports 4191,4190,222,5432:5433,5191 ",
        "-j REDIRECT --to-ports 5143",
        "-j REDIRECT --to-ports 5140",
    ]);
    assert_eq!(said.stderr, "");
    rules(&["--annotation", "config.linkerd.io/inbound-port=80a"])
        .exits(2)
        .complains(&["config.linkerd.io/inbound-port", "80a", "1..=65535"]);
    rules(&["--annotation", "config.linkerd.io/admin-prot=5191"])
        .exits(0)
        .complains(&["did you mean config.linkerd.io/admin-port?"]);
}
