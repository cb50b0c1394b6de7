//! Both families or none.

use linkerd_cni_integration::fake::Fakes;
use linkerd_cni_integration::fixtures;
use linkerd_cni_integration::rules::{self, Family, Tables};
use linkerd_cni_integration::stage::Stage;
use linkerd_cni_integration::traffic::Network;
use serde_json::json;

const V6: [&str; 3] = ["ip6tables-nft", "ip6tables-legacy", "ip6tables"];
const V4: [&str; 3] = ["iptables-nft", "iptables-legacy", "iptables"];
const FAILS: &str = "cat >/dev/null; echo \"$0: no IPv6 for you\" >&2; exit 1";

#[test]
fn ipv4_is_taken_back_if_ipv6_fails() {
    for mode in ["nft", "legacy", "plain"] {
        let stage = Stage::new("meshed").linkerd("iptables-mode", mode);
        let _occupied = stage.netns.occupy_native();
        let before = rules::effective(&stage.netns);
        let fakes = Fakes::new().replace(&V6, FAILS);
        let output = stage.add().env("PATH", fakes.first_on_path()).fail(100);
        output.says(&["ip6tables", "no IPv6 for you"]);
        assert_eq!(before, rules::effective(&stage.netns), "{mode}");
        assert!(!stage.record("eth0").exists());
    }
}

#[test]
fn rules_of_others_survive_when_ipv4_is_taken_back() {
    let stage = Stage::new("meshed");
    let theirs = "*nat\n-N THEIRS\n-A OUTPUT -p udp -j THEIRS\nCOMMIT\n";
    rules::restore(&stage.netns, Tables::Nft, Family::V4, theirs);
    let _occupied = stage.netns.occupy_native();
    let before = rules::effective(&stage.netns);
    let fakes = Fakes::new().replace(&V6, FAILS);
    stage.add().env("PATH", fakes.first_on_path()).fail(100);
    assert_eq!(before, rules::effective(&stage.netns));
}

#[test]
fn nothing_is_left_if_ipv4_fails() {
    let stage = Stage::new("meshed");
    let _occupied = stage.netns.occupy_native();
    let before = rules::effective(&stage.netns);
    let fakes = Fakes::new().replace(&V4, FAILS);
    stage.add().env("PATH", fakes.first_on_path()).fail(100);
    assert_eq!(before, rules::effective(&stage.netns));
}

#[test]
fn a_pod_without_ipv6_address_starts_although_ipv6_fails() {
    let mut stage = Stage::new("meshed");
    stage.config["prevResult"]["ips"] = json!([{"version": "4", "address": "10.244.1.2/24"}]);
    let fakes = Fakes::new().replace(&V6, FAILS);
    let output = stage.add().env("PATH", fakes.first_on_path()).succeed();
    output.logs(&["WARN", "IPv6"]);
    assert!(rules::save(&stage.netns, Tables::Nft, Family::V4).contains("4143"));
    assert!(!rules::save(&stage.netns, Tables::Nft, Family::V6).contains("4143"));
}

#[test]
fn a_pod_without_ipv6_address_gets_the_ipv6_rules_where_they_work() {
    let mut stage = Stage::new("meshed");
    stage.config["prevResult"]["ips"] = json!([{"version": "4", "address": "10.244.1.2/24"}]);
    stage.add().succeed();
    assert!(rules::save(&stage.netns, Tables::Nft, Family::V6).contains("4143"));
}

#[test]
fn an_ipv6_address_counts_in_the_result_of_every_version() {
    for (version, result) in [
        (
            "0.2.0",
            json!({"ip4": {"ip": "10.1.2.3/24"}, "ip6": {"ip": "fd00::2/64"}}),
        ),
        (
            "0.3.1",
            json!({"ips": [{"version": "6", "address": "fd00::2/64"}]}),
        ),
        (
            "1.0.0",
            json!({"ips": [{"address": "10.1.2.3/24"}, {"address": "fd00::2/64"}]}),
        ),
    ] {
        let mut stage = Stage::new("meshed").top("cniVersion", version);
        stage.config["prevResult"] = result;
        stage.config["prevResult"]["cniVersion"] = json!(version);
        let _occupied = stage.netns.occupy_native();
        let before = rules::effective(&stage.netns);
        let fakes = Fakes::new().replace(&V6, FAILS);
        stage.add().env("PATH", fakes.first_on_path()).fail(100);
        assert_eq!(before, rules::effective(&stage.netns), "{version}");
    }
}

#[test]
fn ipv6_is_never_touched_where_it_is_off() {
    let stage = Stage::new("meshed").linkerd("ipv6", false);
    let fakes = Fakes::new().replace(&V6, FAILS);
    stage.add().env("PATH", fakes.first_on_path()).succeed();
    assert_eq!(rules::save(&stage.netns, Tables::Nft, Family::V6), "");
    stage.del().env("PATH", fakes.first_on_path()).succeed();
    assert!(rules::effective(&stage.netns).is_empty());
}

/// What the plugin before us answers, in the layout of version 0.3.1.
fn given(stage: Stage, addresses: &[&str]) -> Stage {
    let ips: Vec<_> = addresses
        .iter()
        .map(|address| json!({"address": address}))
        .collect();
    let result = json!({"cniVersion": "0.3.1", "ips": ips, "dns": {}});
    stage.linkerd("ipv6", false).top("prevResult", result)
}

#[test]
fn an_ipv6_address_that_is_not_redirected_is_a_warning_at_each_add() {
    let dual = ["10.244.1.2/24", "fd00:10:244::2/64"];
    let stage = given(Stage::new("meshed"), &dual);
    for _ in 0..2 {
        let output = stage.add().succeed();
        let words = [
            "WARN",
            "emojivoto/web-meshed",
            "fd00:10:244::2",
            "disableIPv6=false",
        ];
        output.logs(&words);
        assert_eq!(output.stderr.matches("WARN").count(), 1, "{output:#?}");
    }
}

#[test]
fn what_is_no_address_of_ipv6_in_the_clear_is_not_worth_a_word() {
    for addresses in [
        &["10.244.1.2/24"][..],
        &["10.244.1.2/24", "fe80::1/64"],
        &["10.244.1.2/24", "::1/128"],
        &[],
    ] {
        let output = given(Stage::new("meshed"), addresses).add().succeed();
        assert!(!output.stderr.contains("WARN"), "{}", output.stderr);
    }
    let output = Stage::new("meshed").add().succeed();
    assert!(!output.stderr.contains("WARN"), "it is redirected");
    let mut unknown = Stage::new("meshed").linkerd("ipv6", false);
    let config = unknown.config.as_object_mut().expect("an object");
    config.remove("prevResult");
    let output = unknown.add().succeed();
    assert!(!output.stderr.contains("WARN"), "{}", output.stderr);
    // Who is not meshed is nobody's business.
    given(Stage::new("unmeshed"), &["fd00::2/64"])
        .add()
        .succeed();
}

#[test]
fn a_pod_that_has_only_ipv6_does_not_start_in_the_clear() {
    // The pods of EKS with IPv6 have a way out over a link-local IPv4 address.
    for addresses in [
        &["fd00:10:244::2/64"][..],
        &["fd00:10:244::2/64", "169.254.172.2/22"],
    ] {
        let stage = given(Stage::new("meshed"), addresses);
        let before = rules::everything(&stage.netns);
        let output = stage.add().fail(7);
        let words = [
            "emojivoto/web-meshed",
            "fd00:10:244::2",
            "disableIPv6=false",
        ];
        output.says(&words);
        assert_eq!(before, rules::everything(&stage.netns));
        assert!(!stage.record("eth0").exists());
        let stage = stage.linkerd("ipv6", true);
        stage.add().succeed();
    }
}

#[test]
fn a_pod_that_has_only_ipv6_starts_where_nothing_is_done() {
    let stage = given(Stage::new("meshed"), &["fd00::2/64"]).linkerd("simulate", true);
    stage.add().succeed().logs(&["WARN", "fd00::2"]);
}

/// Multus: each network has a result of its own.
#[test]
fn a_second_network_with_only_ipv6_is_a_warning_where_the_pod_has_ipv4() {
    let network = Network::new();
    let stage = Stage::in_namespace(fixtures::pod("meshed"), &network.pod);
    let stage = given(stage, &["fd00::2/64"]);
    let output = stage.add().interface("net1").succeed();
    output.logs(&["WARN", "fd00::2", "disableIPv6=false"]);
}

#[test]
fn check_says_that_ipv6_is_in_the_clear_and_is_no_error() {
    let network = Network::new();
    let stage = Stage::in_namespace(fixtures::pod("meshed"), &network.pod)
        .linkerd("ipv6", false)
        .top("cniVersion", "1.0.0");
    let words = ["WARN", "fd00:244:1::2", "eth0", "disableIPv6=false"];
    stage.add().succeed();
    stage.call("CHECK").succeed().logs(&words);
    std::fs::remove_file(stage.record("eth0")).expect("there is a record");
    stage.call("CHECK").succeed().logs(&words);

    let both = stage.linkerd("ipv6", true);
    both.add().succeed();
    let output = both.call("CHECK").succeed();
    assert!(!output.stderr.contains("WARN"), "{}", output.stderr);
}

#[test]
fn a_second_add_that_fails_leaves_both_families_or_none() {
    let stage = Stage::new("meshed");
    stage.add().succeed();
    let _occupied = stage.netns.occupy_native();
    let fakes = Fakes::new().replace(&V6, FAILS);
    stage.add().env("PATH", fakes.first_on_path()).fail(100);
    let [v4, v6] = [Family::V4, Family::V6]
        .map(|family| rules::save(&stage.netns, Tables::Nft, family).contains("4143"));
    // The broken programs may keep it from taking IPv6 back: then IPv4 stays.
    assert!(v4 || !v6, "IPv6 alone is neither both nor none");
}

#[test]
fn a_subnet_goes_to_its_own_family() {
    let stage =
        Stage::new("meshed").linkerd("subnets-to-ignore", json!(["10.0.0.0/8", "fd77::/64"]));
    stage.add().succeed();
    let [v4, v6] =
        [Family::V4, Family::V6].map(|family| rules::save(&stage.netns, Tables::Nft, family));
    assert!(
        v4.contains("-s 10.0.0.0/8 ") && !v4.contains("fd77::"),
        "{v4}"
    );
    assert!(
        v6.contains("-s fd77::/64 ") && !v6.contains("10.0.0.0"),
        "{v6}"
    );
}

#[test]
fn native_without_ipv6_leaves_ipv6_alone() {
    let stage = Stage::new("meshed")
        .linkerd("iptables-mode", "native")
        .linkerd("ipv6", false);
    stage.add().succeed();
    let listed = rules::native(&stage.netns);
    let tables: Vec<&str> = listed.lines().filter(|l| l.starts_with("table ")).collect();
    assert_eq!(tables, ["table ip linkerd-cni {"], "{listed}");
    let both = stage.linkerd("ipv6", true);
    both.add().succeed();
    let listed = rules::native(&both.netns);
    let tables: Vec<&str> = listed.lines().filter(|l| l.starts_with("table ")).collect();
    assert_eq!(tables, ["table inet linkerd-cni {"], "{listed}");
}
