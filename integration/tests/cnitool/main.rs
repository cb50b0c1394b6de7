//! The real libcni drives the chain: `bridge`, `host-local`, linkerd-cni.

use std::net::SocketAddr;
use std::path::PathBuf;

use linkerd_cni_integration::chain::reference_plugins;
use linkerd_cni_integration::cnitool::{Cnitool, tools};
use linkerd_cni_integration::netns::Netns;
use linkerd_cni_integration::process;
use linkerd_cni_integration::rules::{self, Family, Tables};
use linkerd_cni_integration::traffic::{As, Listener, connect, connect_as};
use serde_json::json;

const INBOUND: u16 = 4143;
const OUTBOUND: u16 = 4140;
const WEB: u16 = 8080;
const PROXY: u32 = 2102;

/// Debian 12's plugins know nothing of 1.1.0.
fn lists() -> Vec<(&'static str, PathBuf)> {
    let old = ["0.3.1", "0.4.0", "1.0.0"].map(|v| (v, reference_plugins().to_owned()));
    let new = ["0.3.1", "0.4.0", "1.0.0", "1.1.0"].map(|version| (version, tools()));
    old.into_iter().chain(new).collect()
}

#[test]
fn add_redirects_and_del_leaves_nothing_with_every_version() {
    for (version, plugins) in lists() {
        let (tool, pod) = (Cnitool::new(version, &plugins), Netns::new());
        let (result, address, gateway) = tool.add(&pod);
        assert_eq!(result["cniVersion"], version, "{plugins:?}");
        assert_eq!((tool.records().len(), tool.leases().len()), (1, 1));
        for family in [Family::V4, Family::V6] {
            assert!(
                rules::save(&pod, Tables::Nft, family).contains("4143"),
                "{version}"
            );
        }
        lands(
            &tool.node,
            &pod,
            SocketAddr::new(address, WEB),
            SocketAddr::new(gateway, WEB),
        );

        for _ in 0..2 {
            tool.succeed("del", &pod);
            assert!(rules::effective(&pod).is_empty(), "{version}");
            assert_eq!((tool.records().len(), tool.leases().len()), (0, 0));
        }
    }
}

/// What reaches the pod reaches the proxy, what leaves it too, and the proxy's
/// own reaches its goal.
fn lands(node: &Netns, pod: &Netns, inside: SocketAddr, outside: SocketAddr) {
    let _pod = Listener::all(pod, Family::V4, &[INBOUND, OUTBOUND, WEB]);
    let _node = Listener::new(node, Family::V4, WEB);
    let inbound = node.enter(|| connect(inside)).expect("the pod answers");
    assert_eq!((inbound.port, inbound.original), (INBOUND, Some(inside)));
    let outbound = connect_as(pod, As::APP, outside).expect("the proxy answers");
    assert_eq!(
        (outbound.port, outbound.original),
        (OUTBOUND, Some(outside))
    );
    let own = connect_as(pod, As::user(PROXY), outside).expect("the node answers");
    assert_eq!((own.port, own.original), (WEB, None));
}

#[test]
fn check_is_good_until_a_rule_is_gone_and_then_names_it() {
    for (version, plugins) in lists() {
        let (tool, pod) = (Cnitool::new(version, &plugins), Netns::new());
        tool.add(&pod);
        if version == "0.3.1" {
            // CHECK came with 0.4.0: libcni asks nobody.
            let said = tool.run("check", &pod);
            assert_eq!(said.exit, Some(1), "{said:#?}");
            said.complains(&["does not support the CHECK command"]);
            continue;
        }
        tool.succeed("check", &pod);
        rules::restore(&pod, Tables::Nft, Family::V4, "*nat\n-D OUTPUT 1\nCOMMIT\n");
        let said = tool.run("check", &pod);
        assert_eq!(said.exit, Some(1), "{said:#?}");
        said.complains(&["pod emojivoto/web-meshed: IPv4 OUTPUT: rule 1 is missing"]);
        tool.succeed("del", &pod);
    }
}

/// The installer leaves us there if others insist on the last place.
#[test]
fn a_plugin_behind_ours_gets_the_result_that_we_were_given() {
    let (tool, pod) = (Cnitool::new("1.0.0", reference_plugins()), Netns::new());
    // It fails without a result, and works on the interface that is in it.
    tool.append(json!({"type": "tuning", "mtu": 1400}));
    let (result, address, gateway) = tool.add(&pod);
    assert_eq!(
        result["interfaces"].as_array().map(Vec::len),
        Some(3),
        "{result}"
    );
    let link = pod.enter(|| process::run("ip", &["link", "show", "eth0"]).unwrap());
    assert!(link.contains("mtu 1400"), "{link}");
    lands(
        &tool.node,
        &pod,
        SocketAddr::new(address, WEB),
        SocketAddr::new(gateway, WEB),
    );
    tool.succeed("check", &pod);
    tool.succeed("del", &pod);
    assert!(rules::effective(&pod).is_empty());
    assert_eq!((tool.records().len(), tool.leases().len()), (0, 0));
}

#[test]
fn status_reaches_us_with_1_1_0_and_says_what_is_wrong() {
    for (version, plugins) in lists() {
        let (tool, pod) = (Cnitool::new(version, &plugins), Netns::new());
        tool.succeed("status", &pod);
        tool.kubeconfig.write_text("not a kubeconfig");
        if version != "1.1.0" {
            // STATUS came with 1.1.0: libcni asks nobody.
            tool.succeed("status", &pod);
            continue;
        }
        let said = tool.run("status", &pod);
        assert_eq!(said.exit, Some(1), "{said:#?}");
        said.complains(&["linkerd-cni", "kubeconfig", "cannot be used"]);
    }
}

#[test]
fn gc_takes_every_attachment_away_that_is_not_named_as_valid() {
    for (version, plugins) in lists() {
        let (tool, pods) = (
            Cnitool::new(version, &plugins),
            [Netns::new(), Netns::new()],
        );
        for pod in &pods {
            tool.add(pod);
        }
        assert_eq!((tool.records().len(), tool.leases().len()), (2, 2));
        // cnitool names none: libcni calls DEL for each that it remembers, and
        // from 1.1.0 on GC.
        tool.succeed("gc", &pods[0]);
        for pod in &pods {
            assert!(rules::effective(pod).is_empty(), "{version}");
        }
        assert_eq!(
            (tool.records().len(), tool.leases().len()),
            (0, 0),
            "{version}"
        );
    }
}

#[test]
fn an_add_that_fails_tells_libcni_why_and_del_after_it_succeeds() {
    for (version, plugins) in lists() {
        let (tool, pod) = (Cnitool::new(version, &plugins), Netns::new());
        tool.kubeconfig.write_text("");
        let said = tool.run("add", &pod);
        assert_eq!(said.exit, Some(1), "{said:#?}");
        said.complains(&[
            "plugin type=\"linkerd-cni\"",
            "failed (add)",
            "kubeconfig",
            "is empty",
        ]);
        assert!(rules::effective(&pod).is_empty(), "{version}");
        tool.succeed("del", &pod);
        assert_eq!((tool.records().len(), tool.leases().len()), (0, 0));
    }
}
