//! More ports, more rules than usual.

use std::collections::HashSet;
use std::net::SocketAddr;

use linkerd_cni_integration::backends::{self, Backend};
use linkerd_cni_integration::fixtures;
use linkerd_cni_integration::netns::Netns;
use linkerd_cni_integration::rules::{self, Family};
use linkerd_cni_integration::stage::Stage;
use linkerd_cni_integration::traffic::{As, Listener, Network};

const INBOUND: &str = "config.linkerd.io/skip-inbound-ports";
const OUTBOUND: &str = "config.linkerd.io/skip-outbound-ports";

/// No two of them are neighbours, so that each stands alone.
fn ports() -> Vec<u16> {
    (0..500).map(|n| 10_000 + 2 * n).collect()
}

#[test]
fn five_hundred_ignored_ports_are_each_left_alone_and_no_other() {
    let ports = ports();
    let text: Vec<_> = ports.iter().map(ToString::to_string).collect();
    for backend in backends::all() {
        let network = Network::new();
        let stage = Stage::in_namespace(fixtures::pod("meshed"), &network.pod)
            .linkerd("iptables-mode", backend.mode)
            .annotate(INBOUND, &text.join(","))
            .annotate(OUTBOUND, &text.join(","));
        stage.add().succeed();
        stage.call("CHECK").succeed();
        each_is_in_the_kernel(&network.pod, backend, &ports);
        lands(&network, &ports);
        stage.del().succeed();
        assert!(rules::effective(&network.pod).is_empty());
    }
}

#[test]
fn a_thousand_rules_that_are_there_already_stay_and_ours_work_beside_them() {
    let mut theirs = String::from("*nat\n-N THEIRS\n-A PREROUTING -p udp -j THEIRS\n");
    for n in 0..998 {
        theirs += &format!("-A THEIRS -p udp -m udp --dport {} -j RETURN\n", n + 1);
    }
    theirs += "COMMIT\n";
    for backend in backends::all() {
        let network = Network::new();
        for family in [Family::V4, Family::V6] {
            rules::restore(&network.pod, backend.tables, family, &theirs);
        }
        let before = rules::effective(&network.pod);
        assert!(before.len() >= 2000, "{}", before.len());
        let stage = Stage::in_namespace(fixtures::pod("meshed"), &network.pod)
            .linkerd("iptables-mode", backend.mode);
        for _ in 0..2 {
            stage.add().succeed();
            stage.call("CHECK").succeed();
            let mut others = rules::effective(&network.pod);
            others.retain(|line| before.contains(line));
            assert_eq!(before, others, "{}", backend.mode);
        }
        lands(&network, &[]);
        stage.del().succeed();
        assert_eq!(before, rules::effective(&network.pod), "{}", backend.mode);
    }
}

/// Connections to the first and last of `ignored` reach the application, to any
/// other port the proxy.
fn lands(network: &Network, ignored: &[u16]) {
    const NEIGHBOUR: u16 = 10_999;
    let wanted = [ignored.first(), ignored.last()];
    let ends: Vec<u16> = wanted.into_iter().flatten().copied().collect();
    let mut listening = vec![4140, 4143, NEIGHBOUR];
    listening.extend(&ends);
    for family in [Family::V4, Family::V6] {
        let _pod = Listener::all(&network.pod, family, &listening);
        let _peer = Listener::all(&network.peer, family, &listening);
        let outbound = |port| {
            let to = SocketAddr::new(Network::peer_ip(family), port);
            network.outbound(As::APP, to).expect("it connects").port
        };
        let inbound = |port| network.inbound(family, port).expect("it connects").port;
        assert_eq!((inbound(NEIGHBOUR), outbound(NEIGHBOUR)), (4143, 4140));
        for port in &ends {
            assert_eq!((inbound(*port), outbound(*port)), (*port, *port));
        }
    }
}

fn each_is_in_the_kernel(netns: &Netns, backend: Backend, ports: &[u16]) {
    for family in [Family::V4, Family::V6] {
        for chain in ["PROXY_INIT_REDIRECT", "PROXY_INIT_OUTPUT"] {
            let rules = backend.rules(netns, family, chain);
            let words = rules.split(|of: char| of.is_whitespace() || of == ',');
            let found: HashSet<&str> = words.collect();
            for port in ports {
                let port = port.to_string();
                assert!(found.contains(port.as_str()), "{chain} {port}");
            }
        }
    }
}
