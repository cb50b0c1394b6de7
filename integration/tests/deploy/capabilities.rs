//! The installer with no more capabilities than the chart gives it.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};

use linkerd_cni_integration::chart::Chart;
use linkerd_cni_integration::node::Node;
use nix::sys::signal::Signal;

const CALICO: &str = "10-calico.conflist";

/// Some node agent's user, as kubespray's `kube`.
const OTHER: u32 = 997;

/// The chart's capabilities.
fn capabilities() -> Vec<String> {
    let context = &Chart::new().container()["securityContext"];
    assert_eq!(context["privileged"], false);
    assert_eq!(context["allowPrivilegeEscalation"], false);
    assert_eq!(context["capabilities"]["drop"][0], "ALL");
    let added = context["capabilities"]["add"].as_array().expect("a list");
    let name = |c: &serde_json::Value| c.as_str().expect("a name").to_lowercase();
    added.iter().map(name).collect()
}

/// Starts the installer as root with these capabilities.
fn start(node: &mut Node, capabilities: &[String]) {
    let bounding = capabilities
        .iter()
        .fold("-all".to_owned(), |list, name| format!("{list},+{name}"));
    node.start_behind(&[
        "setpriv",
        "--no-new-privs",
        "--inh-caps=-all",
        "--bounding-set",
        &bounding,
    ]);
}

/// A node whose CNI directories, and a configuration that nobody else may read, are another user's.
fn node_of_another() -> Node {
    let mut node = Node::new();
    node.drop_in("net.d/10-calico.conflist");
    let file = node.conf(CALICO);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("a mode");
    for path in [&file, &node.net_dir(), &node.bin_dir()] {
        chown(path, Some(OTHER), Some(OTHER)).expect("an owner");
    }
    node.set("ON_EXIT", "remove");
    node
}

fn owner_and_mode(node: &Node) -> (u32, u32, u32) {
    let metadata = fs::metadata(node.conf(CALICO)).expect("the configuration");
    (metadata.uid(), metadata.gid(), metadata.mode() & 0o7777)
}

#[test]
fn no_capability_is_needed_where_everything_is_roots() {
    let mut node = Node::new();
    node.drop_in("net.d/10-calico.conflist");
    let before = fs::read(node.conf(CALICO)).unwrap();
    node.set("ON_EXIT", "remove");
    start(&mut node, &[]);
    node.wait_chained(CALICO);
    assert!(node.stop(Signal::SIGTERM).success(), "{}", node.log());
    assert_eq!(fs::read(node.conf(CALICO)).unwrap(), before);
    assert!(!node.executable().exists(), "{}", node.log());
}

#[test]
fn the_charts_capabilities_do_where_directories_and_files_are_anothers() {
    let mut node = node_of_another();
    let before = fs::read(node.conf(CALICO)).unwrap();
    start(&mut node, &capabilities());
    node.wait_chained(CALICO);
    assert_eq!(owner_and_mode(&node), (OTHER, OTHER, 0o600));
    assert!(node.stop(Signal::SIGTERM).success(), "{}", node.log());
    assert_eq!(owner_and_mode(&node), (OTHER, OTHER, 0o600));
    assert_eq!(fs::read(node.conf(CALICO)).unwrap(), before);
    assert!(!node.executable().exists(), "{}", node.log());
}

#[test]
fn there_is_no_capability_in_the_chart_that_could_be_left_out() {
    let all = capabilities();
    for left_out in &all {
        let rest: Vec<_> = all.iter().filter(|c| *c != left_out).cloned().collect();
        let mut node = node_of_another();
        start(&mut node, &rest);
        node.wait(&format!("a complaint without {left_out}"), |node| {
            node.log().contains("probably")
        });
        assert!(
            !node.is_chained(CALICO),
            "without {left_out}: {}",
            node.log()
        );
    }
}
