//! GC drops the records of attachments that are no longer valid, and no others.

use std::fs;
use std::path::Path;

use linkerd_cni_integration::plugin::{Call, Output};
use linkerd_cni_integration::stage::{RECORDS, Stage};
use linkerd_cni_integration::tool::scratch;
use serde_json::{Value, json};

/// A directory with the records of these attachments of a real ADD.
fn records(attachments: &[(&str, &str)]) -> tempfile::TempDir {
    let stage = Stage::new("meshed");
    stage.add().succeed();
    let text = fs::read_to_string(stage.record("eth0")).expect("there is a record");
    let directory = scratch();
    for (container, network) in attachments {
        let mut record: Value = serde_json::from_str(&text).expect("a record is JSON");
        record["container_id"] = json!(container);
        record["network"] = json!(network);
        let path = directory.path().join(format!("{container}-eth0.json"));
        fs::write(path, record.to_string()).expect("it can be written");
    }
    directory
}

fn gc(directory: &Path, valid: Value, more: &str) -> Output {
    let config = json!({
        "cniVersion": "1.1.0", "name": "net", "type": "linkerd-cni",
        "linkerd": {"incoming-proxy-port": 4143, "outgoing-proxy-port": 4140},
        "cni.dev/valid-attachments": valid,
    });
    let mounts = format!(
        "mkdir -p {RECORDS}; mount --bind {} {RECORDS}\n{more}",
        directory.display()
    );
    Call::new("GC")
        .config(&config)
        .with_mounts(&mounts)
        .succeed()
}

fn left(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("it is there");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<String> = names.map(|n| n.to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn stale_records_of_the_network_go_and_everything_else_stays() {
    let directory = records(&[("a", "net"), ("b", "net"), ("c", "other"), ("d", "net")]);
    for (name, text) in [("broken-eth0.json", "{"), ("note.txt", "hello")] {
        fs::write(directory.path().join(name), text).expect("it can be written");
    }
    let valid = json!([
        {"containerID": "a", "ifname": "eth0"},
        {"containerID": "d", "ifname": "net1"},
    ]);
    gc(directory.path(), valid, "");
    let expected = ["a-eth0.json", "broken-eth0.json", "c-eth0.json", "note.txt"];
    assert_eq!(left(directory.path()), expected);
}

#[test]
fn an_empty_list_drops_all_of_the_network() {
    let directory = records(&[("a", "net"), ("b", "other")]);
    gc(directory.path(), json!([]), "");
    assert_eq!(left(directory.path()), ["b-eth0.json"]);
}

#[test]
fn one_that_cannot_be_removed_does_not_stop_the_rest() {
    let directory = records(&[("a", "net"), ("b", "net"), ("c", "net")]);
    // A mount point cannot be unlinked.
    let busy = format!("mount --bind {RECORDS}/b-eth0.json {RECORDS}/b-eth0.json");
    let output = gc(directory.path(), json!([]), &busy);
    output.logs(&["WARN", "The record stays"]);
    assert_eq!(left(directory.path()), ["b-eth0.json"]);
}
