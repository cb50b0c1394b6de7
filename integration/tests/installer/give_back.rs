//! Install, then uninstall, and nothing is different.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};

use linkerd_cni_integration::node::{Node, State, fixture_names};

#[test]
fn every_configuration_comes_back_with_bytes_mode_and_owner() {
    for name in fixture_names("net.d") {
        for (mode, owner) in [(0o644, 0), (0o600, 0), (0o640, 1234)] {
            let node = Node::new();
            node.drop_in(&format!("net.d/{name}"));
            chown(node.conf(&name), Some(owner), Some(owner * 2)).unwrap();
            fs::set_permissions(node.conf(&name), Permissions::from_mode(mode)).unwrap();
            let before = node.files();
            node.install_once();
            for (file, state) in node.files() {
                assert_eq!(
                    (state.mode, state.owner),
                    (mode, (owner, owner * 2)),
                    "{file}"
                );
            }
            node.uninstall();
            assert_eq!(node.files(), before, "{name}");
            assert!(
                !node.executable().exists() && !node.kubeconfig().exists(),
                "{name}"
            );
        }
    }
}

#[test]
fn all_configurations_together_come_back() {
    let node = Node::new();
    for name in fixture_names("net.d") {
        node.drop_in(&format!("net.d/{name}"));
    }
    let (before, executables) = (node.files(), fixture_executables(&node));
    node.install_once();
    assert_ne!(node.files(), before);
    node.uninstall();
    assert_eq!(node.files(), before);
    assert_eq!(fixture_executables(&node), executables);
    assert_eq!(node.uninstall(), "Nothing of linkerd-cni is on this node\n");
}

fn fixture_executables(node: &Node) -> Vec<(String, State)> {
    let entries = fs::read_dir(node.bin_dir()).unwrap().flatten();
    let mut all: Vec<_> = entries
        .map(|e| {
            (
                e.file_name().to_string_lossy().into_owned(),
                State::of(&e.path()).unwrap(),
            )
        })
        .collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

#[test]
fn the_second_install_writes_nothing() {
    let node = Node::new();
    for name in fixture_names("net.d") {
        node.drop_in(&format!("net.d/{name}"));
    }
    node.install_once();
    let stamps = |node: &Node| -> Vec<_> {
        let files = node
            .names()
            .into_iter()
            .map(|name| node.conf(&name))
            .chain([node.executable()]);
        files
            .chain([node.net_dir(), node.bin_dir()])
            .map(|path| {
                let m = fs::metadata(&path).unwrap();
                (path, m.ino(), m.mtime(), m.mtime_nsec(), m.ctime_nsec())
            })
            .collect()
    };
    let before = stamps(&node);
    node.install_once();
    assert_eq!(stamps(&node), before);
}

#[test]
fn single_configurations_become_lists_that_keep_name_and_version() {
    for (single, name, version) in [
        ("00-multus.conf", "multus-cni-network", "0.3.1"),
        ("10-ovn-kubernetes.conf", "ovn-kubernetes", "0.4.0"),
        ("80-openshift-network.conf", "openshift-sdn", "0.3.1"),
    ] {
        let node = Node::new();
        let before = node.drop_in(&format!("net.d/{single}"));
        node.install_once();
        let list = format!("{}list", single);
        assert!(node.is_chained(&list), "{:?}", node.names());
        assert!(!node.conf(single).exists());
        assert_eq!(
            fs::read(node.conf(&format!("{single}.linkerd-cni-original"))).unwrap(),
            before
        );
        let json: serde_json::Value =
            serde_json::from_slice(&fs::read(node.conf(&list)).unwrap()).unwrap();
        assert_eq!(
            (json["name"].as_str(), json["cniVersion"].as_str()),
            (Some(name), Some(version))
        );
        let original: serde_json::Value = serde_json::from_slice(&before).unwrap();
        assert_eq!(json["plugins"][0], original);
        assert_eq!(json["plugins"].as_array().unwrap().len(), 2);
    }
}

#[test]
fn a_loopback_list_is_left_alone_without_a_word() {
    let node = Node::new();
    let before = node.drop_in("net.d/200-loopback.conflist");
    let log = node.install_once();
    assert_eq!(
        fs::read(node.conf("200-loopback.conflist")).unwrap(),
        before
    );
    assert!(!log.contains("200-loopback"), "{log}");
}

#[test]
fn an_agent_that_writes_its_single_configuration_again_is_followed() {
    let mut node = Node::new();
    node.drop_in("net.d/10-ovn-kubernetes.conf");
    node.start();
    node.wait_chained("10-ovn-kubernetes.conflist");
    let newer =
        r#"{"cniVersion":"0.4.0","name":"ovn-kubernetes","type":"ovn-k8s-cni-overlay","mtu":9000}"#;
    node.write("10-ovn-kubernetes.conf", newer);
    node.wait("the newer one set aside", |node| {
        !node.conf("10-ovn-kubernetes.conf").exists()
    });
    node.wait("the newer one chained", |node| {
        fs::read_to_string(node.conf("10-ovn-kubernetes.conflist"))
            .is_ok_and(|text| text.contains("9000"))
    });
    node.stop(nix::sys::signal::Signal::SIGKILL);
    node.uninstall();
    assert_eq!(node.names(), ["10-ovn-kubernetes.conf"]);
    assert_eq!(
        fs::read_to_string(node.conf("10-ovn-kubernetes.conf")).unwrap(),
        newer
    );
}

#[test]
fn what_another_writer_changed_meanwhile_is_kept() {
    let node = Node::new();
    node.drop_in("net.d/10-calico.conflist");
    node.install_once();
    let path = node.conf("10-calico.conflist");
    let changed = fs::read_to_string(&path)
        .unwrap()
        .replace("\"mtu\": 0", "\"mtu\": 1400");
    fs::write(&path, changed).unwrap();
    node.uninstall();
    let expected = String::from_utf8(linkerd_cni_integration::node::fixture_bytes(
        "net.d/10-calico.conflist",
    ))
    .unwrap();
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        expected.replace("\"mtu\": 0", "\"mtu\": 1400")
    );
}

#[test]
fn a_list_that_cilium_renamed_is_unchained_too() {
    let node = Node::new();
    let before = node.drop_in("net.d/10-calico.conflist");
    node.install_once();
    fs::rename(
        node.conf("10-calico.conflist"),
        node.conf("10-calico.conflist.cilium_bak"),
    )
    .unwrap();
    node.uninstall();
    assert_eq!(
        fs::read(node.conf("10-calico.conflist.cilium_bak")).unwrap(),
        before
    );
}

#[test]
fn the_selinux_label_of_a_file_is_kept() {
    use rustix::fs::{XattrFlags, getxattr, setxattr};
    const LABEL: &str = "security.selinux";
    let node = Node::new();
    for name in ["10-calico.conflist", "80-openshift-network.conf"] {
        node.drop_in(&format!("net.d/{name}"));
        let label = format!("system_u:object_r:{}_t:s0\0", name.len());
        setxattr(
            node.conf(name),
            LABEL,
            label.as_bytes(),
            XattrFlags::empty(),
        )
        .unwrap();
    }
    let labels = |node: &Node| -> Vec<String> {
        let files = node.files().into_keys();
        files
            .map(|name| {
                let mut label = [0; 256];
                let length = getxattr(node.conf(&name), LABEL, &mut label).unwrap_or(0);
                String::from_utf8_lossy(&label[..length]).into_owned()
            })
            .collect()
    };
    let before = labels(&node);
    node.install_once();
    // The list that was made, and the original beside it, both as the original.
    assert_eq!(
        labels(&node),
        [before[0].clone(), before[1].clone(), before[1].clone()]
    );
    node.uninstall();
    assert_eq!(labels(&node), before);
}
