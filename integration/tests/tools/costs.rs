//! What CHECK, STATUS and the tools cost: counted, not timed.

use linkerd_cni_integration::stage::Stage;
use linkerd_cni_integration::tool::Tool;
use linkerd_cni_integration::trace::Traced;

fn programs(traced: &Traced) -> Vec<String> {
    assert_eq!(traced.exit, Some(0), "{traced:#?}");
    let names = traced.executed.iter().map(|words| {
        let name = words[0].rsplit('/').next();
        name.unwrap_or_default().to_owned()
    });
    names.collect()
}

#[test]
fn check_with_a_record_reads_each_family_once_and_asks_nobody() {
    for (mode, infix) in [("nft", "-nft"), ("legacy", "-legacy"), ("plain", "")] {
        let stage = Stage::new("meshed").linkerd("iptables-mode", mode);
        stage.add().succeed();
        stage.api.take_requests();
        let expected = [
            format!("iptables{infix}-save"),
            format!("ip6tables{infix}-save"),
        ];
        assert_eq!(
            programs(&stage.call("CHECK").trace(None)),
            expected,
            "{mode}"
        );
        assert!(stage.api.requests().is_empty());
    }
}

#[test]
fn check_of_native_rules_starts_nothing_and_asks_nobody() {
    let stage = Stage::new("meshed").linkerd("iptables-mode", "native");
    stage.add().succeed();
    stage.api.take_requests();
    assert!(programs(&stage.call("CHECK").trace(None)).is_empty());
    let check = Tool::new(&["check", "--netns"])
        .arg(stage.netns.path())
        .arg("--kubeconfig")
        .arg(stage.kubeconfig.path());
    assert!(programs(&check.trace()).is_empty());
    assert!(stage.api.requests().is_empty());
}

#[test]
fn check_of_a_pod_that_was_passed_on_starts_nothing_and_asks_nobody() {
    let stage = Stage::new("unmeshed");
    stage.add().succeed();
    stage.api.take_requests();
    assert!(programs(&stage.call("CHECK").trace(None)).is_empty());
    assert!(stage.api.requests().is_empty());
}

#[test]
fn status_starts_nothing_and_asks_nobody() {
    let stage = Stage::new("meshed");
    assert!(programs(&stage.call("STATUS").trace(None)).is_empty());
    assert_eq!(stage.api.connections(), 0);
}

#[test]
fn the_check_command_asks_nobody_about_a_recorded_pod() {
    let stage = Stage::new("meshed");
    stage.add().succeed();
    let connections = stage.api.connections();
    let check = Tool::new(&["check", "--netns"])
        .arg(stage.netns.path())
        .arg("--kubeconfig")
        .arg(stage.kubeconfig.path());
    let expected = ["iptables-nft-save", "ip6tables-nft-save"];
    assert_eq!(programs(&check.trace()), expected);
    assert_eq!(stage.api.connections(), connections);
}
