//! The whole life of a node.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use linkerd_cni_integration::fixtures;
use linkerd_cni_integration::node::State;
use linkerd_cni_integration::rules::{Family, Tables, restore};
use nix::sys::signal::Signal;

use crate::machine::{EXCLUDED, LIST, Machine, list};
use crate::pod::{Pod, Serving};
use crate::verbs::{check, check_all};

type Files = BTreeMap<PathBuf, State>;

/// Every file of the node's two directories.
pub(crate) fn directories(machine: &Machine) -> Files {
    let directories = [machine.node.net_dir(), machine.node.bin_dir()];
    let entries = directories
        .into_iter()
        .flat_map(|directory| fs::read_dir(directory).unwrap());
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .map(|path| (path.clone(), State::of(&path).unwrap()))
        .collect()
}

/// A meshed pod of this name, that runs and is redirected.
pub(crate) fn meshed(machine: &Machine, name: &str) -> Serving {
    let mut object = fixtures::pod("meshed");
    object["metadata"]["name"] = name.into();
    let pod = Pod::of(machine, object);
    let serving = pod.start(machine).unwrap().serve();
    assert_eq!(serving.redirected(machine), (true, true), "{name}");
    serving
}

fn ours() -> Pod {
    Pod::named("linkerd-cni", "linkerd-cni-x7k2p")
}

#[test]
fn a_node_lives_and_is_in_the_end_as_it_was() {
    let mut machine = Machine::new();
    let empty = directories(&machine);
    waits_for_a_network(&mut machine);
    gets_a_network(&machine);
    let first = meshed(&machine, "first");
    let unmeshed = Pod::of(&machine, fixtures::pod("unmeshed"));
    let unmeshed = unmeshed.start(&machine).unwrap().serve();
    has_its_token_rotated(&machine, "rotated-token-1");
    let second = meshed(&machine, "second");
    let rewritten = has_its_list_rewritten(&machine);
    let third = meshed(&machine, "third");
    let meanwhile = is_upgraded(&mut machine);
    old_pods_are_checked(&machine, &[&first, &second, &third, &meanwhile], &third);
    for pod in [first, unmeshed, third] {
        pod.sandbox.end(&machine).unwrap();
    }
    loses_its_power(&mut machine);
    comes_back(&mut machine);

    let last = meshed(&machine, "last");
    is_given_back(&mut machine);
    assert_eq!(
        fs::read(machine.node.conf(LIST)).unwrap(),
        rewritten.as_bytes()
    );
    assert_eq!(last.redirected(&machine), (true, true));
    last.sandbox.end(&machine).unwrap();
    // containerd calls the plugins of the list as it is now, so nobody was left to
    // take the record along; it lies in /run, which the next boot empties.
    assert_eq!(
        machine.left(),
        [last.sandbox.record(&machine).display().to_string()]
    );
    fs::remove_file(machine.node.conf(LIST)).unwrap();
    assert_eq!(directories(&machine), empty);
}

/// Nothing is written, and no pod starts, for want of a network.
fn waits_for_a_network(machine: &mut Machine) {
    machine.install();
    machine.node.wait("the installer waits", |node| {
        node.logged("No active CNI configuration files found") == 1
    });
    assert_eq!(machine.cri.loaded(), [""; 0]);
    let refused = ours().start(machine).err().unwrap();
    assert!(refused.contains("cni plugin not initialized"), "{refused}");
}

fn gets_a_network(machine: &Machine) {
    machine.drop_list(&list());
    machine.wait_chained();
    ours().start(machine).unwrap().end(machine).unwrap();
    // The sandbox that failed, and could not be torn down then.
    for id in machine.cri.list() {
        machine.cri.stop(&id).unwrap();
        machine.cri.remove(&id).unwrap();
    }
    assert_eq!(machine.left(), [""; 0]);
}

/// The kubeconfig follows; the list is not touched.
fn has_its_token_rotated(machine: &Machine, token: &str) {
    let inode = || fs::metadata(machine.node.conf(LIST)).unwrap().ino();
    let before = inode();
    machine.api.set_token(token);
    machine.node.rotate_token(token);
    machine.wait_token(token);
    assert_eq!(inode(), before);
}

/// The other plugin writes its list anew, with another MTU; returns it.
fn has_its_list_rewritten(machine: &Machine) -> String {
    let rewritten = list().replace(
        "\"bridge\": \"cni0\"",
        "\"bridge\": \"cni0\",\n      \"mtu\": 1400",
    );
    assert_ne!(rewritten, list());
    machine.drop_list(&rewritten);
    machine.wait_chained();
    rewritten
}

/// A new installer brings a new executable. While there is none, pods start and
/// are redirected; returns such a one.
fn is_upgraded(machine: &mut Machine) -> Serving {
    let stopped = machine.node.stop(Signal::SIGTERM);
    assert!(stopped.success(), "{}", machine.node.log());
    let meanwhile = meshed(machine, "meanwhile");
    let image = machine.node.image().join("linkerd-cni");
    let mut new = fs::OpenOptions::new().append(true).open(image).unwrap();
    // What follows an executable's own content does not change what it does.
    new.write_all(b"another version").unwrap();
    machine.install();
    machine.node.wait("the new executable", |node| {
        fs::read(node.executable()).is_ok_and(|bytes| bytes.ends_with(b"another version"))
    });
    meanwhile
}

/// The new executable finds the old one's pods in order, and notices one that is
/// not any more.
fn old_pods_are_checked(machine: &Machine, pods: &[&Serving], spoilt: &Serving) {
    for pod in pods {
        check(machine, &pod.sandbox).unwrap();
    }
    check_all(machine).unwrap();
    let payload = "*nat\n-F PROXY_INIT_OUTPUT\nCOMMIT\n";
    restore(&spoilt.sandbox.netns, Tables::Nft, Family::V4, payload);
    let said = check(machine, &spoilt.sandbox).unwrap_err();
    assert!(said.contains("PROXY_INIT_OUTPUT"), "{said}");
    check_all(machine).unwrap_err();
}

/// The power goes while the installer writes: half a file of its own lies beside
/// the list and beside the executable.
fn loses_its_power(machine: &mut Machine) {
    machine.node.stop(Signal::SIGKILL);
    machine.node.write(
        ".10-net.conflist.Xb3k9Z.linkerd-cni-tmp",
        "{\"cniVersion\": ",
    );
    let executable = machine
        .node
        .bin_dir()
        .join(".linkerd-cni.Qq81xA.linkerd-cni-tmp");
    fs::write(executable, "\x7fELF").unwrap();
    machine.reboot();
}

/// The runtime is there before the installer, whose token is not taken any more.
fn comes_back(machine: &mut Machine) {
    let token = "rotated-token-2";
    machine.api.set_token(token);
    machine.wait_loaded("linkerd-cni");
    let dead = machine.cri.list();
    assert_eq!(dead.len(), 2, "those that were running");
    for id in dead {
        machine.cri.stop(&id).unwrap();
        machine.cri.remove(&id).unwrap();
    }
    assert_eq!(machine.left(), [""; 0]);
    let meshed_pod = Pod::of(machine, fixtures::pod("meshed"));
    let refused = meshed_pod.start(machine).err().unwrap();
    assert!(refused.contains("401"), "{refused}");
    for pod in [ours(), Pod::named(EXCLUDED, "kube-proxy-abcde")] {
        pod.start(machine).unwrap().end(machine).unwrap();
    }

    machine.node.rotate_token(token);
    machine.install();
    machine.wait_token(token);
    machine.node.wait("the half files are gone", |node| {
        let entries = fs::read_dir(node.bin_dir()).unwrap().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        !node
            .names()
            .into_iter()
            .chain(names)
            .any(|name| name.ends_with("-tmp"))
    });
    let pod = meshed_pod.start(machine).unwrap().serve();
    assert_eq!(pod.redirected(machine), (true, true));
    pod.sandbox.end(machine).unwrap();
}

/// Its DaemonSet is deleted, then its installer is told to end.
fn is_given_back(machine: &mut Machine) {
    machine.forget_daemonset();
    let stopped = machine.node.stop(Signal::SIGTERM);
    assert!(stopped.success(), "{}", machine.node.log());
    assert!(!machine.node.executable().exists() && !machine.node.kubeconfig().exists());
    machine.wait_loaded("portmap");
}
