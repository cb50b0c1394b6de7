//! Both families or none.

use linkerd_cni_integration::fake::Fakes;
use linkerd_cni_integration::rules::{self, Family, Tables};
use linkerd_cni_integration::stage::Stage;
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
    let output = stage.add().env("PATH", fakes.first_on_path()).succeed();
    assert!(!output.stderr.contains("WARN"), "{}", output.stderr);
    assert_eq!(rules::save(&stage.netns, Tables::Nft, Family::V6), "");
    stage.del().env("PATH", fakes.first_on_path()).succeed();
    assert!(rules::effective(&stage.netns).is_empty());
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
