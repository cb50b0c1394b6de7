//! The seed's two runs: a node that has a network already, and one that gets it
//! later.

use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::thread;
use std::time::Duration;

use linkerd_cni_integration::node::{Node, fixture_bytes};

const CALICO: &str = "10-calico.conflist";

fn calico() -> Vec<u8> {
    fixture_bytes("net.d/10-calico.conflist")
}

#[test]
fn a_node_with_a_network_is_chained_at_once() {
    let mut node = Node::new();
    node.drop_in("net.d/10-calico.conflist");
    node.start();
    node.wait_chained(CALICO);
    let dir = node.net_dir();
    for line in [
        format!("Wrote linkerd CNI binaries to {}", node.bin_dir().display()),
        format!(
            "Installing CNI configuration for {}/{CALICO}",
            dir.display()
        ),
        "Using CNI config template from CNI_NETWORK_CONFIG environment variable.".to_owned(),
        "CNI config: {".to_owned(),
        format!("Created CNI config {}/{CALICO}", dir.display()),
        "Setting up watches.".to_owned(),
        "Watches established.".to_owned(),
    ] {
        node.wait(&line, |node| node.logged(&line) == 1);
    }
    for line in node.log().lines() {
        assert!(
            line.starts_with("[20") && &line[20..22] == "] ",
            "no timestamp: {line}"
        );
    }
}

/// What an agent may do to bring its configuration, and how it then looks.
type Arrival = fn(&Node);

#[test]
fn an_empty_node_is_waited_for_and_chained_however_the_file_appears() {
    let arrivals: [(&str, Arrival); 6] = [
        ("written", |node| node.write(CALICO, calico())),
        ("renamed in", |node| node.rename_in(CALICO, calico())),
        ("written in pieces", in_pieces),
        ("copied and chmodded", copied_and_chmodded),
        ("a link that is swapped", linked),
        ("made empty, then written", |node| {
            node.write(CALICO, "");
            thread::sleep(Duration::from_millis(150));
            node.write(CALICO, calico());
        }),
    ];
    for (how, arrive) in arrivals {
        let mut node = Node::new();
        // It is the events that count, not the next pass that comes anyway.
        node.set("RESYNC_INTERVAL", "1h");
        node.start();
        node.wait("the wait", |node| {
            node.logged("No active CNI configuration files found") == 1
        });
        thread::sleep(Duration::from_millis(300));
        assert!(node.is_alive(), "{how}");
        assert!(
            node.files().is_empty(),
            "{how}: something of ours stands alone: {:?}",
            node.names()
        );
        arrive(&node);
        node.wait_chained(CALICO);
        assert!(
            node.logged(&format!("New file [{CALICO}] detected; re-installing")) >= 1,
            "{how}: {}",
            node.log()
        );
        assert!(node.is_alive(), "{how}");
    }
}

fn in_pieces(node: &Node) {
    let mut file = File::create(node.conf(CALICO)).unwrap();
    for piece in calico().chunks(200) {
        file.write_all(piece).unwrap();
        thread::sleep(Duration::from_millis(40));
    }
}

fn copied_and_chmodded(node: &Node) {
    node.write(CALICO, calico());
    fs::set_permissions(node.conf(CALICO), Permissions::from_mode(0o600)).unwrap();
    node.wait_chained(CALICO);
    assert_eq!(
        fs::metadata(node.conf(CALICO)).unwrap().mode() & 0o777,
        0o600
    );
}

fn linked(node: &Node) {
    for version in ["..1", "..2"] {
        fs::create_dir(node.conf(version)).unwrap();
        node.write(&format!("{version}/{CALICO}"), calico());
    }
    symlink("..1", node.conf("..data")).unwrap();
    symlink(format!("..data/{CALICO}"), node.conf(CALICO)).unwrap();
    node.wait_chained(CALICO);
    symlink("..2", node.conf("..data_tmp")).unwrap();
    fs::rename(node.conf("..data_tmp"), node.conf("..data")).unwrap();
}

#[test]
fn the_same_content_made_again_is_not_written_again() {
    let mut node = Node::new();
    node.set("RESYNC_INTERVAL", "1h");
    node.start();
    node.drop_in("net.d/10-calico.conflist");
    node.wait_chained(CALICO);
    // Until the installer has seen its own write: what comes later is another's.
    thread::sleep(Duration::from_millis(500));
    let chained = fs::read(node.conf(CALICO)).unwrap();
    fs::remove_file(node.conf(CALICO)).unwrap();
    node.write(CALICO, &chained);
    let before = fs::metadata(node.conf(CALICO)).unwrap();
    let ignored = format!(
        "Ignoring event: CREATE {}; no real changes detected",
        node.conf(CALICO).display()
    );
    node.wait("the event ignored", |node| node.logged(&ignored) == 1);
    let after = fs::metadata(node.conf(CALICO)).unwrap();
    assert_eq!(
        (before.ino(), before.mtime_nsec()),
        (after.ino(), after.mtime_nsec())
    );
    let dir = node.net_dir();
    assert_eq!(
        node.logged(&format!(
            "Detected change in {}/: DELETE {CALICO}",
            dir.display()
        )),
        1
    );
    assert_eq!(node.logged("Created CNI config"), 1);
}

#[test]
fn a_file_that_vanishes_is_not_brought_back() {
    let mut node = Node::new();
    node.start();
    for _ in 0..30 {
        node.write(CALICO, calico());
        thread::sleep(Duration::from_millis(9));
        fs::remove_file(node.conf(CALICO)).unwrap();
        thread::sleep(Duration::from_millis(25));
        // A temporary file may be there for a moment; one that was brought back would stay.
        node.wait("nothing there", |node| node.files().is_empty());
    }
    assert!(node.is_alive());
}

#[test]
fn linkerds_own_daemonset_is_in_the_entry() {
    let mut node = Node::new();
    node.set("POD_NAMESPACE", "mesh");
    node.set("DAEMONSET_NAME", "linkerd-cni-edge");
    node.drop_in("net.d/10-calico.conflist");
    node.install_once();
    let list: serde_json::Value =
        serde_json::from_slice(&fs::read(node.conf(CALICO)).unwrap()).unwrap();
    let ours = list["plugins"].as_array().unwrap().last().unwrap();
    assert_eq!(
        ours["kubernetes"]["installer"],
        serde_json::json!({"namespace": "mesh", "daemonset": "linkerd-cni-edge"})
    );
    assert_eq!(
        ours["kubernetes"]["kubeconfig"],
        "/etc/cni/net.d/ZZZ-linkerd-cni-kubeconfig"
    );
    assert_eq!(ours["policy"]["k8s_api_root"], "https://10.60.0.1:443");
}
