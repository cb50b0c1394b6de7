//! Our executables on the host.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use linkerd_cni_integration::node::Node;
use linkerd_cni_integration::process;

#[test]
fn a_deleted_executable_comes_back() {
    let mut node = Node::new();
    node.set("RESYNC_INTERVAL", "1h");
    node.start();
    fs::remove_file(node.executable()).unwrap();
    node.wait("the executable", |node| node.executable().exists());
    fs::set_permissions(node.executable(), fs::Permissions::from_mode(0o600)).unwrap();
    node.wait("its mode", |node| {
        fs::metadata(node.executable()).is_ok_and(|m| m.mode() & 0o777 == 0o755)
    });
    fs::write(node.executable(), "tampered with").unwrap();
    node.wait("its content", |node| {
        fs::read(node.executable()).unwrap() == fs::read("/bin/true").unwrap()
    });
}

#[test]
fn a_deleted_directory_of_executables_comes_back_and_is_watched_again() {
    let mut node = Node::new();
    node.set("VERIFY_BIN_DIR", "false");
    node.set("RESYNC_INTERVAL", "1h");
    node.start();
    for _ in 0..2 {
        fs::remove_dir_all(node.bin_dir()).unwrap();
        node.wait("the executable", |node| node.executable().exists());
    }
    fs::remove_file(node.executable()).unwrap();
    node.wait("the executable", |node| node.executable().exists());
}

#[test]
fn every_regular_file_of_the_image_is_installed_with_its_mode() {
    let node = Node::new();
    fs::write(node.image().join("second"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(
        node.image().join("second"),
        fs::Permissions::from_mode(0o711),
    )
    .unwrap();
    fs::create_dir(node.image().join("directory")).unwrap();
    node.install_once();
    let second = fs::metadata(node.bin_dir().join("second")).unwrap();
    assert_eq!(second.mode() & 0o7777, 0o711);
    assert!(!node.bin_dir().join("directory").exists());
    node.uninstall();
    assert!(!node.bin_dir().join("second").exists());
    assert!(node.bin_dir().join("bridge").exists());
}

#[test]
fn an_update_while_it_is_executed_never_fails_an_execution() {
    let node = Node::new();
    node.install_once();
    let over = Arc::new(AtomicBool::new(false));
    let running: Vec<_> = (0..2)
        .map(|_| {
            let (over, executable) = (Arc::clone(&over), node.executable());
            thread::spawn(move || {
                let mut runs = 0;
                while !over.load(Ordering::Relaxed) {
                    let status = process::command(&executable).status();
                    assert!(status.as_ref().is_ok_and(|s| s.success()), "{status:?}");
                    runs += 1;
                }
                runs
            })
        })
        .collect();
    for version in 0..20 {
        let mut bytes = fs::read("/bin/true").unwrap();
        // Behind its end an ELF file may hold anything.
        bytes.extend(format!("version {version}").bytes());
        fs::write(node.image().join("linkerd-cni"), &bytes).unwrap();
        node.install_once();
        assert_eq!(fs::read(node.executable()).unwrap(), bytes);
    }
    over.store(true, Ordering::Relaxed);
    let runs: usize = running
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .sum();
    assert!(runs > 40, "only {runs} executions");
}

#[test]
fn keep_binary_leaves_the_executable() {
    let mut node = Node::new();
    node.drop_in("net.d/10-calico.conflist");
    node.install_once();
    node.set("KEEP_BINARY", "true");
    node.uninstall();
    assert!(node.executable().exists());
    assert!(!node.is_chained("10-calico.conflist") && !node.kubeconfig().exists());
}

#[test]
fn a_wrong_bin_directory_is_warned_of_and_not_chained() {
    let mut node = Node::new();
    fs::remove_file(node.bin_dir().join("cilium-cni")).unwrap();
    let before = node.drop_in("net.d/05-cilium.conflist");
    node.start();
    node.wait("the warning", |node| {
        node.logged("none of its plugins (cilium-cni) is in") == 1
    });
    assert_eq!(fs::read(node.conf("05-cilium.conflist")).unwrap(), before);
    let mut late = File::create(node.bin_dir().join("cilium-cni")).unwrap();
    late.write_all(b"#!/bin/sh\n").unwrap();
    node.wait_chained("05-cilium.conflist");

    let mut other = Node::new();
    fs::remove_file(other.bin_dir().join("cilium-cni")).unwrap();
    other.set("VERIFY_BIN_DIR", "false");
    other.drop_in("net.d/05-cilium.conflist");
    other.install_once();
    assert!(other.is_chained("05-cilium.conflist"));
}
