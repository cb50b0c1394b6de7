//! Verbs, versions, and what is not JSON.

use linkerd_cni_integration::netns::{Netns, unique_name};
use linkerd_cni_integration::plugin::Call;
use linkerd_cni_integration::rules;
use serde_json::{Value, json};

pub(crate) const VERSIONS: [&str; 7] = [
    "0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0",
];

/// Inputs, and the error code that ADD answers them with.
const BROKEN: [(&str, u64); 12] = [
    ("", 6),
    (" \n\t", 6),
    ("{", 6),
    ("{\"cniVersion\": \"1.0.0\",}", 6),
    ("{} {}", 6),
    ("\u{feff}{", 6),
    ("linkerd", 6),
    ("[]", 7),
    ("null", 7),
    ("12", 7),
    ("\"text\"", 7),
    ("{\"cniVersion\": 1, \"linkerd\": {}}", 7),
];

#[test]
fn version_lists_what_is_supported_with_any_input() {
    for stdin in [
        "",
        "{}",
        "{\"cniVersion\":\"0.4.0\"}",
        "{\"cniVersion\":\"9.9.9\"}",
    ] {
        let output = Call::new("VERSION").stdin(stdin).succeed();
        let json = output.json.expect("VERSION answers");
        assert_eq!(json["supportedVersions"], json!(VERSIONS), "{stdin}");
        let version = json["cniVersion"].as_str().expect("it has a cniVersion");
        assert!(VERSIONS.contains(&version), "{stdin}: {version}");
    }
}

#[test]
fn add_refuses_broken_input_and_touches_nothing() {
    let netns = Netns::new();
    let before = rules::everything(&netns);
    for (stdin, code) in BROKEN {
        let output = attached("ADD", &netns).stdin(stdin).fail(code);
        assert_is_an_error(output.json.as_ref(), stdin);
    }
    let output = attached("ADD", &netns).stdin([0xff, 0xfe, b'{']).fail(6);
    assert_is_an_error(output.json.as_ref(), "not UTF-8");
    assert_eq!(before, rules::everything(&netns));
}

#[test]
fn deeply_nested_input_is_an_error_and_no_crash() {
    let netns = Netns::new();
    let deep = format!("{}1{}", "[".repeat(200_000), "]".repeat(200_000));
    let stdin = format!("{{\"cniVersion\":\"1.0.0\",\"x\":{deep}}}");
    let output = attached("ADD", &netns).stdin(stdin).run();
    assert_eq!(output.exit, Some(1), "{output:#?}");
    assert_is_an_error(output.json.as_ref(), "deeply nested");
}

#[test]
fn check_status_and_gc_refuse_broken_input() {
    let netns = Netns::new();
    for verb in ["CHECK", "STATUS", "GC"] {
        for (stdin, code) in BROKEN {
            let output = attached(verb, &netns).stdin(stdin).run();
            assert_eq!(output.exit, Some(1), "{verb} {stdin}: {output:#?}");
            assert_eq!(output.code(), Some(code), "{verb} {stdin}: {output:#?}");
            assert_is_an_error(output.json.as_ref(), stdin);
        }
    }
}

#[test]
fn del_succeeds_on_broken_input() {
    let netns = Netns::new();
    for (stdin, _) in BROKEN {
        let output = attached("DEL", &netns).stdin(stdin).succeed();
        assert!(output.json.is_none(), "{stdin}: {output:#?}");
    }
}

#[test]
fn every_version_gets_a_result_of_its_own() {
    let netns = Netns::new();
    for version in VERSIONS {
        let output = attached("ADD", &netns).config(&config(version)).succeed();
        let json = output.json.expect("ADD answers");
        assert_eq!(json["cniVersion"], version);
        for list in ["interfaces", "ips", "routes"] {
            let value = json.get(list).unwrap_or(&Value::Null);
            assert!(value.is_null() || value.is_array(), "{version}: {json}");
        }
        attached("DEL", &netns).config(&config(version)).succeed();
    }
}

#[test]
fn no_version_means_the_oldest_as_in_libcni() {
    let netns = Netns::new();
    let mut absent = config("");
    absent
        .as_object_mut()
        .expect("an object")
        .remove("cniVersion");
    for config in [config(""), absent] {
        let output = attached("ADD", &netns).config(&config).succeed();
        let json = output.json.expect("ADD answers");
        assert_eq!(json["cniVersion"], "0.1.0", "{config}");
    }
}

#[test]
fn a_version_we_do_not_speak_is_refused_by_name() {
    let netns = Netns::new();
    for version in ["0.0.1", "0.5.0", "1.2.0", "2.0.0", "1.0", "newest"] {
        let output = attached("ADD", &netns).config(&config(version)).fail(1);
        output.says(&["cniVersion", version, "1.1.0"]);
        attached("DEL", &netns).config(&config(version)).succeed();
    }
}

#[test]
fn check_status_and_gc_answer_every_version() {
    let netns = Netns::new();
    for version in VERSIONS {
        for verb in ["CHECK", "STATUS", "GC"] {
            let mut config = config(version);
            config["prevResult"] = json!({"cniVersion": version});
            config["cni.dev/valid-attachments"] = json!([]);
            // Whatever they answer, it is an answer: never a crash, never text.
            let output = attached(verb, &netns).config(&config).run();
            match output.exit {
                Some(0) => assert!(output.json.is_none(), "{verb} {version}: {output:#?}"),
                _ => assert_is_an_error(output.json.as_ref(), &format!("{verb} {version}")),
            }
        }
    }
}

/// Records that the test leaves are nobody's, and those that GC drops are not
/// another test's.
fn scratch_records(call: Call) -> Call {
    call.with_mounts("mkdir -p /run/linkerd-cni; mount -t tmpfs -o mode=700 none /run/linkerd-cni")
}

fn attached(verb: &str, netns: &Netns) -> Call {
    let call = Call::new(verb).container(&unique_name()).interface("eth0");
    scratch_records(call.netns(&netns.path()))
}

fn config(version: &str) -> Value {
    json!({
        "cniVersion": version,
        "name": "k8s-pod-network",
        "type": "linkerd-cni",
        "linkerd": {"incoming-proxy-port": 4143, "outgoing-proxy-port": 4140},
    })
}

fn assert_is_an_error(json: Option<&Value>, context: &str) {
    let json = json.unwrap_or_else(|| panic!("{context}: no error on stdout"));
    assert!(json["code"].is_u64(), "{context}: {json}");
    let version = json["cniVersion"].as_str().unwrap_or_default();
    assert!(VERSIONS.contains(&version), "{context}: {json}");
    let msg = json["msg"].as_str().unwrap_or_default();
    assert!(!msg.is_empty(), "{context}: {json}");
}
