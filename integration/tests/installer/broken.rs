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

#[test]
fn what_the_runtime_does_not_load_and_what_it_loads_instead_is_said() {
    let single = fixture_bytes("net.d/80-openshift-network.conf");
    let list = fixture_bytes("net.d/10-calico.conflist");
    let node = Node::new();
    node.write("05-list.conf", &list);
    node.write("80-openshift-network.conf", &single);
    node.write("80-openshift-network.conflist", "{\"name\":");
    let before = node.files();
    node.install_once();
    let after = node.files();
    for name in ["05-list.conf", "80-openshift-network.conflist"] {
        assert_eq!(after[name], before[name], "{name}");
    }
    assert!(node.is_chained("80-openshift-network.conf.conflist"));
    assert!(!after.contains_key("80-openshift-network.conf"));
    let status = node.run(&["status"]);
    let said = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(status.status.is_some_and(|s| s.success()), "{said}");
    for words in [
        "80-openshift-network.conf.conflist is chained",
        "80-openshift-network.conflist: left alone: not JSON (yet)",
        "rename the file to 05-list.conflist",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(node.run(&["uninstall"]).status.is_some_and(|s| s.success()));
    assert_eq!(node.files(), before);
}

#[test]
fn podmans_networks_are_left_alone_and_given_back_if_they_were_chained() {
    let mut node = Node::new();
    let podman = node.drop_in("net.d/87-podman-bridge.conflist");
    node.drop_in("net.d/10-calico.conflist");
    node.set("IGNORE_CONFIGURATIONS", "none");
    node.install_once();
    assert!(node.is_chained("87-podman-bridge.conflist"));
    node.unset("IGNORE_CONFIGURATIONS");
    let plan = node.run(&["plan"]);
    let said = String::from_utf8_lossy(&plan.stdout).into_owned();
    assert!(
        said.contains("left alone, as IGNORE_CONFIGURATIONS"),
        "{said}"
    );
    assert!(said.contains("-      \"type\": \"linkerd-cni\""), "{said}");
    node.install_once();
    assert_eq!(
        fs::read(node.conf("87-podman-bridge.conflist")).unwrap(),
        podman
    );
    assert!(node.is_chained("10-calico.conflist"));
    let status = node.run(&["status"]);
    let said = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(status.status.is_some_and(|s| s.success()), "{said}");
    assert!(said.contains("note  configuration"), "{said}");

    // As long as there is no other, the runtime gives pods podman's network.
    fs::remove_file(node.conf("10-calico.conflist")).unwrap();
    let status = node.run(&["status"]);
    let said = String::from_utf8_lossy(&status.stdout).into_owned();
    assert_eq!(status.status.and_then(|s| s.code()), Some(1), "{said}");
    assert!(
        said.contains("the runtime loads the first file by name"),
        "{said}"
    );
}
