//! `status` and `plan`.

use std::fs;

use linkerd_cni_integration::node::Node;

fn output(node: &Node, command: &str) -> (String, Option<i32>) {
    let finished = node.run(&[command]);
    (
        String::from_utf8_lossy(&finished.stdout).into_owned(),
        finished.status.and_then(|s| s.code()),
    )
}

#[test]
fn status_says_each_fault_and_exits_1() {
    let node = Node::new();
    let (said, code) = output(&node, "status");
    assert_eq!(code, Some(1));
    assert_eq!(said.matches("FAULT").count(), 3, "{said}");
    assert!(said.contains("waiting for another CNI plugin"), "{said}");

    node.drop_in("net.d/10-calico.conflist");
    node.drop_in("net.d/100-crio-bridge.conflist");
    node.install_once();
    let (said, code) = output(&node, "status");
    assert_eq!(
        (said.matches("ok ").count(), said.lines().count(), code),
        (3, 3, Some(0)),
        "{said}"
    );
    assert!(said.contains("10-calico.conflist is chained"), "{said}");

    node.drop_in("net.d/10-calico.conflist");
    let (said, code) = output(&node, "status");
    assert!(
        said.contains("10-calico.conflist comes first and is not chained"),
        "{said}"
    );
    assert_eq!(code, Some(1));
}

#[test]
fn plan_is_a_diff_that_patch_reads_and_changes_nothing() {
    let node = Node::new();
    node.drop_in("net.d/10-calico.conflist");
    node.drop_in("net.d/80-openshift-network.conf");
    let before = node.files();
    let (diff, code) = output(&node, "plan");
    assert_eq!(code, Some(0));
    assert_eq!(node.files(), before);
    assert!(!node.executable().exists() && !node.kubeconfig().exists());
    assert!(diff.contains("+      \"type\": \"linkerd-cni\","), "{diff}");
    assert!(
        diff.contains("80-openshift-network.conf would be moved to"),
        "{diff}"
    );
    assert!(!diff.contains("e30"), "{diff}");
    node.install_once();
    // What is removed and added is what was done.
    let after = fs::read_to_string(node.conf("10-calico.conflist")).unwrap();
    for line in diff
        .lines()
        .filter(|l| l.starts_with('+') && !l.starts_with("+++"))
    {
        let there = after.contains(&line[1..])
            || fs::read_to_string(node.conf("80-openshift-network.conflist"))
                .unwrap()
                .contains(&line[1..]);
        assert!(there, "{line}");
    }
    assert_eq!(output(&node, "plan"), (String::new(), Some(0)));
}

#[test]
fn the_log_can_be_json() {
    let mut node = Node::new();
    node.set("LOG_FORMAT", "json");
    let log = node.install_once();
    for line in log.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(
            line["timestamp"].is_string()
                && line["level"].is_string()
                && line["message"].is_string()
        );
    }
}
