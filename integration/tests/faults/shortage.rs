//! A node that is short of descriptors or of room.

use linkerd_cni_integration::node::{DEADLINE, Node};
use linkerd_cni_integration::process;
use linkerd_cni_integration::stage::Stage;

const LIST: &str = "10-calico.conflist";

#[test]
fn an_installer_with_too_few_descriptors_says_so_and_leaves_the_node_sound() {
    let mut refused = 0;
    for limit in 3..16 {
        let node = Node::new();
        node.drop_in(&format!("net.d/{LIST}"));
        let script = format!("ulimit -n {limit}; exec \"$@\"");
        let mut command = node.command(&["/bin/sh", "-c", &script, "sh"], &["--sleep=false"]);
        let finished = process::finish(&mut command, b"", DEADLINE).expect("it starts");
        let log = String::from_utf8_lossy(&finished.stderr).into_owned();
        node.assert_sound(&format!("limit {limit}"));
        match finished.status.and_then(|status| status.code()) {
            Some(0) => assert!(node.is_chained(LIST), "limit {limit}: {log}"),
            // A build that is not static does not even get as far as `main`.
            Some(127) if log.contains("shared libraries") => refused += 1,
            _ => {
                assert!(log.contains("oo many open files"), "limit {limit}: {log}");
                refused += 1;
            }
        }
        node.install_once();
        assert!(node.is_chained(LIST), "limit {limit}");
    }
    assert!(refused > 0, "no limit was too low");
}

#[test]
fn an_installer_that_runs_out_of_descriptors_says_so_and_goes_on_when_there_are_some() {
    let mut node = Node::new();
    node.set("RESYNC_INTERVAL", "200ms");
    node.start();
    node.wait("the first pass", |node| {
        node.logged("No active CNI configuration files found") == 1
    });
    let pid = format!("--pid={}", node.pid());
    process::run("prlimit", &[&pid, "--nofile=3:1024"]).expect("it is there");
    node.drop_in(&format!("net.d/{LIST}"));
    node.wait("the warning", |node| {
        node.logged("no executable is installed") == 1
    });
    assert!(node.is_alive() && !node.is_chained(LIST));
    process::run("prlimit", &[&pid, "--nofile=1024:1024"]).expect("it is there");
    node.wait_chained(LIST);
    assert_eq!(
        node.logged("no executable is installed"),
        1,
        "{}",
        node.log()
    );
}

#[test]
fn a_full_disk_for_executables_is_said_nothing_is_chained_and_it_is_got_over() {
    let mut node = Node::new();
    node.set("RESYNC_INTERVAL", "200ms");
    node.set("VERIFY_BIN_DIR", "false");
    let directory = node.bin_dir().to_string_lossy().into_owned();
    process::run(
        "mount",
        &["-t", "tmpfs", "-o", "size=16k", "none", &directory],
    )
    .expect("root may mount");
    let _mounted = Mounted(directory.clone());
    node.drop_in(&format!("net.d/{LIST}"));
    node.start_behind(&[]);
    node.wait("the warning", |node| node.logged("the disk is full") == 1);
    node.assert_sound("full");
    assert!(!node.is_chained(LIST));
    process::run("mount", &["-o", "remount,size=8m", &directory]).expect("root may mount");
    node.wait_chained(LIST);
    node.assert_sound("no longer full");
}

#[test]
fn a_result_that_cannot_be_written_is_a_failure() {
    let stage = Stage::new("meshed");
    let output = stage
        .add()
        .through(["/bin/sh", "-c", "exec \"$@\" > /dev/full", "sh"])
        .run();
    assert_eq!(output.exit, Some(1), "{output:#?}");
    output.logs(&["could not be written to standard output", "No space left"]);
}

/// A mount that goes when it is dropped, whoever still uses it.
struct Mounted(String);

impl Drop for Mounted {
    fn drop(&mut self) {
        process::run("umount", &["-l", &self.0]).expect("it is mounted");
    }
}
