//! A test that is killed leaves nothing that runs.

use std::fs;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use linkerd_cni_integration::node::{DEADLINE, send};
use linkerd_cni_integration::process;
use linkerd_cni_integration::runtime::Cgroup;
use nix::sys::signal::Signal;

/// Those processes of the node of a test, by its process, that are told apart by
/// one of these files of theirs.
fn processes(test: u32, files: &[&str]) -> Vec<String> {
    let mark = format!("lct-{test}-");
    let marked = |name: &String| {
        let mut texts = files
            .iter()
            .map(|file| fs::read(format!("/proc/{name}/{file}")));
        texts.any(|text| text.is_ok_and(|text| String::from_utf8_lossy(&text).contains(&mark)))
    };
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names
        .filter(|name| *name != test.to_string())
        .filter(marked)
        .collect()
}

fn wait(what: &str, holds: impl Fn() -> bool) {
    let until = Instant::now() + DEADLINE;
    while !holds() {
        assert!(Instant::now() < until, "{what} was waited for in vain");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_node_ends_with_the_process_that_made_it() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = process::command(std::env::current_exe().unwrap());
    command.args(["--exact", "pods::other_pods_are_not_touched"]);
    command.env("TMPDIR", directory.path());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut test = command.spawn().unwrap();
    let pid = test.id();
    wait("a pod", || !processes(pid, &["cgroup"]).is_empty());
    // containerd, its shim and the pod; the installer.
    assert!(processes(pid, &["cmdline", "environ"]).len() >= 3);
    send(pid, Signal::SIGKILL);
    test.wait().unwrap();
    wait("the end of all", || {
        processes(pid, &["cgroup", "cmdline", "environ"]).is_empty()
    });
    // What ./integration/test sweeps.
    drop(Cgroup::left_by(pid));
}
