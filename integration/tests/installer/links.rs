//! Configurations behind links.

use std::fs;
use std::os::unix::fs::symlink;
use std::thread;
use std::time::Duration;

use linkerd_cni_integration::node::{KUBECONFIG, Node, fixture_bytes, is_chained};

const CALICO: &str = "10-calico.conflist";

#[test]
fn a_link_stays_a_link_and_its_file_comes_back() {
    let node = Node::new();
    let plain = fixture_bytes("net.d/10-calico.conflist");
    fs::create_dir_all(node.path("host/var/lib/calico")).unwrap();
    let target = node.path("host/var/lib/calico/list");
    fs::write(&target, &plain).unwrap();
    // As the host sees it: the prefix is not in the link.
    symlink("/var/lib/calico/list", node.conf(CALICO)).unwrap();
    node.install_once();
    assert_eq!(
        fs::read_link(node.conf(CALICO)).unwrap().to_str(),
        Some("/var/lib/calico/list")
    );
    assert!(is_chained(&fs::read(&target).unwrap()));
    node.uninstall();
    assert_eq!(fs::read(&target).unwrap(), plain);
    assert_eq!(
        fs::read_link(node.conf(CALICO)).unwrap().to_str(),
        Some("/var/lib/calico/list")
    );
}

#[test]
fn a_link_to_a_single_configuration_comes_back_as_a_link() {
    let node = Node::new();
    let plain = fixture_bytes("net.d/80-openshift-network.conf");
    fs::create_dir(node.conf("real")).unwrap();
    node.write("real/net", &plain);
    symlink("real/net", node.conf("80-net.conf")).unwrap();
    node.install_once();
    assert!(node.is_chained("80-net.conflist"), "{:?}", node.names());
    node.uninstall();
    assert_eq!(node.names(), ["80-net.conf", "real"]);
    assert_eq!(
        fs::read_link(node.conf("80-net.conf")).unwrap().to_str(),
        Some("real/net")
    );
    assert_eq!(fs::read(node.conf("real/net")).unwrap(), plain);
}

#[test]
fn the_former_target_of_a_swapped_link_is_given_back_too() {
    let node = Node::new();
    let plain = fixture_bytes("net.d/10-calico.conflist");
    node.write("a.list", &plain);
    node.write("b.list", &plain);
    symlink("a.list", node.conf(CALICO)).unwrap();
    node.install_once();
    fs::remove_file(node.conf(CALICO)).unwrap();
    symlink("b.list", node.conf(CALICO)).unwrap();
    node.install_once();
    node.uninstall();
    for name in ["a.list", "b.list"] {
        assert_eq!(fs::read(node.conf(name)).unwrap(), plain, "{name}");
    }
}

/// As snap packages have it, with the directory above the link mounted.
#[test]
fn a_link_on_the_way_that_is_swapped_is_followed() {
    let mut node = Node::new();
    node.set("DEST_CNI_NET_DIR", "/var/snap/k8s/current/net.d");
    node.set("DEST_CNI_BIN_DIR", "/var/snap/k8s/current/bin");
    node.set("RESYNC_INTERVAL", "100ms");
    let snap = node.path("host/var/snap/k8s");
    let list = fixture_bytes("net.d/10-calico.conflist");
    for version in ["1", "2"] {
        fs::create_dir_all(snap.join(version).join("net.d")).unwrap();
        fs::create_dir_all(snap.join(version).join("bin")).unwrap();
        fs::copy("/bin/true", snap.join(version).join("bin/calico")).unwrap();
        fs::write(snap.join(version).join("net.d/10-calico.conflist"), &list).unwrap();
    }
    let done = |version: &str| {
        let dir = snap.join(version);
        let chained = fs::read(dir.join("net.d/10-calico.conflist"));
        chained.is_ok_and(|bytes| is_chained(&bytes))
            && dir.join("net.d").join(KUBECONFIG).exists()
            && dir.join("bin/linkerd-cni").exists()
    };
    symlink("1", snap.join("current")).unwrap();
    node.start_behind(&[]);
    node.wait("the first", |_| done("1"));
    assert!(!done("2"));
    symlink("2", snap.join("next")).unwrap();
    fs::rename(snap.join("next"), snap.join("current")).unwrap();
    node.wait("the second", |_| done("2"));
    // And it is watched, not only looked at. What comes during a pass needs no line of its own.
    thread::sleep(Duration::from_millis(500));
    let network = snap.join("2/net.d/20-more.conflist");
    fs::write(&network, r#"{"name":"n","plugins":[{"type":"calico"}]}"#).unwrap();
    node.wait("the change", |node| {
        node.logged("CREATE 20-more.conflist") == 1
    });
}

#[test]
fn a_directory_that_was_removed_behind_its_mount_is_a_fault_that_says_how_to_mend_it() {
    let node = Node::new();
    node.drop_in("net.d/10-calico.conflist");
    let (dir, other) = (node.net_dir(), node.path("host/2"));
    fs::create_dir(&other).unwrap();
    fs::copy(
        node.conf("10-calico.conflist"),
        other.join("10-calico.conflist"),
    )
    .unwrap();
    // What a pod sees whose hostPath was a link to the former version.
    let script = format!(
        "mount --bind {other} {dir} && rm -r {other} && exec \"$0\" \"$@\"",
        other = other.display(),
        dir = dir.display()
    );
    let status = node.run_behind(&["unshare", "--mount", "sh", "-c", &script], &["status"]);
    let said = String::from_utf8_lossy(&status.stdout).into_owned();
    assert_eq!(status.status.and_then(|s| s.code()), Some(1), "{said}");
    let line = format!(
        "FAULT mount         {} was removed on the host",
        dir.display()
    );
    assert!(said.contains(&line), "{said}");
}

#[test]
fn a_file_that_is_a_mount_point_says_how_to_mend_it() {
    let mut node = Node::new();
    let before = node.drop_in("net.d/10-calico.conflist");
    let path = node.conf("10-calico.conflist");
    let script = format!("mount --bind {0} {0} && exec \"$0\" \"$@\"", path.display());
    node.start_behind(&["unshare", "--mount", "sh", "-c", &script]);
    node.wait("the warning", |node| {
        node.logged("10-calico.conflist is not chained") == 1
    });
    assert_eq!(
        node.logged("probably a mount point itself"),
        1,
        "{}",
        node.log()
    );
    assert_eq!(fs::read(path).unwrap(), before);
    node.drop_in("net.d/10-flannel.conflist");
    node.wait_chained("10-flannel.conflist");
}
