//! CHECK proves that the rules are there, or says what differs.

use linkerd_cni_integration::rules::{self, Family, Tables};
use linkerd_cni_integration::stage::Stage;

fn stage(pod: &str, mode: &str) -> Stage {
    // CHECK came with 0.4.0.
    let mut stage = Stage::new(pod)
        .linkerd("iptables-mode", mode)
        .top("cniVersion", "1.0.0");
    stage.config["prevResult"]["cniVersion"] = "1.0.0".into();
    stage
}

#[test]
fn check_after_add_is_good_and_asks_nobody() {
    for mode in ["nft", "legacy", "plain", "native"] {
        let stage = stage("annotated", mode);
        stage.add().succeed();
        stage.api.take_requests();
        let before = rules::everything(&stage.netns);
        let output = stage.call("CHECK").succeed();
        assert_eq!(output.stdout, "", "{mode}");
        assert!(stage.api.requests().is_empty(), "{mode}");
        assert_eq!(before, rules::everything(&stage.netns), "{mode}");
    }
}

#[test]
fn check_names_what_differs() {
    for (family, change, words) in [
        (
            Family::V4,
            "-D PROXY_INIT_REDIRECT 1",
            "4191,4190,222,5432:5433",
        ),
        (
            Family::V6,
            "-D PROXY_INIT_REDIRECT 1",
            "4191,4190,222,5432:5433",
        ),
        (Family::V4, "-D PREROUTING 1", "PREROUTING"),
        (
            Family::V4,
            "-I PROXY_INIT_OUTPUT 1 -p tcp -m tcp --dport 99 -j RETURN",
            "99",
        ),
        (Family::V6, "-F PROXY_INIT_OUTPUT", "PROXY_INIT_OUTPUT"),
    ] {
        let stage = stage("annotated", "nft");
        stage.add().succeed();
        let payload = format!("*nat\n{change}\nCOMMIT\n");
        rules::restore(&stage.netns, Tables::Nft, family, &payload);
        let output = stage.call("CHECK").fail(101);
        output.says(&[words]);
        stage.add().succeed();
        stage.call("CHECK").succeed();
    }
}

#[test]
fn check_passes_for_what_is_not_redirected() {
    for pod in ["unmeshed", "init-container"] {
        let stage = stage(pod, "nft");
        stage.add().succeed();
        stage.call("CHECK").succeed();
    }
    let stage = stage("meshed", "nft");
    stage.call("CHECK").without("CNI_ARGS").succeed();
}

#[test]
fn a_meshed_pod_that_started_before_the_plugin_was_chained_is_named() {
    let stage = stage("meshed", "nft");
    stage.call("CHECK").fail(101).says(&["web-meshed"]);
}

#[test]
fn a_mode_that_was_changed_after_add_is_no_difference() {
    for (then, now) in [
        ("native", "legacy"),
        ("nft", "native"),
        ("legacy", "native"),
    ] {
        let stage = stage("annotated", then);
        stage.add().succeed();
        let stage = stage.linkerd("iptables-mode", now);
        stage.call("CHECK").succeed();
        stage.add().succeed();
        stage.call("CHECK").succeed();
    }
}
