//! ADD twice is ADD once, and what others put in the namespace is theirs.

use linkerd_cni_integration::netns::Netns;
use linkerd_cni_integration::rules::{self, Family, Tables};
use linkerd_cni_integration::stage::Stage;
use serde_json::json;

use super::golden::plain;

/// Rules of somebody with an eye for confusing names.
const FOREIGN: &str = "*nat\n\
    -N KUBE-SERVICES\n\
    -N PROXY_INIT_REDIRECT_OLD\n\
    -A PREROUTING -m comment --comment \"not proxy-init/anything\" -j KUBE-SERVICES\n\
    -A PREROUTING -p tcp -m tcp --dport 9 -j REDIRECT --to-ports 4143\n\
    -A OUTPUT -j KUBE-SERVICES\n\
    -A OUTPUT -p udp -j PROXY_INIT_REDIRECT_OLD\n\
    -A KUBE-SERVICES -m comment --comment proxy-init/redirect-all -j RETURN\n\
    -A PROXY_INIT_REDIRECT_OLD -p tcp -m multiport --dports 1,2:3 -j ACCEPT\n\
    COMMIT\n\
    *filter\n\
    -A INPUT -p tcp -m tcp --dport 4143 -m comment --comment \"a \\\"quoted\\\" one\" -j ACCEPT\n\
    COMMIT\n";

/// Remains of an earlier, different or disturbed ADD.
const REMAINS: [&str; 6] = [
    "-N PROXY_INIT_REDIRECT\n",
    "-N PROXY_INIT_OUTPUT\n-A PROXY_INIT_OUTPUT -o lo -j RETURN\n",
    "-N PROXY_INIT_REDIRECT\n-A PREROUTING -j PROXY_INIT_REDIRECT\n",
    "-N PROXY_INIT_REDIRECT\n-N PROXY_INIT_OUTPUT\n\
     -A PREROUTING -m comment --comment proxy-init/install-proxy-init-prerouting -j PROXY_INIT_REDIRECT\n\
     -A PREROUTING -m comment --comment proxy-init/install-proxy-init-prerouting -j PROXY_INIT_REDIRECT\n",
    "-N PROXY_INIT_REDIRECT\n-N PROXY_INIT_OUTPUT\n\
     -A OUTPUT -j PROXY_INIT_REDIRECT\n-A PREROUTING -j PROXY_INIT_OUTPUT\n\
     -A PROXY_INIT_REDIRECT -j PROXY_INIT_OUTPUT\n",
    "-N PROXY_INIT_REDIRECT\n-N PROXY_INIT_OUTPUT\n\
     -A PROXY_INIT_REDIRECT -p tcp -j REDIRECT --to-ports 1\n\
     -A PROXY_INIT_OUTPUT -m comment --comment \"two words\" -j ACCEPT\n\
     -A POSTROUTING -j PROXY_INIT_OUTPUT\n",
];

fn modes() -> [(&'static str, Tables); 3] {
    [
        ("nft", Tables::Nft),
        ("legacy", Tables::Legacy),
        ("plain", plain()),
    ]
}

#[test]
fn add_twice_is_add_once() {
    for mode in ["nft", "legacy", "plain", "native"] {
        let stage = Stage::new("annotated").linkerd("iptables-mode", mode);
        let first = stage.add().succeed();
        let once = rules::everything(&stage.netns);
        for _ in 0..2 {
            let again = stage.add().succeed();
            assert_eq!(again.stdout, first.stdout);
            assert_eq!(once, rules::everything(&stage.netns), "{mode}");
        }
    }
}

#[test]
fn add_with_another_configuration_leaves_nothing_of_the_first() {
    for mode in ["nft", "legacy", "plain", "native"] {
        let fresh = Stage::new("annotated").linkerd("iptables-mode", mode);
        fresh.add().succeed();

        let stage = Stage::new("annotated").linkerd("iptables-mode", mode);
        let mut other = stage.config.clone();
        other["linkerd"]["incoming-proxy-port"] = json!(5143);
        other["linkerd"]["ports-to-redirect"] = json!([8080, 9090]);
        other["linkerd"]["inbound-ports-to-ignore"] = json!([]);
        stage.add().config(&other).succeed();
        stage.add().succeed();
        assert_eq!(
            rules::everything(&fresh.netns),
            rules::everything(&stage.netns),
            "{mode}"
        );
    }
}

#[test]
fn add_over_remains_is_add_on_a_fresh_namespace() {
    for (mode, tables) in modes() {
        let fresh = Stage::new("annotated").linkerd("iptables-mode", mode);
        fresh.add().succeed();
        let wanted = rules::everything(&fresh.netns);
        for remains in REMAINS {
            let stage = Stage::new("annotated").linkerd("iptables-mode", mode);
            for family in [Family::V4, Family::V6] {
                let payload = format!("*nat\n{remains}COMMIT\n");
                rules::restore(&stage.netns, tables, family, &payload);
            }
            stage.add().succeed();
            assert_eq!(
                wanted,
                rules::everything(&stage.netns),
                "{mode} over {remains}"
            );
        }
    }
}

#[test]
fn rules_of_others_survive_add_and_del() {
    let native = [("native", Tables::Nft), ("native", Tables::Legacy)];
    for (mode, tables) in modes().into_iter().chain(native) {
        let stage = Stage::new("annotated").linkerd("iptables-mode", mode);
        foreign(&stage.netns, tables);
        let before = rules::effective(&stage.netns);

        for _ in 0..2 {
            stage.add().succeed();
            let with_ours = rules::effective(&stage.netns);
            assert!(with_ours.len() > before.len());
            let others: Vec<_> = with_ours
                .iter()
                .filter(|line| before.contains(line))
                .cloned()
                .collect();
            assert_eq!(before, others, "{mode}: same rules, same order");
        }
        stage.del().succeed();
        assert_eq!(before, rules::effective(&stage.netns), "{mode}");
    }
}

#[test]
fn rules_that_others_add_around_ours_survive() {
    for (mode, tables) in modes() {
        let stage = Stage::new("annotated").linkerd("iptables-mode", mode);
        stage.add().succeed();
        foreign(&stage.netns, tables);
        let around = rules::everything(&stage.netns);
        stage.add().succeed();
        assert_eq!(around, rules::everything(&stage.netns), "{mode}");
        stage.del().succeed();

        let alone = Netns::new();
        foreign(&alone, tables);
        assert_eq!(
            rules::effective(&alone),
            rules::effective(&stage.netns),
            "{mode}"
        );
    }
}

fn foreign(netns: &Netns, tables: Tables) {
    for family in [Family::V4, Family::V6] {
        rules::restore(netns, tables, family, FOREIGN);
    }
}

#[test]
fn add_in_another_mode_leaves_nothing_of_the_first() {
    let modes = ["nft", "legacy", "plain", "native"];
    for then in modes {
        for now in modes.into_iter().filter(|now| *now != then) {
            for with_record in [true, false] {
                let fresh = Stage::new("annotated").linkerd("iptables-mode", now);
                fresh.add().succeed();
                let stage = Stage::new("annotated").linkerd("iptables-mode", then);
                stage.add().succeed();
                if !with_record {
                    std::fs::remove_file(stage.record("eth0")).expect("there is a record");
                }
                let stage = stage.linkerd("iptables-mode", now);
                let output = stage.add().succeed();
                assert!(!output.stderr.contains("WARN"), "{}", output.stderr);
                assert_eq!(
                    rules::effective(&fresh.netns),
                    rules::effective(&stage.netns),
                    "{then} {now} {with_record}"
                );
                stage.del().succeed();
                assert!(rules::effective(&stage.netns).is_empty(), "{then} {now}");
            }
        }
    }
}

#[test]
fn native_add_over_remains_of_itself_is_add_on_a_fresh_namespace() {
    let fresh = Stage::new("annotated").linkerd("iptables-mode", "native");
    fresh.add().succeed();
    let wanted = rules::everything(&fresh.netns);
    for remains in [
        "table inet linkerd-cni {\n}\n",
        "table ip linkerd-cni {\n}\ntable ip6 linkerd-cni {\n}\n",
        "table inet linkerd-cni {\nchain PROXY_INIT_OUTPUT {\ncounter\n}\nchain OTHER {\n}\n}\n",
        "table ip linkerd-cni {\nset s {\ntype inet_service\n}\nchain PREROUTING {\n\
         type nat hook prerouting priority -50\ntcp dport @s redirect to :1\n}\n}\n",
    ] {
        let stage = Stage::new("annotated").linkerd("iptables-mode", "native");
        let nft = stage.netns.run_with_input("nft", &["-f", "-"], remains);
        nft.unwrap_or_else(|error| panic!("{error:#}"));
        stage.add().succeed();
        assert_eq!(wanted, rules::everything(&stage.netns), "over {remains}");
    }
}
