//! Annotations of pod and namespace: what they change, and what they can never do.

use linkerd_cni_integration::rules;
use linkerd_cni_integration::stage::Stage;
use serde_json::json;

const KEYS: [&str; 11] = [
    "config.linkerd.io/skip-inbound-ports",
    "config.linkerd.io/skip-outbound-ports",
    "config.linkerd.io/skip-subnets",
    "config.linkerd.io/proxy-uid",
    "config.linkerd.io/proxy-gid",
    "config.linkerd.io/skip-outbound-subnets",
    INTERFACES,
    "config.linkerd.io/inbound-port",
    "config.linkerd.io/outbound-port",
    "config.linkerd.io/admin-port",
    "config.linkerd.io/control-port",
];

const INTERFACES: &str = "config.linkerd.io/skip-interfaces";

/// None of these is a port, a range, a subnet or a number, and but for 0x50 no interface either.
const HOSTILE: [&str; 21] = [
    "80\n-A OUTPUT -j ACCEPT",
    "80 -j ACCEPT",
    "10.0.0.0/8 -j ACCEPT\nCOMMIT",
    "80,443\nCOMMIT\n*filter\n-P INPUT DROP",
    "\"80\"",
    "'80'",
    "80\"",
    "80\0",
    "\u{0}",
    "\u{668}\u{660}",
    "\u{ff18}\u{ff10}",
    "10.0.0.0/8\r\n:PREROUTING DROP",
    "$(reboot)",
    "`id`",
    "80;id",
    "--to-ports 1",
    "!80",
    "+80",
    "0x50",
    "8 0",
    "99999999999999999999999999",
];

#[test]
fn a_hostile_value_is_a_parse_error_and_reaches_no_rule() {
    for key in KEYS {
        for value in HOSTILE {
            if (key, value) == (INTERFACES, "0x50") {
                continue;
            }
            let stage = Stage::new("meshed").annotate(key, value);
            let before = rules::everything(&stage.netns);
            let output = stage.add().fail(102);
            output.says(&[key, "emojivoto", "web-meshed"]);
            assert_eq!(before, rules::everything(&stage.netns), "{key}: {value:?}");
        }
    }
}

#[test]
fn a_value_of_a_mebibyte_is_an_error_of_readable_length() {
    for key in KEYS {
        let stage = Stage::new("meshed").annotate(key, &"8".repeat(1 << 20));
        let output = stage.add().fail(102);
        assert!(output.stdout.len() < 4096, "{} bytes", output.stdout.len());
        assert!(output.stderr.len() < 16384, "{} bytes", output.stderr.len());
        assert!(rules::effective(&stage.netns).is_empty());
    }
}

#[test]
fn a_long_list_of_ports_becomes_as_many_groups_as_it_takes() {
    let ports: Vec<_> = (1..=200).map(|port| (port * 10).to_string()).collect();
    let stage =
        Stage::new("meshed").annotate("config.linkerd.io/skip-inbound-ports", &ports.join(","));
    stage.add().succeed();
    let rules = rules::effective(&stage.netns);
    // 200 and the chart's four, one of them a range: 205 slots, of 15 each.
    let groups = |rule: &&String| rule.contains("PROXY_INIT_REDIRECT -p tcp -m multiport");
    assert_eq!(rules.iter().filter(groups).count(), 2 * 14, "{rules:#?}");
}

#[test]
fn a_bad_item_is_named_with_its_annotation_and_object() {
    let stage = Stage::new("bad-annotation");
    let output = stage.add().fail(102);
    output.says(&[
        "config.linkerd.io/skip-inbound-ports",
        "80a",
        "emojivoto",
        "web-bad",
    ]);
    assert!(rules::effective(&stage.netns).is_empty());
}

#[test]
fn a_bad_item_on_the_namespace_is_named_as_the_namespaces() {
    let stage = Stage::new("meshed");
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {
            "name": "emojivoto",
            "annotations": {"config.linkerd.io/skip-outbound-ports": "25,smtp"},
        },
    });
    stage.api.put(namespace);
    let output = stage.add().fail(102);
    output.says(&["skip-outbound-ports", "smtp", "namespace", "emojivoto"]);
}

#[test]
fn inbound_ports_are_added_and_outbound_ports_and_subnets_are_replaced() {
    let stage = Stage::new("annotated");
    let stage = stage.linkerd("subnets-to-ignore", json!(["192.168.0.0/16"]));
    stage.add().succeed();
    let rules = rules::effective(&stage.netns).join("\n");
    assert!(
        rules.contains("--dports 4191,4190,222,5432:5433,8081,9000:9010 "),
        "{rules}"
    );
    assert!(rules.contains("PROXY_INIT_OUTPUT -p tcp -m multiport --dports 3306,5432:5433 "));
    assert!(
        rules.contains("-s 10.0.0.0/8 ") && rules.contains("-s fd00::/8 "),
        "{rules}"
    );
    assert!(!rules.contains("192.168"), "{rules}");
}

#[test]
fn the_pods_annotation_wins_over_the_namespaces() {
    let stage = Stage::new("meshed").annotate("config.linkerd.io/skip-outbound-ports", "5000");
    stage.add().succeed();
    let rules = rules::effective(&stage.netns).join("\n");
    assert!(
        rules.contains("--dports 5000 ") && !rules.contains("587"),
        "{rules}"
    );
}

#[test]
fn an_empty_annotation_empties_what_it_replaces() {
    let stage = Stage::new("meshed").annotate("config.linkerd.io/skip-outbound-ports", "");
    stage.add().succeed();
    let rules = rules::effective(&stage.netns).join("\n");
    assert!(
        !rules.contains("PROXY_INIT_OUTPUT -p tcp -m multiport"),
        "{rules}"
    );
}

#[test]
fn the_proxys_own_user_and_group_win_over_everything() {
    let stage = Stage::new("custom-uid").annotate("config.linkerd.io/proxy-uid", "3000");
    stage.add().succeed().logs(&["1000680000", "3000"]);
    let rules = rules::effective(&stage.netns).join("\n");
    assert!(rules.contains("--uid-owner 1000680000 "), "{rules}");
    assert!(rules.contains("--gid-owner 1000680000 "), "{rules}");
    assert!(
        !rules.contains("2102") && !rules.contains("3000"),
        "{rules}"
    );
}

#[test]
fn a_control_plane_pod_skips_the_api_servers_ports() {
    let stage = Stage::new("control-plane");
    stage.add().succeed();
    let rules = rules::effective(&stage.netns).join("\n");
    assert!(rules.contains("PROXY_INIT_OUTPUT -p tcp -m multiport --dports 25,587,443,6443 "));
}

#[test]
fn a_misspelt_annotation_is_a_warning_that_names_the_right_one() {
    let stage = Stage::new("typo-annotation");
    let output = stage.add().succeed();
    output.logs(&["WARN", "skip-oubound-ports", "skip-outbound-ports"]);
}

#[test]
fn another_container_with_the_proxys_user_is_a_warning() {
    let stage = Stage::new("shared-uid");
    stage.add().succeed().logs(&["WARN", "web", "2102"]);
}
