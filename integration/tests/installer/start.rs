//! Errors at start, and what earlier versions left.

use std::fs;

use linkerd_cni_integration::node::Node;

/// Runs the installer on a node with something wrong; nothing may change.
#[track_caller]
fn refused(node: &Node, words: &[&str]) {
    let before = node.files();
    let finished = node.run(&[]);
    let log = String::from_utf8_lossy(&finished.stderr).into_owned();
    assert_eq!(finished.status.and_then(|s| s.code()), Some(1), "{log}");
    for word in words {
        assert!(log.contains(word), "{word} is not in: {log}");
    }
    assert_eq!(node.files(), before);
    assert!(!node.executable().exists() && !node.kubeconfig().exists());
}

#[test]
fn a_bad_template_is_refused_with_its_key_before_the_node_is_touched() {
    let good = linkerd_cni_integration::fixtures::text("linkerd/template-seed.json");
    for (template, words) in [
        (
            String::new(),
            ["CNI_NETWORK_CONFIG", "no CNI configuration template"],
        ),
        ("{".to_owned(), ["not JSON", "line 1"]),
        ("[]".to_owned(), ["not a JSON object", "template"]),
        (
            good.replace("\"type\": \"linkerd-cni\"", "\"type\": \"other\""),
            ["`type`", "\"other\""],
        ),
        (
            good.replace("\"linkerd\":", "\"linkered\":"),
            ["`linkerd`", "missing"],
        ),
        (
            good.replace("4143", "70000"),
            ["incoming-proxy-port", "70000"],
        ),
        (
            good.replace("\"4191\"", "\"80a\""),
            ["inbound-ports-to-ignore", "80a"],
        ),
    ] {
        let mut node = Node::new();
        node.drop_in("net.d/10-calico.conflist");
        node.set("CNI_NETWORK_CONFIG", &template);
        refused(&node, &words);
    }
}

#[test]
fn a_template_file_wins_over_the_text() {
    let mut node = Node::new();
    node.drop_in("net.d/10-calico.conflist");
    let file = linkerd_cni_integration::fixtures::path("linkerd/template-chart.json");
    node.set("CNI_NETWORK_CONFIG_FILE", &file.to_string_lossy());
    let log = node.install_once();
    assert!(
        log.contains(&format!(
            "Using CNI config template from {}.",
            file.display()
        )),
        "{log}"
    );
    assert!(
        fs::read_to_string(node.conf("10-calico.conflist"))
            .unwrap()
            .contains("\"iptables-mode\": \"nft\"")
    );
}

#[test]
fn a_missing_directory_or_an_empty_image_is_an_error_at_start() {
    for (remove, words) in [
        ("host/etc/cni/net.d", ["net.d", "missing mount"]),
        ("host/opt/cni/bin", ["opt/cni/bin", "missing mount"]),
        ("image", ["image", "missing mount"]),
        (
            "image/linkerd-cni",
            ["no executable to install", "CONTAINER_CNI_BIN_DIR"],
        ),
    ] {
        let node = Node::new();
        let path = node.path(remove);
        if path.is_dir() {
            fs::remove_dir_all(&path)
        } else {
            fs::remove_file(&path)
        }
        .unwrap();
        let finished = node.run(&[]);
        let log = String::from_utf8_lossy(&finished.stderr).into_owned();
        assert_eq!(finished.status.and_then(|s| s.code()), Some(1), "{log}");
        assert!(
            words.iter().all(|word| log.contains(word)),
            "{words:?}: {log}"
        );
        assert!(!node.executable().exists());
    }
}

#[test]
fn leftovers_of_earlier_versions_go() {
    let node = Node::new();
    let before = node.drop_in("net.d/100-crio-bridge.conflist");
    node.write(
        "01-linkerd-cni.conf",
        r#"{"name":"linkerd-cni","type":"linkerd-cni"}"#,
    );
    node.write(
        "10-old.conflist.install",
        r#"{"plugins":[{"type":"linkerd-cni"}]}"#,
    );
    node.write(
        "linkerd-cni-kubeconfig",
        "# Kubeconfig file for linkerd CNI plugin.\napiVersion: v1\n",
    );
    node.write(
        "calico-kubeconfig",
        "# Kubeconfig file for Calico CNI plugin.\napiVersion: v1\n",
    );
    node.write(".10-x.conflist.abc.linkerd-cni-tmp", "half");
    fs::write(node.bin_dir().join("linkerd-cni.install"), "half").unwrap();
    // The entry of an earlier version, printed by jq and followed by another.
    let text = String::from_utf8(before.clone()).unwrap();
    let stale = text.replacen(
        "\"plugins\": [",
        "\"plugins\": [\n    {\"type\":\"linkerd-cni\",\"old\":1},",
        1,
    );
    node.write("100-crio-bridge.conflist", stale);
    node.install_once();
    assert_eq!(
        node.names(),
        [
            "100-crio-bridge.conflist",
            "ZZZ-linkerd-cni-kubeconfig",
            "calico-kubeconfig"
        ]
    );
    assert!(node.is_chained("100-crio-bridge.conflist"));
    assert!(!node.bin_dir().join("linkerd-cni.install").exists());
    node.uninstall();
    let back: serde_json::Value =
        serde_json::from_slice(&fs::read(node.conf("100-crio-bridge.conflist")).unwrap()).unwrap();
    assert_eq!(
        back,
        serde_json::from_slice::<serde_json::Value>(&before).unwrap()
    );
}

#[test]
fn a_secret_in_the_template_is_not_logged() {
    let mut node = Node::new();
    let template = linkerd_cni_integration::fixtures::text("linkerd/template-seed.json");
    node.set(
        "CNI_NETWORK_CONFIG",
        &template.replace("__SERVICEACCOUNT_TOKEN__", "hunter2"),
    );
    node.set("LOG_LEVEL", "trace");
    let log = node.install_once();
    assert!(
        log.contains("CNI config: {") && !log.contains("hunter2") && !log.contains("e30.e30"),
        "{log}"
    );
}
