//! Configurations behind links.

use std::fs;
use std::os::unix::fs::symlink;

use linkerd_cni_integration::node::{Node, fixture_bytes, is_chained};

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
