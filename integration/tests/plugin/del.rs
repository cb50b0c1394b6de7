//! DEL never fails, never asks, and leaves nothing of ours.

use std::path::Path;
use std::time::Duration;

use linkerd_cni_integration::api_server::Fault;
use linkerd_cni_integration::fake::{ALL, Fakes};
use linkerd_cni_integration::rules::{self, Family, Tables};
use linkerd_cni_integration::stage::Stage;
use serde_json::json;

#[test]
fn del_leaves_nothing_of_ours_in_any_mode() {
    for mode in ["nft", "legacy", "plain", "native"] {
        let stage = Stage::new("annotated").linkerd("iptables-mode", mode);
        stage.add().succeed();
        stage.api.take_requests();
        let output = stage.del().succeed();
        assert_eq!(output.stdout, "");
        assert_eq!(
            rules::effective(&stage.netns),
            Vec::<String>::new(),
            "{mode}"
        );
        assert!(stage.api.requests().is_empty());
        assert!(!stage.record("eth0").exists());
    }
}

#[test]
fn del_twice_and_before_any_add_succeeds() {
    let stage = Stage::new("meshed");
    let before = rules::effective(&stage.netns);
    stage.del().succeed();
    assert_eq!(before, rules::effective(&stage.netns));
    stage.add().succeed();
    stage.del().succeed();
    stage.del().succeed();
    assert_eq!(before, rules::effective(&stage.netns));
}

#[test]
fn del_succeeds_without_namespace_and_removes_the_record() {
    let gone = Path::new("/run/netns/lct-never-was");
    for path in [
        None,
        Some(""),
        Some("/run/netns/lct-never-was"),
        Some("/etc/hostname"),
    ] {
        let stage = Stage::new("meshed");
        stage.add().succeed();
        let call = match path {
            Some(path) => stage.del().netns(Path::new(path)),
            None => stage.del().without("CNI_NETNS"),
        };
        call.succeed();
        assert!(!stage.record("eth0").exists(), "{path:?}");
        stage.del().netns(gone).succeed();
    }
}

#[test]
fn del_succeeds_after_the_namespace_was_deleted() {
    let stage = Stage::new("meshed");
    stage.add().succeed();
    let path = stage.netns.path();
    linkerd_cni_integration::process::run("ip", &["netns", "del", stage.netns.name()])
        .expect("it can be deleted");
    stage.del().netns(&path).succeed();
    assert!(!stage.record("eth0").exists());
}

#[test]
fn del_takes_the_rules_out_whatever_became_of_the_configuration() {
    for stdin in [
        "".to_owned(),
        "{".to_owned(),
        "[]".to_owned(),
        json!({"cniVersion": "9.9.9", "linkerd": 1}).to_string(),
        json!({"cniVersion": "0.3.1", "name": "x", "type": "linkerd-cni"}).to_string(),
        json!({"cniVersion": "0.3.1", "linkerd": {"iptables-mode": "stone"}}).to_string(),
    ] {
        for mode in ["nft", "legacy", "native"] {
            let stage = Stage::new("meshed").linkerd("iptables-mode", mode);
            stage.add().succeed();
            stage.del().stdin(stdin.clone()).succeed();
            assert!(rules::effective(&stage.netns).is_empty(), "{mode} {stdin}");
            assert!(!stage.record("eth0").exists(), "{mode} {stdin}");
        }
    }
}

#[test]
fn del_takes_the_rules_out_although_the_mode_was_changed_meanwhile() {
    for (then, now) in [
        ("nft", "legacy"),
        ("legacy", "nft"),
        ("legacy", "plain"),
        ("native", "nft"),
        ("native", "legacy"),
        ("nft", "native"),
        ("legacy", "native"),
    ] {
        for with_record in [true, false] {
            let stage = Stage::new("meshed").linkerd("iptables-mode", then);
            stage.add().succeed();
            if !with_record {
                std::fs::remove_file(stage.record("eth0")).expect("there is a record");
            }
            let stage = stage.linkerd("iptables-mode", now);
            stage.del().succeed();
            assert!(
                rules::effective(&stage.netns).is_empty(),
                "{then} {now} {with_record}"
            );
        }
    }
}

#[test]
fn del_takes_the_rules_out_without_a_record() {
    for mode in ["nft", "legacy", "plain", "native"] {
        let stage = Stage::new("meshed").linkerd("iptables-mode", mode);
        stage.add().succeed();
        std::fs::remove_file(stage.record("eth0")).expect("there is a record");
        stage.del().succeed();
        assert!(rules::effective(&stage.netns).is_empty(), "{mode}");
    }
}

#[test]
fn del_takes_out_what_is_left_of_the_rules() {
    let stage = Stage::new("meshed");
    for remains in [
        "*nat\n-D PREROUTING 1\nCOMMIT\n",
        "*nat\n-D OUTPUT 1\n-F PROXY_INIT_OUTPUT\n-X PROXY_INIT_OUTPUT\nCOMMIT\n",
        "*nat\n-F\n-X\nCOMMIT\n",
    ] {
        stage.add().succeed();
        rules::restore(&stage.netns, Tables::Nft, Family::V4, remains);
        stage.del().succeed();
        assert!(rules::effective(&stage.netns).is_empty(), "{remains}");
    }
}

#[test]
fn del_needs_no_api_server_and_no_kubeconfig() {
    let stage = Stage::new("meshed");
    stage.add().succeed();
    stage.api.misbehave(Fault::HangBeforeTls);
    std::fs::remove_file(stage.kubeconfig.path()).expect("there is a kubeconfig");
    stage.del().succeed().within(Duration::from_secs(4));
    assert!(rules::effective(&stage.netns).is_empty());
    assert_eq!(stage.api.connections(), 1, "ADD's");
}

#[test]
fn del_succeeds_when_the_programs_are_missing_and_later_takes_the_rules_out() {
    for mode in ["nft", "plain", "legacy", "native"] {
        let stage = Stage::new("meshed").linkerd("iptables-mode", mode);
        stage.add().succeed();
        let missing = stage.del().with_mounts("mount -t tmpfs none /usr/sbin");
        missing.succeed();
        let left = rules::effective(&stage.netns);
        // What nf_tables holds needs no program to be taken out.
        assert_eq!(left.is_empty(), mode != "legacy", "{mode}: {left:#?}");
        stage.del().succeed();
        assert!(rules::effective(&stage.netns).is_empty(), "{mode}");
    }
}

#[test]
fn del_succeeds_when_the_programs_fail() {
    for script in ["exit 1", "kill -9 $$"] {
        succeeds_with_programs(script);
    }
}

#[test]
fn del_succeeds_when_the_programs_hang() {
    succeeds_with_programs("exec sleep 100");
}

fn succeeds_with_programs(script: &str) {
    let stage = Stage::new("meshed");
    stage.add().succeed();
    let fakes = Fakes::new().replace(&ALL, script);
    let output = stage.del().env("PATH", fakes.first_on_path()).succeed();
    output.within(Duration::from_secs(50));
}

#[test]
fn del_of_an_unmeshed_pod_touches_nothing() {
    let stage = Stage::new("unmeshed");
    let theirs = "*nat\n-N THEIRS\n-A OUTPUT -p udp -j THEIRS\nCOMMIT\n";
    rules::restore(&stage.netns, Tables::Nft, Family::V4, theirs);
    stage.add().succeed();
    let before = rules::effective(&stage.netns);
    stage.del().succeed();
    assert_eq!(before, rules::effective(&stage.netns));
}

#[test]
fn del_without_identifiers_succeeds() {
    let stage = Stage::new("meshed");
    stage.del().without("CNI_CONTAINERID").succeed();
    stage.del().without("CNI_IFNAME").succeed();
    stage.del().container("../../etc/passwd").succeed();
    assert!(Path::new("/etc/passwd").exists());
}
