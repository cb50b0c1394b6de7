//! Whatever comes in: standard output is empty or one JSON document, DEL never fails, and ADD
//! passes the previous result on.
//!
//! The first byte chooses the verb. No pod is named, so that nothing is asked and nothing changed;
//! run it in a network namespace of its own, then the init process's serves as the pod's.

#![no_main]

use std::{ffi::OsString, process::ExitCode};

use libfuzzer_sys::fuzz_target;
use linkerd_cni::{cni::Environment, protocol};
use serde_json::Value;

/// STATUS and GC are left out: they read and remove what the configuration names.
const VERBS: [&str; 5] = ["ADD", "CHECK", "DEL", "VERSION", "add"];

struct Runtime {
    verb: &'static str,
}

impl Environment for Runtime {
    fn var(&self, name: &str) -> Option<OsString> {
        let value = match name {
            "CNI_COMMAND" => self.verb,
            "CNI_CONTAINERID" => "fuzzed",
            "CNI_IFNAME" => "eth0",
            // DEL would take rules out of it.
            "CNI_NETNS" if self.verb != "DEL" => "/proc/1/ns/net",
            _ => return None,
        };
        Some(value.into())
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((first, input)) = input.split_first() else {
        return;
    };
    let verb = VERBS[usize::from(*first) % VERBS.len()];
    let mut printed = Vec::new();
    let code = protocol::run(&Runtime { verb }, input, &mut printed);
    let succeeded = format!("{code:?}") == format!("{:?}", ExitCode::SUCCESS);

    let document: Option<Value> = match serde_json::from_slice(&printed) {
        _ if printed.is_empty() => None,
        Ok(document) => Some(document),
        // Half a surrogate pair in the previous result is passed on: libcni takes it.
        Err(_) if succeeded && serde_json::from_slice::<Value>(input).is_err() => return,
        Err(error) => panic!("{error}: {}", String::from_utf8_lossy(&printed)),
    };
    match (verb, succeeded, document) {
        ("ADD", true, Some(result)) => passed_on(input, &result),
        ("CHECK" | "DEL", true, None) => {}
        ("VERSION", true, Some(versions)) => assert!(versions["supportedVersions"].is_array()),
        ("ADD" | "CHECK" | "VERSION" | "add", false, Some(error)) => {
            let code = error["code"].as_u64().expect("a code");
            assert!(!matches!(code, 0 | 3 | 104), "{error}");
            assert!(
                error["msg"].as_str().is_some_and(|msg| !msg.is_empty()),
                "{error}"
            );
            assert!(error["cniVersion"].is_string(), "{error}");
        }
        (_, _, document) => panic!("{verb} ended with {code:?} and printed {document:?}"),
    }
});

fn passed_on(input: &[u8], result: &Value) {
    assert!(result["cniVersion"].is_string(), "{result}");
    let config: Option<Value> = serde_json::from_slice(input).ok();
    let previous = config.as_ref().and_then(|config| config.get("prevResult"));
    let Some(previous) = previous.and_then(Value::as_object) else {
        return;
    };
    for (key, value) in previous.iter().filter(|(key, _)| *key != "cniVersion") {
        assert_eq!(result.get(key), Some(value), "{key} of the previous result");
    }
}
