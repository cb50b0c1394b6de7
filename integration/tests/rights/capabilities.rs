//! Capabilities: everything that is not named is taken out of the bounding set.

use linkerd_cni_integration::backends;
use linkerd_cni_integration::node::{DEADLINE, Node};
use linkerd_cni_integration::plugin::Call;
use linkerd_cni_integration::process;
use linkerd_cni_integration::rules::{self, Tables};
use linkerd_cni_integration::stage::Stage;
use serde_json::json;

/// What each implementation of iptables needs, as `setpriv` takes it.
pub(crate) fn needed(tables: Tables) -> &'static [&'static str] {
    match tables {
        Tables::Nft => &["sys_admin", "net_admin"],
        Tables::Legacy => &["sys_admin", "net_admin", "net_raw"],
    }
}

/// The call with these capabilities and no others, and no way to get more.
pub(crate) fn limited(call: Call, capabilities: &[&str]) -> Call {
    let set = bounding_set(capabilities);
    call.through([
        "/usr/bin/setpriv",
        "--no-new-privs",
        "--inh-caps=-all",
        "--bounding-set",
        &set,
    ])
}

fn bounding_set(capabilities: &[&str]) -> String {
    let more = capabilities.iter().map(|name| format!(",+{name}"));
    std::iter::once("-all".to_owned()).chain(more).collect()
}

#[test]
fn every_verb_does_its_work_with_the_documented_capabilities() {
    for backend in backends::all() {
        let free = Stage::new("annotated").linkerd("iptables-mode", backend.mode);
        free.add().succeed();
        let stage = Stage::new("annotated").linkerd("iptables-mode", backend.mode);
        let run = |verb| limited(stage.call(verb), needed(backend.tables)).succeed();
        for _ in 0..2 {
            let output = run("ADD");
            assert!(!output.stderr.contains(" WARN "), "{output:#?}");
            assert_eq!(
                rules::effective(&free.netns),
                rules::effective(&stage.netns),
                "{}",
                backend.mode
            );
            run("CHECK");
        }
        for verb in ["STATUS", "GC", "VERSION", "DEL"] {
            run(verb);
        }
        assert!(
            rules::effective(&stage.netns).is_empty(),
            "{}",
            backend.mode
        );
        assert!(!stage.record("eth0").exists());
    }
}

#[test]
fn each_of_them_is_needed_and_named_when_it_is_missing() {
    for backend in backends::all() {
        for missing in needed(backend.tables) {
            let mut left = needed(backend.tables).to_vec();
            left.retain(|name| name != missing);
            let stage = Stage::new("annotated").linkerd("iptables-mode", backend.mode);
            let output = limited(stage.add(), &left).run();
            let name = format!("CAP_{}", missing.to_uppercase());
            if *missing == "net_raw" {
                output.logs(&["legacy does not work here, nft is used instead", &name]);
                assert_eq!(output.exit, Some(0), "{output:#?}");
            } else {
                output.says(&[&name]);
                assert!(rules::effective(&stage.netns).is_empty(), "{output:#?}");
            }
            limited(stage.del(), &left).succeed();
        }
    }
}

#[test]
fn rules_that_may_not_be_read_are_not_taken_for_none() {
    let stage = Stage::new("meshed");
    stage.add().succeed();
    std::fs::remove_file(stage.record("eth0")).expect("there is a record");
    let output = limited(stage.call("CHECK"), &["sys_admin"]).fail(100);
    output.says(&["CAP_NET_ADMIN"]);
}

#[test]
fn what_is_not_redirected_needs_no_more_than_a_look_at_the_namespace() {
    let mut excluded = Stage::new("meshed");
    excluded.config["kubernetes"]["exclude-namespaces"] = json!(["emojivoto"]);
    for (stage, capabilities) in [
        (
            Stage::new("meshed").linkerd("simulate", true),
            &["sys_admin"][..],
        ),
        (Stage::new("unmeshed"), &["sys_admin"]),
        (excluded, &[]),
    ] {
        for verb in ["ADD", "CHECK", "STATUS", "GC", "VERSION", "DEL"] {
            limited(stage.call(verb), capabilities).succeed();
        }
        assert!(rules::effective(&stage.netns).is_empty());
    }
}

#[test]
fn the_installer_needs_none_where_the_directories_are_roots() {
    let node = Node::new();
    node.drop_in("net.d/10-calico.conflist");
    node.drop_in("net.d/80-openshift-network.conf");
    let before = node.files();
    let run = |arguments: &[&str]| {
        let set = bounding_set(&[]);
        let setpriv = [
            "/usr/bin/setpriv",
            "--no-new-privs",
            "--inh-caps=-all",
            "--bounding-set",
            &set,
        ];
        let mut command = node.command(&setpriv, arguments);
        let finished = process::finish(&mut command, b"", DEADLINE).expect("it starts");
        let log = String::from_utf8_lossy(&finished.stderr).into_owned();
        assert!(
            finished.status.is_some_and(|status| status.success()),
            "{log}"
        );
    };
    run(&["--sleep=false"]);
    assert!(node.is_chained("10-calico.conflist"));
    run(&["uninstall"]);
    assert_eq!(before, node.files());
}
