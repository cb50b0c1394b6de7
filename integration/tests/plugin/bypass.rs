//! What an operator wants left alone, with every backend: judged by where real connections land, and
//! by what `iptables-save` and `nft` print.
//!
//! The fixture's namespace skips outbound 25 and 587.

use std::fs;
use std::net::SocketAddr;

use linkerd_cni_integration::rules::{self, Family};
use linkerd_cni_integration::stage::Stage;
use linkerd_cni_integration::tool::Tool;
use linkerd_cni_integration::traffic::{As, Network};
use linkerd_cni_integration::{backends, fixtures};
use serde_json::json;

use crate::traffic::{Mesh, assert_redirected, assert_untouched, peer, pod};

const INBOUND: u16 = 4143;
const OUTBOUND: u16 = 4140;
const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

#[test]
fn connections_over_an_interface_to_ignore_are_left_alone_both_ways() {
    for backend in backends::all() {
        for name in ["net1", "net+"] {
            let mesh = over_net1(backend.mode, name);
            for family in FAMILIES {
                let _listening = mesh.listen(family);
                for port in [80, 8081] {
                    assert_untouched(mesh.network.inbound_by_second(family, port), port);
                }
                let to = SocketAddr::new(Network::peer_second(family), 80);
                assert_untouched(mesh.network.outbound(As::APP, to), 80);
                assert_redirects_eth0(&mesh, family);
            }
            mesh.stage.call("CHECK").succeed();
        }
    }
}

#[test]
fn connections_over_an_interface_of_another_name_are_redirected() {
    for backend in backends::all() {
        for name in ["net", "net11", "tun+"] {
            let mesh = over_net1(backend.mode, name);
            for family in FAMILIES {
                let _listening = mesh.listen(family);
                let to = SocketAddr::new(Network::pod_second(family), 80);
                assert_redirected(mesh.network.inbound_by_second(family, 80), INBOUND, to);
                let to = SocketAddr::new(Network::peer_second(family), 80);
                assert_redirected(mesh.network.outbound(As::APP, to), OUTBOUND, to);
                assert_redirects_eth0(&mesh, family);
            }
        }
    }
}

#[test]
fn connections_to_a_subnet_to_ignore_are_left_alone_each_in_its_family() {
    for backend in backends::all() {
        for only in FAMILIES {
            let subnet = match only {
                Family::V4 => "192.168.77.0/24",
                Family::V6 => "fd77::/64",
            };
            let mesh = mesh(backend.mode, |stage| {
                stage.linkerd("outbound-subnets-to-ignore", json!([subnet]))
            });
            for family in FAMILIES {
                let _listening = mesh.listen(family);
                let to = SocketAddr::new(Network::peer_elsewhere(family), 80);
                let landed = mesh.network.outbound(As::APP, to);
                if family == only {
                    assert_untouched(landed, 80);
                } else {
                    assert_redirected(landed, OUTBOUND, to);
                }
                // It is about where connections go, not where they come from.
                let landed = mesh.network.inbound_from_elsewhere(family, 80);
                assert_redirected(landed, INBOUND, pod(family, 80));
                assert_redirects_eth0(&mesh, family);
                let rules = backend.rules(&mesh.network.pod, only, "PROXY_INIT_OUTPUT");
                assert_eq!(
                    rules.matches(subnet).count(),
                    2,
                    "the rule and its comment: {rules}"
                );
            }
            mesh.stage.call("CHECK").succeed();
        }
    }
}

#[test]
fn only_the_outbound_ports_to_redirect_are_redirected() {
    // More than one group of ports to iptables.
    let mut ports: Vec<u16> = (9000..9040).collect();
    ports.extend([80, 25]);
    for backend in backends::all() {
        let mesh = mesh(backend.mode, |stage| {
            stage.linkerd("outbound-ports-to-redirect", json!(ports))
        });
        for family in FAMILIES {
            let _listening = mesh.listen(family);
            for port in [80, 9000, 9039] {
                let to = peer(family, port);
                assert_redirected(mesh.network.outbound(As::APP, to), OUTBOUND, to);
            }
            // 25 is on both lists, and what is left alone is not redirected.
            for port in [25, 587, 3306] {
                assert_untouched(mesh.network.outbound(As::APP, peer(family, port)), port);
            }
            let to = pod(family, 8081);
            assert_redirected(mesh.network.inbound(family, 8081), INBOUND, to);
        }
        mesh.stage.call("CHECK").succeed();
    }
}

#[test]
fn rules_of_every_kind_stand_in_their_order_and_check_knows_them_without_a_record() {
    for backend in backends::all() {
        let mesh = mesh(backend.mode, |stage| {
            stage
                .linkerd("subnets-to-ignore", json!(["10.1.0.0/16"]))
                .linkerd("interfaces-to-ignore", json!(["net1", "lo", "tun+"]))
                .linkerd("outbound-subnets-to-ignore", json!(["10.2.0.0/16"]))
                .linkerd("outbound-ports-to-redirect", json!([80, 443]))
        });
        fs::remove_file(mesh.stage.record("eth0")).expect("there is a record");
        mesh.stage.call("CHECK").succeed();
        for (chain, expected) in [
            (
                "PROXY_INIT_REDIRECT",
                &[
                    "interface-net1",
                    "interface-tun+",
                    "port-",
                    "subnet-10.1.0.0/16",
                ][..],
            ),
            (
                "PROXY_INIT_OUTPUT",
                &[
                    "proxy-user-id",
                    "proxy-group-id",
                    "loopback",
                    "interface-net1",
                    "interface-tun+",
                    "port-25,587",
                    "subnet-10.2.0.0/16",
                ],
            ),
        ] {
            let rules = backend.rules(&mesh.network.pod, Family::V4, chain);
            let lines: Vec<&str> = rules
                .lines()
                .filter(|l| l.contains("proxy-init/"))
                .collect();
            let (last, ignored) = lines.split_last().expect("there are rules");
            assert!(last.contains("proxy-init/redirect-"), "{rules}");
            assert_eq!(ignored.len(), expected.len(), "{rules}");
            for (line, what) in ignored.iter().zip(expected) {
                assert!(
                    line.contains(&format!("proxy-init/ignore-{what}")),
                    "{what}: {rules}"
                );
            }
        }
    }
}

#[test]
fn annotations_of_pod_and_namespace_replace_what_is_configured() {
    let stage = Stage::new("meshed")
        .linkerd("interfaces-to-ignore", json!(["conf0"]))
        .linkerd("outbound-subnets-to-ignore", json!(["203.0.113.0/24"]))
        .annotate("config.linkerd.io/skip-interfaces", "pod0, pod+");
    stage.api.put(json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "emojivoto", "annotations": {
            "config.linkerd.io/skip-interfaces": "space0",
            "config.linkerd.io/skip-outbound-subnets": "198.51.100.0/24,2001:db8::/32",
        }},
    }));
    stage.add().succeed();
    let rules = rules::effective(&stage.netns).join("\n");
    for wanted in [
        "PROXY_INIT_REDIRECT -i pod0 ",
        "PROXY_INIT_REDIRECT -i pod+ ",
        "PROXY_INIT_OUTPUT -o pod0 ",
        "PROXY_INIT_OUTPUT -o pod+ ",
        "PROXY_INIT_OUTPUT -d 198.51.100.0/24 ",
        "PROXY_INIT_OUTPUT -d 2001:db8::/32 ",
    ] {
        assert!(rules.contains(wanted), "lacks {wanted}: {rules}");
    }
    for replaced in ["conf0", "space0", "203.0.113.0"] {
        assert!(!rules.contains(replaced), "{replaced}: {rules}");
    }
}

#[test]
fn line_ends_around_an_annotations_value_do_not_count() {
    let stage = Stage::new("meshed")
        .annotate("config.linkerd.io/skip-interfaces", "\r\nnet1\r\n")
        .annotate("config.linkerd.io/skip-outbound-ports", "5000,5001\n");
    stage.add().succeed();
    let rules = rules::effective(&stage.netns).join("\n");
    assert!(
        rules.contains("-i net1 ") && rules.contains("--dports 5000,5001 "),
        "{rules}"
    );
}

#[test]
fn a_pod_whose_own_interface_is_left_alone_starts_with_a_warning_and_check_notes_it() {
    let words = [
        "interface eth0 of this attachment is left alone",
        "bypasses the proxy",
    ];
    let stage = Stage::new("meshed").annotate("config.linkerd.io/skip-interfaces", "eth+");
    stage
        .add()
        .succeed()
        .logs(&[&["WARN"], &words[..]].concat());
    let said = Tool::new(&["check", "--netns"])
        .arg(stage.netns.path())
        .exits(0);
    let told = said.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    for word in words {
        assert!(told.contains(word), "{said:#?}");
    }
    let stage = Stage::new("meshed").annotate("config.linkerd.io/skip-interfaces", "net1");
    let output = stage.add().succeed();
    assert!(!output.stderr.contains("bypasses"), "{}", output.stderr);
}

#[test]
fn simulated_rules_are_logged_and_not_set() {
    let stage = Stage::new("meshed")
        .linkerd("simulate", true)
        .top("log_level", "info")
        .linkerd("interfaces-to-ignore", json!(["net1"]))
        .linkerd("outbound-subnets-to-ignore", json!(["10.2.0.0/16"]));
    stage.add().succeed().logs(&["-o net1 ", "-d 10.2.0.0/16 "]);
    assert!(rules::effective(&stage.netns).is_empty());
}

/// A pod without subnets to ignore inbound.
fn mesh(mode: &str, configure: impl FnOnce(Stage) -> Stage) -> Mesh {
    Mesh::of(fixtures::pod("meshed"), |stage| {
        let stage = stage
            .linkerd("iptables-mode", mode)
            .linkerd("subnets-to-ignore", json!([]))
            .top("cniVersion", "1.0.0");
        configure(stage)
    })
}

/// A pod with `net1`, which is there only after ADD, as with Multus.
fn over_net1(mode: &str, ignored: &str) -> Mesh {
    let mesh = mesh(mode, |stage| {
        stage.linkerd("interfaces-to-ignore", json!([ignored]))
    });
    mesh.network.join_again("net1");
    mesh
}

#[track_caller]
fn assert_redirects_eth0(mesh: &Mesh, family: Family) {
    let to = pod(family, 8081);
    assert_redirected(mesh.network.inbound(family, 8081), INBOUND, to);
    let to = peer(family, 80);
    assert_redirected(mesh.network.outbound(As::APP, to), OUTBOUND, to);
}
