//! Rules of others are tolerated, unless they take our traffic away.

use linkerd_cni_integration::rules::{self, Family, Tables};
use linkerd_cni_integration::stage::Stage;

fn after(mode: &str, tables: Tables, payload: &str) -> Stage {
    let stage = Stage::new("meshed").linkerd("iptables-mode", mode);
    stage.add().succeed();
    for family in [Family::V4, Family::V6] {
        let payload = format!("*nat\n:THEIRS - [0:0]\n{payload}\nCOMMIT\n");
        rules::restore(&stage.netns, tables, family, &payload);
    }
    stage
}

#[test]
fn rules_that_take_nothing_away_are_no_difference() {
    for (mode, tables) in [("nft", Tables::Nft), ("legacy", Tables::Legacy)] {
        for payload in [
            "-I PREROUTING 1 -p udp -j THEIRS\n-A THEIRS -p udp -j REDIRECT --to-ports 53",
            "-I OUTPUT 1 -o lo -j ACCEPT",
            "-I PREROUTING 1 -p tcp -j THEIRS\n-A THEIRS -p tcp -j RETURN",
            "-A PREROUTING -p tcp -j ACCEPT\n-A OUTPUT -j RETURN",
            "-A POSTROUTING -j MASQUERADE",
            "-A INPUT -p tcp -j ACCEPT",
        ] {
            after(mode, tables, payload).call("CHECK").succeed();
        }
    }
}

#[test]
fn rules_that_take_connections_away_are_named_in_both_families() {
    for (mode, tables) in [("nft", Tables::Nft), ("legacy", Tables::Legacy)] {
        let payload = "-I OUTPUT 1 -p tcp -m tcp --dport 443 -j THEIRS\n-A THEIRS -j ACCEPT";
        let output = after(mode, tables, payload).call("CHECK").fail(101);
        let line = |family| {
            format!(
                "{family} OUTPUT: rule 1 of somebody else stands before ours and takes \
                 connections away: -p tcp -m tcp --dport 443 -j THEIRS"
            )
        };
        let lines = [line("IPv4"), line("IPv6")].join("\n");
        assert_eq!(output.details(), lines, "{mode}");
    }
}
