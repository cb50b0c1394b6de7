//! Killed, out of space, out of descriptors, not allowed: at every call.

use std::fs;
use std::time::Duration;

use linkerd_cni_integration::node::{DEADLINE, Node};
use linkerd_cni_integration::{process, trace};

/// A node with a list and a single configuration.
fn node() -> Node {
    let node = Node::new();
    node.drop_in("net.d/10-calico.conflist");
    node.drop_in("net.d/80-openshift-network.conf");
    node
}

/// After whatever happened, the next start puts everything right, and leaves
/// nothing of the interrupted one behind.
fn converges(node: &Node, when: &str) {
    node.install_once();
    node.assert_sound(when);
    let expected = [
        "10-calico.conflist",
        "80-openshift-network.conf.linkerd-cni-original",
        "80-openshift-network.conflist",
        "ZZZ-linkerd-cni-kubeconfig",
    ];
    assert_eq!(node.names(), expected, "{when}");
    assert!(
        node.is_chained(expected[0]) && node.is_chained(expected[2]),
        "{when}"
    );
    let left = fs::read_dir(node.bin_dir()).unwrap().flatten();
    let left: Vec<_> = left
        .map(|e| e.file_name())
        .filter(|n| n.to_string_lossy().starts_with('.'))
        .collect();
    assert!(left.is_empty(), "{when}: {left:?}");
}

/// Kills the installer at each of its calls from the first write on.
fn killed_everywhere(args: &[&str], prepare: impl Fn() -> Node, check: impl Fn(&Node, &str)) {
    let whole =
        trace::run(&prepare().command(&[], args), b"", None, DEADLINE).expect("ptrace is allowed");
    let mut killed = 0;
    // Every call would take minutes, most of them before anything is touched;
    // two coprime steps reach each kind of call of the writes.
    for call in (whole.calls / 3..whole.calls).step_by(if long() { 1 } else { 5 }) {
        let node = prepare();
        let run = trace::run(&node.command(&[], args), b"", Some(call), DEADLINE)
            .expect("ptrace is allowed");
        killed += usize::from(run.killed);
        let when = format!("{args:?} killed at call {call}");
        node.assert_sound(&when);
        check(&node, &when);
    }
    assert!(
        killed > 20,
        "killed only {killed} times of {} calls",
        whole.calls
    );
}

fn long() -> bool {
    std::env::var_os("LINKERD_CNI_LONG_TESTS").is_some()
}

#[test]
fn a_kill_at_any_call_of_an_install_leaves_the_node_sound_and_the_next_start_converges() {
    killed_everywhere(&["--sleep=false"], node, converges);
}

#[test]
fn a_kill_at_any_call_of_a_removal_leaves_the_node_sound_and_the_next_completes_it() {
    let before = node().files();
    let installed = || {
        let node = node();
        node.install_once();
        node
    };
    killed_everywhere(&["uninstall"], installed, |node, when| {
        node.uninstall();
        let mut left = node.files();
        left.retain(|name, _| !name.ends_with(".linkerd-cni-tmp"));
        assert_eq!(left, before, "{when}");
        assert!(!node.executable().exists(), "{when}");
    });
}

#[test]
fn an_error_at_any_call_leaves_the_node_sound_and_the_next_start_converges() {
    for (calls, errors) in [
        ("write", &["ENOSPC", "EROFS"][..]),
        ("fsync", &["EIO", "ENOSPC"]),
        ("rename", &["EROFS", "EACCES", "ENOSPC"]),
        ("renameat2", &["EROFS", "EACCES", "EINVAL"]),
        ("openat", &["EMFILE", "EACCES", "EROFS"]),
        ("fchmod", &["EPERM"]),
        ("fchown", &["EPERM"]),
        ("unlink", &["EACCES"]),
    ] {
        for error in errors {
            let injected = (1..100)
                .take_while(|nth| {
                    let when = format!("{error} at {calls} number {nth}");
                    let node = node();
                    let injected = injected(&node, calls, error, *nth);
                    node.assert_sound(&when);
                    converges(&node, &when);
                    injected
                })
                .count();
            assert!(injected >= 2, "only {injected} calls of {calls}");
        }
    }
}

/// Runs an install with the nth of these calls failing; false if there was no
/// such call any more.
fn injected(node: &Node, calls: &str, error: &str, nth: usize) -> bool {
    let trace = node.path("trace");
    let trace = trace.to_string_lossy();
    let inject = format!("inject={calls}:error={error}:when={nth}");
    let before = ["strace", "-f", "-o", &trace, "-e", &inject];
    let mut command = node.command(&before, &["--sleep=false"]);
    let finished = process::finish(&mut command, b"", DEADLINE).expect("strace is installed");
    assert!(
        finished.status.is_some(),
        "{error} at {calls} number {nth}: it hangs"
    );
    fs::read_to_string(node.path("trace")).is_ok_and(|trace| trace.contains("(INJECTED)"))
}

#[test]
fn a_full_disk_leaves_the_node_sound_and_is_got_over() {
    let mut node = Node::new();
    let dir = node.net_dir().to_string_lossy().into_owned();
    let mounted = Mounted::tmpfs(&dir, "size=16k");
    node.drop_in("net.d/10-calico.conflist");
    let before = node.files();
    fs::write(node.conf("filler"), vec![0; 12 << 10]).unwrap();
    node.start_behind(&[]);
    node.wait("the error", |node| node.logged("the disk is full") >= 1);
    node.assert_sound("full");
    assert_eq!(
        node.files()["10-calico.conflist"],
        before["10-calico.conflist"]
    );
    assert!(node.is_alive());
    fs::remove_file(node.conf("filler")).unwrap();
    node.wait_chained("10-calico.conflist");
    node.stop(nix::sys::signal::Signal::SIGKILL);
    drop(mounted);
}

#[test]
fn a_read_only_directory_is_an_error_at_start_that_changes_nothing() {
    let node = node();
    let dir = node.net_dir().to_string_lossy().into_owned();
    let before = node.files();
    let mounted = Mounted::read_only(&dir);
    let finished = node.run(&[]);
    drop(mounted);
    let log = String::from_utf8_lossy(&finished.stderr).into_owned();
    assert_eq!(finished.status.and_then(|s| s.code()), Some(1), "{log}");
    assert!(
        log.contains(&dir) && log.contains("Read-only file system") && log.contains("read-only"),
        "{log}"
    );
    assert!(!node.executable().exists());
    assert_eq!(node.files(), before);
}

#[test]
fn an_entry_that_cannot_be_removed_keeps_its_executable() {
    let node = node();
    node.install_once();
    let dir = node.net_dir().to_string_lossy().into_owned();
    let mounted = Mounted::read_only(&dir);
    let finished = node.run(&["uninstall"]);
    drop(mounted);
    let said = String::from_utf8_lossy(&finished.stdout).into_owned();
    assert_eq!(finished.status.and_then(|s| s.code()), Some(1), "{said}");
    assert!(said.contains("Read-only file system"), "{said}");
    node.assert_sound("uninstall of a read-only directory");
    assert!(node.executable().exists());
    node.uninstall();
    assert!(!node.executable().exists());
}

/// A mount that goes when it is dropped.
struct Mounted(String);

impl Mounted {
    fn tmpfs(dir: &str, options: &str) -> Self {
        process::run("mount", &["-t", "tmpfs", "-o", options, "tmpfs", dir])
            .expect("root may mount");
        Self(dir.to_owned())
    }

    fn read_only(dir: &str) -> Self {
        process::run("mount", &["--bind", dir, dir]).expect("root may mount");
        let mounted = Self(dir.to_owned());
        process::run("mount", &["-o", "remount,bind,ro", dir]).expect("root may mount");
        mounted
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        for _ in 0..50 {
            if process::run("umount", &[&self.0]).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
