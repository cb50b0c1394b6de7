//! What the runtime hands over in the environment.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use linkerd_cni_integration::netns::Netns;
use linkerd_cni_integration::rules;
use linkerd_cni_integration::stage::Stage;
use linkerd_cni_integration::{fixtures, process};

#[test]
fn a_missing_variable_is_named() {
    let stage = Stage::new("meshed");
    let before = rules::everything(&stage.netns);
    for name in ["CNI_NETNS", "CNI_CONTAINERID", "CNI_IFNAME"] {
        stage.add().without(name).fail(4).says(&[name]);
        stage.add().env(name, "").fail(4).says(&[name]);
    }
    assert_eq!(before, rules::everything(&stage.netns));
}

#[test]
fn an_unknown_command_is_named() {
    let stage = Stage::new("meshed");
    stage.call("").fail(4).says(&["CNI_COMMAND"]);
    for command in ["REMOVE", "add", "ADD "] {
        let output = stage.call(command).fail(4);
        output.says(&["CNI_COMMAND", "ADD"]);
    }
}

#[test]
fn an_identifier_that_is_a_path_is_refused() {
    let stage = Stage::new("meshed");
    for bad in ["../../tmp/lct-escape", "a/b", ".hidden", "-x", "a b"] {
        stage
            .add()
            .container(bad)
            .fail(4)
            .says(&["CNI_CONTAINERID"]);
    }
    for bad in [
        "../eth0",
        "a/b",
        "..",
        "eth 0",
        "a-name-longer-than-linux-allows",
    ] {
        stage.add().interface(bad).fail(4).says(&["CNI_IFNAME"]);
    }
    assert!(rules::effective(&stage.netns).is_empty());
    assert!(!Path::new("/tmp/lct-escape-eth0.json").exists());
}

#[test]
fn identifiers_may_have_capitals_dots_and_dashes() {
    let stage = Stage::new("unmeshed");
    let id = format!("{}_K8S.Pod-A", stage.container_id);
    stage.add().container(&id).succeed();
    stage.del().container(&id).succeed();
}

#[test]
fn a_file_that_is_no_network_namespace_is_refused() {
    let stage = Stage::new("meshed");
    for path in [
        "/etc/hostname",
        "/dev/null",
        "/etc",
        "/proc/self/ns/mnt",
        "relative",
    ] {
        let output = stage.add().netns(Path::new(path)).fail(8);
        output.says(&[path, "network namespace"]);
    }
    assert!(stage.api.requests().is_empty());
}

#[test]
fn a_namespace_that_is_gone_is_refused() {
    let stage = Stage::new("meshed");
    let path = Path::new("/run/netns/lct-never-was");
    let output = stage.add().netns(path).fail(8);
    output.says(&["/run/netns/lct-never-was"]);
}

#[test]
fn a_mount_point_left_over_from_a_namespace_is_refused() {
    // What `ip netns` leaves when a namespace is unmounted but not removed.
    let stage = Stage::new("meshed");
    let path = Path::new("/run/netns").join(format!("{}-empty", stage.netns.name()));
    fs::write(&path, "").expect("the file can be made");
    let output = stage.add().netns(&path).run();
    fs::remove_file(&path).expect("the file can be removed");
    assert_eq!(output.code(), Some(8), "{output:#?}");
}

#[test]
fn the_plugins_own_namespace_is_refused_by_any_name_it_has() {
    // A namespace plays the host, so that a plugin that does not refuse spoils
    // nothing but a test.
    let host = Netns::new();
    let before = rules::everything(&host);
    let entered = format!("--net={}", host.path().display());
    for path in [host.path().as_path(), Path::new("/proc/self/ns/net")] {
        for mode in ["nft", "legacy", "plain"] {
            let stage = Stage::new("meshed").linkerd("iptables-mode", mode);
            let call = stage.add().through(["/usr/bin/nsenter", &entered, "--"]);
            let output = call.netns(path).fail(8);
            output.says(&["own network namespace"]);
        }
    }
    assert_eq!(before, rules::everything(&host));
}

#[test]
fn del_never_touches_the_plugins_own_namespace() {
    let host = Netns::new();
    let stage = Stage::new("meshed");
    stage.add().netns(&host.path()).succeed();
    let before = rules::everything(&host);
    let entered = format!("--net={}", host.path().display());
    let call = stage.del().netns(&host.path());
    call.through(["/usr/bin/nsenter", &entered, "--"]).succeed();
    assert_eq!(before, rules::everything(&host));
}

#[test]
fn a_namespace_of_another_user_is_redirected_natively_whatever_the_mode() {
    // What `hostUsers: false` gives. The kernel takes owner rules of xtables for
    // it only from inside its user namespace.
    for mode in ["nft", "legacy", "plain", "auto", "native"] {
        let netns = Arc::new(Netns::of_another_user());
        let stage = Stage::in_namespace(fixtures::pod("user-namespace"), &netns)
            .linkerd("iptables-mode", mode);
        let output = stage.add().succeed();
        output.logs(&["belongs to another user namespace"]);
        assert!(!output.stderr.contains("WARN"), "{}", output.stderr);
        let listed = rules::native(&netns);
        assert!(listed.contains("meta skuid 2102 return"), "{listed}");
        stage.del().succeed();
        assert!(rules::effective(&netns).is_empty(), "{output:#?}");
    }
}

#[test]
fn a_namespace_of_another_user_that_looks_like_our_own_falls_back_to_native() {
    // Its root is the host's root, so that nothing tells it apart.
    for mode in ["nft", "legacy", "plain"] {
        let netns = Arc::new(Netns::of_user_namespace("0 0 65536\n"));
        let stage = Stage::in_namespace(fixtures::pod("user-namespace"), &netns)
            .linkerd("iptables-mode", mode);
        let output = stage.add().succeed();
        output.logs(&[&format!(
            "iptables-mode {mode} does not work here, native is used"
        )]);
        let listed = rules::native(&netns);
        assert!(listed.contains("meta skuid 2102 return"), "{listed}");
        let tables = rules::effective(&netns).join("\n");
        assert!(!tables.contains("-A "), "{tables}");
    }
}

#[test]
fn a_namespace_may_be_named_by_its_path_in_proc() {
    let stage = Stage::new("meshed");
    let mut command = process::command("/bin/sleep");
    command.arg("60");
    let mut child = stage
        .netns
        .enter(|| process::spawn(&mut command).expect("it is there"));
    let path = format!("/proc/{}/ns/net", child.id());
    stage.add().netns(Path::new(&path)).succeed();
    let with_rules = rules::effective(&stage.netns);
    stage.del().netns(Path::new(&path)).succeed();
    process::kill_group(&child);
    child.wait().expect("it was killed");
    assert!(!with_rules.is_empty());
    assert!(rules::effective(&stage.netns).is_empty());
}

#[test]
fn items_of_cni_args_that_mean_nothing_are_ignored() {
    let stage = Stage::new("meshed");
    let args = "K8S_POD_NAMESPACE=emojivoto;;broken;=x;Unknown=1;K8S_POD_NAME=web-meshed;a=b=c;";
    stage.add().args(args).succeed();
    assert!(!rules::effective(&stage.netns).is_empty());
}

#[test]
fn an_empty_environment_beside_the_cni_variables_is_enough() {
    let stage = Stage::new("meshed");
    let call = stage.add().without("PATH").without("CNI_PATH");
    call.succeed();
    assert!(!rules::effective(&stage.netns).is_empty());
}
