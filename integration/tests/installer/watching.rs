//! Watches that are refused, or whose directories go.

use std::fs;

use linkerd_cni_integration::node::{Node, fixture_bytes};

const CALICO: &str = "10-calico.conflist";

#[test]
fn without_inotify_it_polls_says_so_once_and_still_chains() {
    for limit in ["max_inotify_instances", "max_inotify_watches"] {
        let mut node = Node::new();
        // The limits of a user namespace of its own.
        let script = format!("echo 0 > /proc/sys/user/{limit} && exec \"$0\" \"$@\"");
        node.start_behind(&["unshare", "--user", "--map-root-user", "sh", "-c", &script]);
        node.wait("the warning", |node| node.logged("inotify is refused") == 1);
        node.write(CALICO, fixture_bytes("net.d/10-calico.conflist"));
        node.wait_chained(CALICO);
        node.rename_in(CALICO, fixture_bytes("net.d/10-flannel.conflist"));
        node.wait_chained(CALICO);
        assert_eq!(node.logged("inotify is refused"), 1);
        assert!(node.is_alive());
    }
}

#[test]
fn a_configuration_directory_that_is_made_again_is_watched_again() {
    let mut node = Node::new();
    node.set("RESYNC_INTERVAL", "1h");
    node.start();
    for _ in 0..2 {
        fs::remove_dir_all(node.net_dir()).unwrap();
        fs::create_dir_all(node.net_dir()).unwrap();
        node.write(CALICO, fixture_bytes("net.d/10-calico.conflist"));
        node.wait_chained(CALICO);
        node.rename_in(
            "20-flannel.conflist",
            fixture_bytes("net.d/10-flannel.conflist"),
        );
        node.wait_chained("20-flannel.conflist");
    }
    assert!(node.is_alive());
}

#[test]
fn a_resync_finds_what_no_event_told() {
    let mut node = Node::new();
    node.set("RESYNC_INTERVAL", "200ms");
    fs::create_dir(node.path("host/elsewhere")).unwrap();
    let target = node.path("host/elsewhere/list");
    let plain = fixture_bytes("net.d/10-calico.conflist");
    fs::write(&target, &plain).unwrap();
    std::os::unix::fs::symlink("/elsewhere/list", node.conf(CALICO)).unwrap();
    node.start();
    let chained = |node: &Node| {
        fs::read(node.path("host/elsewhere/list"))
            .is_ok_and(|b| linkerd_cni_integration::node::is_chained(&b))
    };
    node.wait("the link's file chained", chained);
    fs::write(&target, &plain).unwrap();
    node.wait("the link's file chained again", chained);
}
