//! Files that are half-written, or nobody's configuration.

use std::fs;

use linkerd_cni_integration::node::{Node, fixture_bytes, fixture_names};

#[test]
fn a_broken_file_is_left_named_once_and_chained_once_it_is_completed() {
    for name in fixture_names("net.d-broken") {
        let mut node = Node::new();
        let before = node.drop_in(&format!("net.d-broken/{name}"));
        node.drop_in("net.d/100-crio-bridge.conflist");
        node.set("RESYNC_INTERVAL", "100ms");
        node.start();
        node.wait_chained("100-crio-bridge.conflist");
        node.wait(&name, |node| node.logged(&name) == 1);
        std::thread::sleep(std::time::Duration::from_millis(400));
        assert_eq!(node.logged(&name), 1, "{}", node.log());
        assert_eq!(fs::read(node.conf(&name)).unwrap(), before, "{name}");
        assert!(node.is_alive(), "{name}");
        if name.ends_with(".conflist") {
            node.write(&name, fixture_bytes("net.d/10-flannel.conflist"));
            node.wait_chained(&name);
        } else {
            node.write(&name, fixture_bytes("net.d/80-openshift-network.conf"));
            node.wait_chained(&format!("{name}list"));
        }
    }
}

#[test]
fn all_broken_files_together_do_not_end_the_process() {
    let mut node = Node::new();
    for name in fixture_names("net.d-broken") {
        node.drop_in(&format!("net.d-broken/{name}"));
    }
    node.write("15-huge.conflist", vec![b'['; 2 << 20]);
    node.write("15-deep.conflist", vec![b'['; 1 << 19]);
    node.write("15-binary.conf", [0, 159, 146, 150]);
    fs::create_dir(node.conf("16-directory.conflist")).unwrap();
    nix::unistd::mkfifo(&node.conf("17-fifo.conf"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    std::os::unix::fs::symlink("nowhere", node.conf("18-dangling.conflist")).unwrap();
    std::os::unix::fs::symlink("19-circle.conf", node.conf("19-circle.conf")).unwrap();
    node.drop_in("net.d/100-crio-bridge.conflist");
    let before = node.files();
    node.start();
    node.wait_chained("100-crio-bridge.conflist");
    for (name, state) in before
        .iter()
        .filter(|(name, _)| *name != "100-crio-bridge.conflist")
    {
        assert_eq!(&node.files()[name], state, "{name}");
    }
    assert!(node.is_alive());
}
