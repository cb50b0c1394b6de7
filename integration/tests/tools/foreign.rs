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

/// After a native ADD, and after `nft` has read this.
fn after_nft(text: &str) -> Stage {
    let stage = Stage::new("meshed")
        .linkerd("iptables-mode", "native")
        .top("cniVersion", "1.0.0");
    stage.add().succeed();
    let fed = stage.netns.run_with_input("nft", &["-f", "-"], text);
    fed.unwrap_or_else(|error| panic!("{error:#}"));
    stage
}

#[test]
fn tables_of_others_that_take_nothing_away_from_native_are_no_difference() {
    for text in [
        "table ip nat {\nchain PREROUTING {\ntype nat hook prerouting priority -100\n\
         udp dport 53 redirect to :5353\n}\n}\n",
        "table inet early {\nchain o {\ntype nat hook output priority -150\n\
         oifname lo meta l4proto tcp redirect to :1\naccept\n}\n}\n",
        "table inet late {\nchain o {\ntype nat hook output priority -90\nmeta l4proto tcp redirect to :1\n}\n}\n",
        "table inet other {\nchain f {\ntype filter hook output priority -300\naccept\n}\n}\n",
        "table inet asleep {\nflags dormant\nchain o {\ntype nat hook output priority -150\n\
         meta l4proto tcp redirect to :1\n}\n}\n",
        "add rule inet linkerd-cni PREROUTING meta l4proto tcp accept\n",
        "insert rule inet linkerd-cni OUTPUT oifname lo accept\n",
        "insert rule inet linkerd-cni OUTPUT meta l4proto udp counter log accept\n",
    ] {
        let stage = after_nft(text);
        let output = stage.call("CHECK").run();
        assert_eq!(output.exit, Some(0), "{text}: {output:#?}");
    }
}

#[test]
fn tables_of_others_that_come_before_native_are_named() {
    for (text, lines) in [
        (
            "table inet early {\nchain o {\ntype nat hook output priority -150\n\
             meta skuid 1000 tcp dport { 80, 443 } dnat ip to 192.0.2.1:8080\n}\n}\n",
            vec![
                "IPv4 OUTPUT: chain o of table inet early (priority -150) comes before ours and \
                 takes connections away: -p tcp -m owner --uid-owner 1000 -m multiport --dports \
                 80,443 -j DNAT --to-destination 192.0.2.1:8080",
            ],
        ),
        // The one that was made last comes first.
        (
            "table ip same {\nchain p {\ntype nat hook prerouting priority -100\n\
             goto q\n}\nchain q {\nct state new tcp dport 80 redirect to :1\n}\n}\n",
            vec![
                "IPv4 PREROUTING: chain p of table ip same (priority -100) comes before ours and \
                 takes connections away: -g q",
            ],
        ),
        (
            "table ip6 drops {\nchain p {\ntype nat hook prerouting priority -101\n\
             ip6 saddr fd00::/8 drop\n}\n}\n",
            vec![
                "IPv6 PREROUTING: chain p of table ip6 drops (priority -101) comes before ours \
                 and takes connections away: -s fd00::/8 -j DROP",
            ],
        ),
    ] {
        let output = after_nft(text).call("CHECK").fail(101);
        let found: Vec<&str> = match output.details() {
            "" => vec![
                output
                    .msg()
                    .trim_start_matches("pod emojivoto/web-meshed: "),
            ],
            details => details.lines().collect(),
        };
        assert_eq!(found, lines, "{text}");
    }
}

#[test]
fn rules_of_others_in_the_table_of_native_are_described() {
    for (rule, words) in [
        (
            "ct state new counter log accept",
            "-m nft --expression ct/state -j ACCEPT",
        ),
        (
            "fib daddr type local tcp dport 1-9 drop",
            "--dport 1:9 -m nft --expression fib -j DROP",
        ),
        (
            "meta mark 0x1 return",
            "-m nft --expression meta/mark -j RETURN",
        ),
        (
            "ip daddr != 10.1.2.0/24 tcp sport 53 return",
            "! -d 10.1.2.0/24 -p tcp",
        ),
        (
            "iifname \"eth*\" th dport >= 1024 accept",
            "-i eth+ -m tcp --dport 1024: -j ACCEPT",
        ),
    ] {
        let add = format!("insert rule inet linkerd-cni PROXY_INIT_REDIRECT {rule}\n");
        let output = after_nft(&add).call("CHECK").fail(101);
        output.says(&["IPv4 PROXY_INIT_REDIRECT: rule 1 was added: ", words]);
    }
}
