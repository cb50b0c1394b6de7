//! In which order things are written, as `strace` sees it.

use std::fs;

use linkerd_cni_integration::node::{KUBECONFIG, Node};
use linkerd_cni_integration::process;

const CALLS: &str = "trace=openat,fsync,rename,renameat,renameat2,unlink,unlinkat,write";

/// The calls of a run, those on the node's files only.
fn traced(node: &Node, args: &[&str]) -> Vec<String> {
    let out = node.path("trace");
    let path = out.to_string_lossy().into_owned();
    let before = ["strace", "-f", "-y", "-s", "0", "-e", CALLS, "-o", &path];
    let finished = process::finish(
        &mut node.command(&before, args),
        b"",
        linkerd_cni_integration::node::DEADLINE,
    );
    let finished = finished.expect("strace is installed");
    assert!(
        finished.status.is_some_and(|s| s.success()),
        "{}",
        String::from_utf8_lossy(&finished.stderr)
    );
    let host = node.path("host").to_string_lossy().into_owned();
    fs::read_to_string(out)
        .unwrap()
        .lines()
        .filter(|line| line.contains(&host))
        .map(str::to_owned)
        .collect()
}

/// Where a call with both of these is first found.
fn place(calls: &[String], call: &str, name: &str) -> usize {
    calls
        .iter()
        .position(|line| line.contains(&format!(" {call}")) && line.contains(name))
        .unwrap_or_else(|| panic!("no {call} of {name} in\n{}", calls.join("\n")))
}

#[test]
fn installing_is_executable_then_kubeconfig_then_configuration() {
    let node = Node::new();
    node.drop_in("net.d/10-calico.conflist");
    let calls = traced(&node, &["--sleep=false"]);
    let order = [
        place(&calls, "rename", "bin/linkerd-cni\""),
        place(&calls, "rename", KUBECONFIG),
        place(&calls, "rename", "/10-calico.conflist\""),
    ];
    assert!(order.is_sorted(), "{order:?}\n{}", calls.join("\n"));
}

#[test]
fn removing_is_configuration_then_kubeconfig_then_executable() {
    let node = Node::new();
    node.drop_in("net.d/10-calico.conflist");
    node.install_once();
    let calls = traced(&node, &["uninstall"]);
    let order = [
        place(&calls, "rename", "/10-calico.conflist\""),
        place(&calls, "unlink", KUBECONFIG),
        place(&calls, "unlink", "bin/linkerd-cni\""),
    ];
    assert!(order.is_sorted(), "{order:?}\n{}", calls.join("\n"));
}

#[test]
fn each_write_is_open_write_fsync_rename_and_fsync_of_the_directory() {
    let node = Node::new();
    node.drop_in("net.d/10-calico.conflist");
    node.drop_in("net.d/80-openshift-network.conf");
    let calls = traced(&node, &["--sleep=false"]);
    for (name, dir) in [
        ("linkerd-cni", node.bin_dir()),
        (KUBECONFIG, node.net_dir()),
        ("10-calico.conflist", node.net_dir()),
        ("80-openshift-network.conflist", node.net_dir()),
    ] {
        let temporary = format!("{}/.{name}.", dir.display());
        let opened = place(&calls, "openat(", &temporary);
        let synced = place(&calls, "fsync(", &temporary);
        let renamed = place(&calls, "rename", &temporary);
        assert!(
            opened < synced && synced < renamed,
            "{name}\n{}",
            calls.join("\n")
        );
        let after = &calls[renamed..];
        let directory = place(after, "fsync(", &format!("{}>", dir.display()));
        let next = after
            .iter()
            .skip(1)
            .position(|c| c.contains(" rename"))
            .map_or(usize::MAX, |n| n + 1);
        assert!(
            directory < next,
            "{name}: the directory is not synced\n{}",
            calls.join("\n")
        );
        // What is renamed was never opened for writing under its own name.
        let own = format!("{}/{name}\", O_", dir.display());
        let written = calls
            .iter()
            .filter(|c| c.contains(&own) && (c.contains("O_WRONLY") || c.contains("O_RDWR")));
        assert_eq!(written.count(), 0, "{name}");
    }
}
