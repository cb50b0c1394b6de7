//! What only `native` can do, judged by `nft`, by the kernel's own count of
//! programs and by real connections.

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;

use linkerd_cni_integration::binaries;
use linkerd_cni_integration::fixtures;
use linkerd_cni_integration::netns::Netns;
use linkerd_cni_integration::plugin::Call;
use linkerd_cni_integration::rules::{self, Family};
use linkerd_cni_integration::stage::{RECORDS, Stage};
use linkerd_cni_integration::traffic::{As, Listener, Network};

fn stage(pod: &str) -> Stage {
    Stage::new(pod)
        .linkerd("iptables-mode", "native")
        .top("cniVersion", "1.0.0")
}

#[test]
fn nft_lists_the_rules_with_their_comments() {
    let stage = stage("annotated");
    stage.add().succeed();
    let listed = rules::native(&stage.netns);
    let expected = expect_test::expect_file!["../../fixtures/golden/chart-annotated.native.rules"];
    expected.assert_eq(&listed);
    // What nft printed, nft takes.
    let copy = Netns::new();
    let fed = copy.run_with_input("nft", &["-f", "-"], &listed);
    fed.unwrap_or_else(|error| panic!("{error:#}"));
    assert_eq!(rules::native(&copy), listed);
}

#[test]
fn no_verb_starts_a_program() {
    let stage = stage("annotated");
    for verb in ["ADD", "ADD", "CHECK", "DEL", "DEL", "ADD"] {
        let traced = stage.call(verb).trace(None);
        assert_eq!(traced.exit, Some(0), "{verb}: {traced:#?}");
        assert_eq!(traced.executed, Vec::<Vec<String>>::new(), "{verb}");
    }
    fs::remove_file(stage.record("eth0")).expect("there is a record");
    for verb in ["CHECK", "DEL"] {
        let traced = stage.call(verb).trace(None);
        assert_eq!(traced.exit, Some(0), "{verb}: {traced:#?}");
        let executed = traced.executed;
        // Without a record CHECK looks into the tables of programs too.
        assert!(verb == "CHECK" || executed.is_empty(), "{executed:#?}");
    }
    assert!(rules::effective(&stage.netns).is_empty());
}

#[test]
fn a_dual_stack_add_is_one_transaction_over_one_socket() {
    let stage = stage("annotated");
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let log = directory.path().join("strace");
    let path = log.to_string_lossy();
    let calls = "trace=socket,sendto";
    let strace = ["/usr/bin/strace", "-f", "-qq", "-o", &path, "-e", calls];
    stage.add().through(strace).succeed();
    let log = fs::read_to_string(&log).expect("strace writes it");
    let count = |word: &str| log.lines().filter(|line| line.contains(word)).count();
    assert_eq!(count("NETLINK_NETFILTER"), 1, "{log}");
    // A look at what is there, and the transaction.
    assert_eq!(count("nlmsg_len"), 2, "{log}");
}

/// A root with nothing in it but what the runtime hands over: the plugin, the
/// kubeconfig, the directory of records, the namespaces, `/proc`.
fn in_an_empty_root(stage: &Stage, call: Call) -> Call {
    let plugin = binaries::plugin();
    let kubeconfig = stage.kubeconfig.path();
    let script = format!(
        "d=$(mktemp -d)\nmount -t tmpfs none $d\n\
         for at in /proc /run/netns {RECORDS} {kubeconfig}; do\n\
         mkdir -p $at $d$at; mount --rbind $at $d$at\ndone\n\
         for file in {plugin} $(ldd {plugin} | grep -o '/[^ )]*'); do\n\
         mkdir -p $d${{file%/*}}; cp $file $d$file\ndone\n\
         set -- chroot $d \"$@\"",
        plugin = plugin.display(),
        kubeconfig = kubeconfig.parent().expect("it is in a directory").display(),
    );
    call.with_mounts(&script)
}

#[test]
fn in_an_empty_root_add_check_and_del_work_in_every_mode() {
    for mode in ["legacy", "nft", "plain", "auto", "native"] {
        let stage = stage("annotated").linkerd("iptables-mode", mode);
        let call = |verb| in_an_empty_root(&stage, stage.call(verb));
        call("ADD").succeed();
        let listed = rules::native(&stage.netns);
        assert!(
            listed.starts_with("table inet linkerd-cni {"),
            "{mode}: {listed}"
        );
        call("ADD").succeed();
        assert_eq!(rules::native(&stage.netns), listed, "{mode}");
        call("CHECK").succeed();
        let flush = ["flush", "chain", "inet", "linkerd-cni", "PROXY_INIT_OUTPUT"];
        let flushed = stage.netns.run("nft", &flush);
        flushed.unwrap_or_else(|error| panic!("{error:#}"));
        call("CHECK")
            .fail(101)
            .says(&["PROXY_INIT_OUTPUT: the chain is empty"]);
        call("DEL").succeed();
        assert!(rules::effective(&stage.netns).is_empty(), "{mode}");
        call("CHECK")
            .fail(101)
            .says(&["meshed but has no redirect rules"]);
    }
}

#[test]
fn five_hundred_ignored_ports_are_one_rule() {
    let ports: Vec<String> = (0..500).map(|n| (20_000 + 2 * n).to_string()).collect();
    let network = Network::new();
    let stage = Stage::in_namespace(fixtures::pod("meshed"), &network.pod)
        .linkerd("iptables-mode", "native")
        .top("cniVersion", "1.0.0")
        .annotate("config.linkerd.io/skip-inbound-ports", &ports.join(","));
    stage.add().succeed();
    stage.call("CHECK").succeed();
    let listed = rules::native(&network.pod);
    let lists = listed.matches("tcp dport {").count();
    assert_eq!(lists, 2, "{listed}");
    assert!(listed.contains(" 20998 } return"), "{listed}");
    for family in [Family::V4, Family::V6] {
        let _listening = Listener::all(&network.pod, family, &[4143, 20_000, 20_001, 20_998]);
        for (port, lands) in [(20_000, 20_000), (20_001, 4143), (20_998, 20_998)] {
            let landed = network.inbound(family, port);
            assert_eq!(landed.map(|landed| landed.port).ok(), Some(lands), "{port}");
        }
    }
}

#[test]
fn as_many_ports_as_there_can_be_are_set_and_checked() {
    let ports: Vec<String> = (0..16_000).map(|n| (1 + 4 * n).to_string()).collect();
    let stage = stage("meshed").annotate("config.linkerd.io/skip-inbound-ports", &ports.join(","));
    stage.add().succeed();
    stage.call("CHECK").succeed();
    let listed = rules::native(&stage.netns);
    assert!(listed.contains(" 63997 } return"), "the last is there");
}

#[test]
fn ports_that_overlap_or_touch_are_joined() {
    let stage = stage("meshed").annotate(
        "config.linkerd.io/skip-outbound-ports",
        "80,80,443,81-90,85-100,8000-8010,8005,65535,0-5",
    );
    stage.add().succeed();
    stage.call("CHECK").succeed();
    let listed = rules::native(&stage.netns);
    let joined = "tcp dport { 0-5, 80-100, 443, 8000-8010, 65535 } return";
    assert!(listed.contains(joined), "{listed}");
}

#[test]
fn in_a_namespace_of_another_user_the_proxy_passes_and_others_are_redirected() {
    for mode in ["legacy", "native"] {
        let pod = Arc::new(Netns::of_another_user());
        let network = Network::around(Arc::clone(&pod));
        let stage = Stage::in_namespace(fixtures::pod("user-namespace"), &pod)
            .linkerd("iptables-mode", mode);
        stage.add().succeed();
        for family in [Family::V4, Family::V6] {
            let _pod = Listener::all(&network.pod, family, &[4140, 4143, 8080]);
            let _peer = Listener::all(&network.peer, family, &[80]);
            let to = SocketAddr::new(Network::peer_ip(family), 80);
            let port = |who| network.outbound(who, to).map(|landed| landed.port).ok();
            // The first id of the user namespace is 165536 outside of it.
            let inside = |uid: u32| As {
                uid: 165_536 + uid,
                gid: 165_536 + 1000,
            };
            assert_eq!(port(inside(2102)), Some(80), "the proxy, {mode} {family}");
            assert_eq!(
                port(inside(1000)),
                Some(4140),
                "the application, {mode} {family}"
            );
            let inbound = network.inbound(family, 8080).map(|landed| landed.port);
            assert_eq!(inbound.ok(), Some(4143), "{mode} {family}");
        }
    }
}
