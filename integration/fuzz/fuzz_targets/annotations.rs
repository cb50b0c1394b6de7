//! Annotations are refused in words that name them, or end in rules and in nothing but rules.
//!
//! Input: the values of the annotations, a unit separator (0x1f) between them.

#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use proxy_init_rules::{
    Annotated, Config, Family, NatTable, Overrides, RawConfig, RuleSet, annotation,
};

fuzz_target!(|text: &str| {
    let annotations: BTreeMap<String, String> = annotation::ALL
        .iter()
        .zip(text.split('\u{1f}'))
        .map(|(key, value)| ((*key).to_owned(), value.to_owned()))
        .collect();
    let object = Annotated {
        object: "pod emojivoto/web",
        annotations: &annotations,
    };
    match Overrides::read(&[object]) {
        Ok(overrides) => only_rules(&overrides.apply(config())),
        Err(error) => {
            let error = error.to_string();
            let names = |key| error.starts_with(&format!("annotation {key} of pod "));
            assert!(annotation::ALL.iter().any(names), "{error}");
            assert!(!error.contains('\n'), "a message of many lines: {error}");
        }
    }
});

fn config() -> Config {
    let raw: RawConfig = serde_json::from_str(
        r#"{"incoming-proxy-port": 4143, "outgoing-proxy-port": 4140, "proxy-uid": 2102,
            "inbound-ports-to-ignore": ["4190", "4191"]}"#,
    )
    .expect("JSON");
    Config::try_from(raw).expect("a valid configuration")
}

/// Nothing that a user wrote gets into a payload but as a rule of ours (rules.md 3).
fn only_rules(config: &Config) {
    for family in Family::ALL {
        let rules = RuleSet::new(config, family);
        let payload = rules.render_install();
        let found = NatTable::parse(&payload, family).expect("a payload of ours is read");
        assert_eq!(found.rule_set(), rules, "{payload}");
        let lines = payload
            .lines()
            .filter(|line| line.starts_with("-A"))
            .count();
        assert_eq!(lines, rules.rules().len(), "{payload}");
    }
}
