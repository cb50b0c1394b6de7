//! `check --all` on a busy node: right in each row.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use linkerd_cni_integration::fixtures;
use linkerd_cni_integration::netns::{Netns, unique_name};
use linkerd_cni_integration::plugin::Call;
use linkerd_cni_integration::rules::{self, Family, Tables};
use linkerd_cni_integration::stage::{RECORDS, Stage};
use linkerd_cni_integration::tool::{CACHE, Tool, scratch};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A node with records and a cache of its own, and a few pods.
pub(crate) struct Node {
    /// Whom to ask, and the configuration.
    pub(crate) base: Stage,
    records: TempDir,
    cache: TempDir,
    conf: TempDir,
    pods: Vec<Pod>,
}

#[derive(Clone)]
pub(crate) struct Pod {
    pub(crate) netns: Arc<Netns>,
    container_id: String,
}

// === impl Node ===

impl Node {
    pub(crate) fn new() -> Self {
        let node = Self {
            base: Stage::new("meshed"),
            records: scratch(),
            cache: scratch(),
            conf: scratch(),
            pods: Vec::new(),
        };
        fs::create_dir(node.cache.path().join("results")).expect("it can be made");
        node
    }

    /// A pod of a fixture under a name of its own; not added.
    fn pod(&mut self, fixture: &str, name: &str) -> Pod {
        let mut pod = fixtures::pod(fixture);
        pod["metadata"]["name"] = json!(name);
        self.base.api.put(pod);
        let pod = Pod {
            netns: Arc::new(Netns::new()),
            container_id: unique_name(),
        };
        self.pods.push(pod.clone());
        pod
    }

    fn added(&mut self, fixture: &str, name: &str) -> Pod {
        let pod = self.pod(fixture, name);
        self.add(&pod, name);
        let record = self.record(&pod);
        let name = record.file_name().expect("it has a name");
        let kept = self.records.path().join(name);
        fs::copy(&record, kept).expect("there is a record");
        fs::remove_file(record).expect("there is a record");
        pod
    }

    /// A pod that has its rules, and no record.
    pub(crate) fn unrecorded(&mut self, fixture: &str, name: &str) -> Pod {
        let pod = self.pod(fixture, name);
        self.add(&pod, name);
        fs::remove_file(self.record(&pod)).expect("there is a record");
        pod
    }

    fn add(&self, pod: &Pod, name: &str) {
        Call::new("ADD")
            .container(&pod.container_id)
            .interface("eth0")
            .netns(&pod.netns.path())
            .pod("emojivoto", name)
            .config(&self.base.config)
            .succeed();
    }

    fn record(&self, pod: &Pod) -> PathBuf {
        Path::new(RECORDS).join(format!("{}-eth0.json", pod.container_id))
    }

    /// What libcni remembers of the last pod.
    pub(crate) fn remember(&self, more: Value) {
        let pod = self.pods.last().expect("there is a pod");
        let mut file = json!({
            "kind": "cniCacheV1", "containerId": pod.container_id, "ifName": "eth0",
            "networkName": "net", "config": "", "result": {},
        });
        for (key, value) in more.as_object().expect("an object") {
            file[key] = value.clone();
        }
        let path = format!("results/net-{}-eth0", pod.container_id);
        fs::write(self.cache.path().join(path), file.to_string()).expect("it can be written");
    }

    pub(crate) fn check(&self, words: &[&str]) -> Tool {
        Tool::new(&["check"])
            .args(words)
            .arg("--conf-dir")
            .arg(self.conf.path())
            .bind(self.records.path(), RECORDS)
            .bind(self.cache.path(), CACHE)
    }

    /// Whom to ask, as the installer leaves it: the entry in the list.
    pub(crate) fn has_entry(&self) {
        let mut ours = self.base.config.clone();
        ours["type"] = json!("linkerd-cni");
        let list = json!({"name": "net", "plugins": [ours]});
        fs::write(self.conf.path().join("10-net.conflist"), list.to_string())
            .expect("it can be written");
    }
}

pub(crate) fn args(name: &str) -> Value {
    json!([
        ["IgnoreUnknown", "1"],
        ["K8S_POD_NAMESPACE", "emojivoto"],
        ["K8S_POD_NAME", name]
    ])
}

/// The rows by pod; those that are no pod's by namespace.
pub(crate) fn rows(document: &Value) -> HashMap<String, Value> {
    assert_eq!(document["version"], json!(1));
    let rows = document["attachments"].as_array().expect("a list");
    let key = |row: &Value| {
        let name = row["pod"].as_str().or(row["netns"].as_str());
        name.unwrap_or_default().to_owned()
    };
    rows.iter().map(|row| (key(row), row.clone())).collect()
}

#[test]
fn a_hundred_and_ten_pods_are_right_in_each_row() {
    let mut node = Node::new();
    for number in 0..104 {
        node.added("meshed", &format!("web-{number}"));
    }
    let broken = node.added("meshed", "broken").netns.clone();
    let delete = "*nat\n-D PROXY_INIT_OUTPUT 1\nCOMMIT\n";
    rules::restore(&broken, Tables::Nft, Family::V6, delete);
    node.added("unmeshed", "unmeshed");
    let gone = node.added("meshed", "gone").netns.clone();
    linkerd_cni_integration::process::run("ip", &["netns", "del", gone.name()]).expect("it goes");
    let silent = node.pod("meshed", "silent").netns.path();
    node.remember(json!({"cniArgs": args("silent"), "netns": silent}));
    let plain = node.pod("unmeshed", "plain").netns.path();
    node.remember(json!({"cniArgs": args("plain"), "netns": plain}));
    let nobody = node.pod("meshed", "nobody").netns.path();

    let api = &node.base.api;
    node.has_entry();
    let before = api.requests().len();
    let started = std::time::Instant::now();
    let document = node.check(&["--all", "-o", "json"]).exits(1).json();
    println!("check --all of 110 pods: {:?}", started.elapsed());
    let rows = rows(&document);
    let state = |name: &str| (rows[name]["state"].clone(), rows[name]["meshed"].clone());
    for number in 0..104 {
        assert_eq!(state(&format!("web-{number}")), (json!("ok"), json!(true)));
    }
    assert_eq!(state("broken"), (json!("different"), json!(true)));
    let text = rows["broken"]["differences"][0]["text"]
        .as_str()
        .unwrap_or_default();
    assert!(
        text.starts_with("IPv6 PROXY_INIT_OUTPUT: rule 1 is missing"),
        "{text}"
    );
    assert_eq!(
        rows["broken"]["differences"].as_array().map(Vec::len),
        Some(1)
    );
    assert_eq!(state("unmeshed"), (json!("ok"), json!(false)));
    assert_eq!(rows["unmeshed"]["why"], json!("no linkerd-proxy container"));
    assert_eq!(state("gone"), (json!("gone"), json!(null)));
    assert_eq!(state("silent"), (json!("different"), json!(true)));
    assert_eq!(rows["silent"]["differences"][0]["kind"], json!("no-rules"));
    assert_eq!(state("plain"), (json!("ok"), json!(false)));
    let nobody = nobody.to_string_lossy().into_owned();
    assert_eq!(state(&nobody), (json!("unknown"), json!(null)));
    assert_eq!(api.requests().len() - before, 2, "about silent and plain");

    let table = node.check(&[]).exits(1);
    table.prints(&[
        "NAMESPACE",
        "emojivoto  broken ",
        "1 difference",
        "namespace gone",
    ]);
    node.check(&["-o", "wide"])
        .exits(1)
        .prints(&["CONTAINER", &nobody]);
}

#[test]
fn a_container_of_podman_is_no_pod_with_a_record_and_without() {
    let mut node = Node::new();
    let with = node.pod("meshed", "with-record");
    let call = Call::new("ADD")
        .container(&with.container_id)
        .interface("eth0")
        .netns(&with.netns.path());
    call.pod("nifty_pasteur", "nifty_pasteur")
        .config(&node.base.config)
        .succeed();
    let record = node.record(&with);
    let kept = node
        .records
        .path()
        .join(record.file_name().expect("a name"));
    fs::copy(&record, kept).expect("there is a record");
    fs::remove_file(record).expect("there is a record");
    let without = node.pod("meshed", "without-record");
    node.remember(json!({"netns": without.netns.path(), "cniArgs": [
        ["IgnoreUnknown", "1"],
        ["K8S_POD_NAMESPACE", "nifty_pasteur"],
        ["K8S_POD_NAME", "nifty_pasteur"],
    ]}));
    node.has_entry();
    let before = node.base.api.requests().len();
    let rows = rows(&node.check(&["--all", "-o", "json"]).run().json());
    for pod in [with, without] {
        let row = &rows[&*pod.netns.path().to_string_lossy()];
        assert_eq!(row["state"], json!("ok"), "{row:#}");
        assert_eq!(row["why"], json!("not a pod of Kubernetes"), "{row:#}");
    }
    assert_eq!(node.base.api.requests().len(), before);
}

#[test]
fn without_an_api_server_the_rest_is_right_and_it_is_said_what_is_not_known() {
    let mut node = Node::new();
    node.added("meshed", "web");
    let silent = node.pod("meshed", "silent").netns.path();
    node.remember(json!({"cniArgs": args("silent"), "result": {"interfaces": [
        {"name": "veth0"}, {"name": "eth0", "sandbox": silent},
    ]}}));
    // Namespaces of other tests are on the node too, so the exit status tells nothing.
    let document = node.check(&["-o", "json"]).run().json();
    let rows = rows(&document);
    assert_eq!(rows["web"]["state"], json!("ok"));
    assert_eq!(rows["silent"]["state"], json!("unknown"));
    let note = rows["silent"]["notes"][0].as_str().unwrap_or_default();
    assert!(
        note.contains("no redirect rules; whether it is meshed nobody tells"),
        "{note}"
    );
    assert!(note.contains("no configuration in"), "{note}");

    let refused = "/nowhere/kubeconfig";
    let said = node.check(&["--kubeconfig", refused]).run();
    said.prints(&["not known", "kubeconfig /nowhere/kubeconfig cannot be read"]);
}

#[test]
fn a_pod_is_found_by_its_address_where_nobody_names_its_namespace() {
    let mut node = Node::new();
    let netns = node.pod("meshed", "addressed").netns.clone();
    let up = "link set eth0 up\naddr add 10.77.3.9/32 dev eth0\n";
    netns.ip(&format!(
        "link add eth0 type veth peer name other\nlink set other up\n{up}"
    ));
    node.remember(json!({
        "cniArgs": args("addressed"),
        "result": {"ips": [{"address": "10.77.3.9/32"}]},
    }));
    node.has_entry();
    for words in [&[][..], &["--pod", "emojivoto/addressed"]] {
        let document = node
            .check(&[words, &["-o", "json"]].concat())
            .exits(1)
            .json();
        let row = &rows(&document)["addressed"];
        assert_eq!(row["state"], json!("different"));
        assert_eq!(row["netns"], json!(netns.path()));
    }
}

#[test]
fn a_namespace_with_rules_and_without_a_record_is_listed_once() {
    let mut node = Node::new();
    let pod = node.unrecorded("meshed", "web");
    let path = pod.netns.path().to_string_lossy().into_owned();
    let document = node.check(&["-o", "json"]).run().json();
    let listed = document["attachments"].as_array().expect("a list");
    let of_it: Vec<&Value> = listed
        .iter()
        .filter(|row| row["netns"] == json!(path))
        .collect();
    let [row] = of_it.as_slice() else {
        panic!("{of_it:#?}");
    };
    assert_eq!(
        (&row["state"], &row["recorded"]),
        (&json!("ok"), &json!(false))
    );
    assert_eq!(row["backend"], json!("nft"));
}

#[test]
fn a_namespace_of_a_process_is_listed_too() {
    let node = Node::new();
    let script = "unshare -n sleep 1000 & child=$!; own=$(readlink /proc/self/ns/net); \
                  until [ \"$(readlink /proc/$child/ns/net)\" != \"$own\" ]; do :; done; \
                  echo \"/proc/$child/ns/net\"; \"$@\" || true; kill $child; exit 0";
    let said = node.check(&["-o", "wide"]).after(script).exits(0);
    let path = said.stdout.lines().next().unwrap_or_default();
    let rows = said
        .stdout
        .lines()
        .filter(|line| line.starts_with('-') && line.contains(path));
    assert_eq!(rows.count(), 1, "{said:#?}");
}

#[test]
fn one_pod_alone_is_checked_by_name_or_by_namespace() {
    let mut node = Node::new();
    let netns = node.added("meshed", "web").netns.clone();
    node.added("unmeshed", "other");
    let path = netns.path();
    let named = node.check(&["--pod", "emojivoto/web"]).exits(0);
    assert_eq!(named.stdout.lines().count(), 2, "{named:#?}");
    let placed = node.check(&["--netns", &path.to_string_lossy()]).exits(0);
    assert_eq!(named.stdout, placed.stdout);
    let link = scratch();
    let linked = link.path().join("netns");
    std::os::unix::fs::symlink(&path, &linked).expect("it can be linked");
    let placed = node.check(&["--netns", &linked.to_string_lossy()]).exits(0);
    assert_eq!(named.stdout, placed.stdout);

    let delete = "*nat\n-D PROXY_INIT_OUTPUT 1\nCOMMIT\n";
    rules::restore(&netns, Tables::Nft, Family::V4, delete);
    let said = node.check(&["--pod", "emojivoto/web"]).exits(1);
    said.prints(&[
        "1 difference",
        "\nemojivoto/web\n  IPv4 PROXY_INIT_OUTPUT: rule 1 is missing",
    ]);
    linkerd_cni_integration::process::run("ip", &["netns", "del", netns.name()]).expect("it goes");
    let said = node.check(&["--pod", "emojivoto/web"]).exits(2);
    said.prints(&["namespace gone"]);
    assert!(Path::new(RECORDS).exists());
}

#[test]
fn rules_of_a_pod_that_should_have_none_are_named() {
    let mut node = Node::new();
    let netns = node.unrecorded("meshed", "was-meshed").netns.path();
    let mut now = fixtures::pod("unmeshed");
    now["metadata"]["name"] = json!("was-meshed");
    node.base.api.put(now);
    node.remember(json!({"cniArgs": args("was-meshed"), "netns": netns}));
    node.has_entry();
    let said = node.check(&["--pod", "emojivoto/was-meshed"]).exits(1);
    said.prints(&["has redirect rules though it should not: no linkerd-proxy container"]);
}
