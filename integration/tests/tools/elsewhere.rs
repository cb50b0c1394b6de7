//! Rules that are not where the record says.

use linkerd_cni_integration::rules::{self, Family, Tables};
use linkerd_cni_integration::stage::Stage;

/// After ADD, the rules taken out and set again with the other programs.
fn moved(mode: &str, from: Tables, to: Tables) -> Stage {
    let stage = Stage::new("meshed").linkerd("iptables-mode", mode);
    stage.add().succeed();
    for family in [Family::V4, Family::V6] {
        let saved = rules::save(&stage.netns, from, family);
        rules::restore(&stage.netns, from, family, "*nat\n-F\n-X\nCOMMIT\n");
        rules::restore(&stage.netns, to, family, &saved);
    }
    stage
}

#[test]
fn rules_of_the_other_backend_are_named_as_such() {
    for (mode, from, to, other) in [
        ("nft", Tables::Nft, Tables::Legacy, "legacy"),
        ("legacy", Tables::Legacy, Tables::Nft, "nft"),
    ] {
        let output = moved(mode, from, to).call("CHECK").fail(101);
        let line = |family| {
            format!("{family}: the rules are set with {other}, not with {mode} as recorded")
        };
        let lines = [line("IPv4"), line("IPv6")].join("\n");
        assert_eq!(output.details(), lines, "{mode}");
    }
}

#[test]
fn what_plain_means_may_change() {
    // Debian's plain programs are nft's.
    let stage = moved("plain", Tables::Nft, Tables::Legacy);
    stage.call("CHECK").succeed();
    let flush = "*nat\n-D PROXY_INIT_OUTPUT 1\nCOMMIT\n";
    rules::restore(&stage.netns, Tables::Legacy, Family::V6, flush);
    let output = stage.call("CHECK").fail(101);
    output.says(&["IPv6 PROXY_INIT_OUTPUT: rule 1 is missing"]);
    assert_eq!(output.details(), "");
}

#[test]
fn a_table_that_was_deleted_as_a_whole_is_no_rules_at_all() {
    for (nft, family) in [("ip", "IPv4"), ("ip6", "IPv6")] {
        let stage = Stage::new("meshed");
        stage.add().succeed();
        let deleted = stage.netns.run("nft", &["delete", "table", nft, "nat"]);
        deleted.unwrap_or_else(|error| panic!("{error:#}"));
        let output = stage.call("CHECK").fail(101);
        let words = format!("{family}: no redirect rules at all, traffic is in the clear");
        assert!(output.msg().ends_with(&words), "{output:#?}");
        assert_eq!(output.details(), "");
    }
}

#[test]
fn native_rules_that_were_set_again_with_programs_are_named_as_such() {
    for (program, tables) in [("nft", Tables::Nft), ("legacy", Tables::Legacy)] {
        let other = Stage::new("meshed").linkerd("iptables-mode", program);
        other.add().succeed();
        let stage = Stage::new("meshed").linkerd("iptables-mode", "native");
        stage.add().succeed();
        let deleted = stage
            .netns
            .run("nft", &["delete", "table", "inet", "linkerd-cni"]);
        deleted.unwrap_or_else(|error| panic!("{error:#}"));
        for family in [Family::V4, Family::V6] {
            let saved = rules::save(&other.netns, tables, family);
            rules::restore(&stage.netns, tables, family, &saved);
        }
        let output = stage.call("CHECK").fail(101);
        for family in ["IPv4", "IPv6"] {
            let line =
                format!("{family}: the rules are set with {program}, not with native as recorded");
            output.says(&[&line]);
        }
    }
}

#[test]
fn rules_of_another_backend_beside_native_are_named() {
    let other = Stage::new("meshed");
    other.add().succeed();
    let stage = Stage::new("meshed").linkerd("iptables-mode", "native");
    stage.add().succeed();
    let saved = rules::save(&other.netns, Tables::Nft, Family::V4);
    rules::restore(&stage.netns, Tables::Nft, Family::V4, &saved);
    let output = stage.call("CHECK").fail(101);
    output.says(&[
        "IPv4 PREROUTING: chain PREROUTING of table ip nat (priority -100) comes before ours",
        "IPv4 OUTPUT: chain OUTPUT of table ip nat (priority -100) comes before ours",
    ]);
    stage.add().succeed();
    stage.call("CHECK").succeed();
}
