//! An API server that is away.

use linkerd_cni_integration::api_server::Fault;
use linkerd_cni_integration::fixtures;

use crate::machine::{EXCLUDED, Machine};
use crate::pod::Pod;

/// While the API server is `away`: nothing of the pod is left behind, the reason
/// is in the runtime's error, others start and end; it starts once it is `back`.
fn waits(away: impl Fn(&Machine), back: impl Fn(&Machine), said: &[&str]) {
    let machine = Machine::chained();
    let meshed = Pod::of(&machine, fixtures::pod("meshed")).host_port(18080);
    away(&machine);
    let refused = meshed.start(&machine).err().unwrap();
    let ours = r#"plugin type="linkerd-cni" name="linkerd-cni" failed (add)"#;
    for word in [ours, "GET https://127.0.0.1:"].iter().chain(said) {
        assert!(refused.contains(word), "lacks {word:?}: {refused}");
    }
    assert_eq!(machine.left(), [""; 0], "{refused}");
    for pod in [
        Pod::named("linkerd-cni", "linkerd-cni-x7k2p"),
        Pod::named(EXCLUDED, "kube-proxy-abcde"),
    ] {
        pod.start(&machine).unwrap().end(&machine).unwrap();
    }

    back(&machine);
    let serving = meshed.start(&machine).unwrap().serve();
    assert_eq!(serving.redirected(&machine), (true, true));

    // A pod that runs is taken away without it.
    away(&machine);
    serving.sandbox.end(&machine).unwrap();
    assert_eq!(machine.left(), [""; 0]);
}

/// Has the node's kernel refuse connections to the API server, or not any more.
fn refuse(machine: &Machine, change: &str) {
    let port = machine.api.address().port();
    let rule = format!("OUTPUT -p tcp --dport {port} -j REJECT --reject-with tcp-reset");
    let words: Vec<&str> = [change].into_iter().chain(rule.split(' ')).collect();
    machine.netns().run("iptables-nft", &words).unwrap();
}

#[test]
fn a_pod_waits_for_one_to_which_nobody_can_connect() {
    waits(
        |machine| refuse(machine, "-I"),
        |machine| refuse(machine, "-D"),
        &["connection refused", "can this node reach the API server"],
    );
}

#[test]
fn a_pod_waits_for_one_that_has_a_fault() {
    waits(
        |machine| machine.api.misbehave(Fault::Status(500)),
        |machine| machine.api.behave(),
        &["500"],
    );
}

#[test]
fn a_pod_waits_for_one_that_says_nothing() {
    waits(
        |machine| machine.api.misbehave(Fault::HangAfterRequest),
        |machine| machine.api.behave(),
        &["no answer within"],
    );
}

#[test]
fn a_pod_waits_for_one_that_forbids_us_to_ask() {
    waits(
        |machine| machine.api.misbehave(Fault::Status(403)),
        |machine| machine.api.behave(),
        &["403", "RBAC"],
    );
}
