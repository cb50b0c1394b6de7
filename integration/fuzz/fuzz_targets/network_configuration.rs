//! A network configuration is refused with a code and a key, or its objects can all be read.

#![no_main]

use libfuzzer_sys::fuzz_target;
use linkerd_cni::cni::{Code, Error, NetworkConfig, PreviousResult};
use proxy_init_rules::{Family, NatTable, RuleSet};
use serde_json::Value;

fuzz_target!(|input: &[u8]| {
    let config = match NetworkConfig::parse(input) {
        Ok(config) => config,
        Err(error) => return refused(&error),
    };
    match config.linkerd() {
        Ok(linkerd) => {
            for family in Family::ALL {
                let rules = RuleSet::new(&linkerd, family);
                let found = NatTable::parse(&rules.render_install(), family).expect("our payload");
                assert_eq!(found.rule_set(), rules);
            }
        }
        Err(error) => refused(&error),
    }
    match config.previous_result() {
        Ok(previous) => {
            let document = PreviousResult::document(previous.as_ref(), config.version);
            // Half a surrogate pair inside it is passed on too: libcni takes it.
            if serde_json::from_slice::<Value>(input).is_ok() {
                let document: Value = serde_json::from_str(&document).expect("a result is JSON");
                assert!(document.get("cniVersion").is_some_and(Value::is_string));
            }
        }
        Err(error) => refused(&error),
    }
    let _ = config.kubernetes().map_err(|error| refused(&error));
    let _ = config.valid_attachments().map_err(|error| refused(&error));
});

fn refused(error: &Error) {
    let code = error.code();
    let known = [Code::Decode, Code::InvalidConfig, Code::IncompatibleVersion];
    assert!(known.contains(&code), "{code:?}: {error}");
    assert!(!error.to_string().is_empty());
}
