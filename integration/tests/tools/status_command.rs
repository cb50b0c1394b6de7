//! `linkerd-cni status`: the same, for people.

use std::fs;

use linkerd_cni_integration::stage::Stage;
use linkerd_cni_integration::tool::{Tool, scratch};
use serde_json::json;

/// A configuration directory with a list that has an entry of ours.
fn conf_dir(stage: &Stage) -> tempfile::TempDir {
    let directory = scratch();
    let mut ours = stage.config.clone();
    ours["type"] = json!("linkerd-cni");
    let list = json!({"cniVersion": "1.0.0", "name": "net", "plugins": [{"type": "bridge"}, ours]});
    let path = directory.path().join("10-net.conflist");
    fs::write(path, list.to_string()).expect("it can be written");
    directory
}

fn status(directory: &tempfile::TempDir) -> Tool {
    Tool::new(&["status", "--conf-dir"]).arg(directory.path())
}

#[test]
fn a_node_in_order_is_told_line_by_line() {
    let stage = Stage::new("meshed");
    let said = status(&conf_dir(&stage)).exits(0);
    for (about, found) in [
        ("entry", "10-net.conflist"),
        ("configuration", "valid"),
        ("programs", "usable: nft, plain, legacy, native"),
        (
            "kubeconfig",
            "ZZZ-linkerd-cni-kubeconfig, for https://127.0.0.1",
        ),
        ("token", "does not say when it ends"),
        ("executable", "linkerd-cni"),
        ("records", "/run/linkerd-cni"),
    ] {
        let line = said.stdout.lines().find(|line| line.starts_with(about));
        let line = line.unwrap_or_else(|| panic!("no {about}: {said:#?}"));
        assert!(line.contains(" ok ") && line.contains(found), "{line}");
    }
    assert_eq!(said.stderr, "");
    let file = conf_dir(&stage);
    Tool::new(&["status", "--conf"])
        .arg(file.path().join("10-net.conflist"))
        .exits(0);
}

#[test]
fn a_fault_comes_with_its_mend() {
    let stage = Stage::new("meshed");
    let directory = conf_dir(&stage);
    stage.kubeconfig.write_text("");
    let said = status(&directory).exits(1);
    said.prints(&[
        "fault",
        "is empty",
        "delete it, and linkerd-cni-installer writes it anew",
    ]);

    fs::remove_file(stage.kubeconfig.path()).expect("there is one");
    let said = status(&directory).exits(0);
    said.prints(&["warning", "is not there"]);

    let bad = conf_dir(&stage.linkerd("incoming-proxy-port", 0));
    status(&bad).exits(1).prints(&[
        "linkerd.incoming-proxy-port: 0 is not a port",
        "mend the chart's value",
    ]);
}

#[test]
fn a_node_without_an_entry_says_who_makes_it() {
    let said = status(&scratch()).exits(1);
    said.prints(&[
        "has an entry of linkerd-cni",
        "linkerd-cni-installer adds it",
    ]);
    Tool::new(&["status", "--conf-dir", "/nowhere"])
        .exits(1)
        .prints(&["/nowhere cannot be read"]);
    Tool::new(&["status", "--conf", "/nowhere/x.conf"])
        .exits(2)
        .complains(&["/nowhere/x.conf"]);
}
