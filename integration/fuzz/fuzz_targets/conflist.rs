//! Another plugin's configuration: chained, every other byte stays, the result is valid, and what
//! was put in comes out again.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use linkerd_cni_installer::conflist::{self, Configuration, Entry, Tree, Unfit};
use serde_json::Value;

static ENTRY: LazyLock<Entry> = LazyLock::new(|| {
    let text = r#"{"name":"linkerd-cni","type":"linkerd-cni","linkerd":{"ports":["4191"],"o":{}}}"#;
    Entry::new(Tree::parse(text).expect("JSON").expect("an object"))
});

fuzz_target!(|text: &[u8]| {
    as_libcni_reads_it(text);
    if let Ok(changed) = conflist::chain(text, &ENTRY) {
        list(text, changed);
    }
    if let Ok(list) = conflist::convert(text, &ENTRY) {
        assert!(conflist::is_chained(&list, &ENTRY));
        assert!(conflist::is_conversion(&list, text));
        valid_too(text, &list);
    }
});

fn list(text: &[u8], changed: Option<Vec<u8>>) {
    let plain = conflist::unchain(text);
    let Some(with) = changed else {
        assert!(
            plain.is_some(),
            "chained already, but nothing of ours in it"
        );
        return;
    };
    assert!(
        conflist::is_chained(&with, &ENTRY),
        "a second pass would write again"
    );
    valid_too(text, &with);
    let plain = plain.as_deref().unwrap_or(text);
    let back = conflist::unchain(&with).expect("there is an entry of ours");
    assert_eq!(back, plain, "uninstall does not restore");
    only_added(plain, &with);
}

/// One piece more, and nothing else: what stands before it and behind it is the text.
fn only_added(plain: &[u8], with: &[u8]) {
    let before = plain.iter().zip(with).take_while(|(a, b)| a == b).count();
    assert!(with.len() > plain.len());
    assert!(with.ends_with(&plain[before..]), "another byte has changed");
}

fn valid_too(text: &[u8], with: &[u8]) {
    if serde_json::from_slice::<Value>(text).is_ok() {
        let value: Value = serde_json::from_slice(with).expect("valid before, not after");
        let last = value["plugins"]
            .as_array()
            .and_then(|plugins| plugins.last());
        assert_eq!(
            last.and_then(|last| last["type"].as_str()),
            Some("linkerd-cni")
        );
    }
}

/// A list that a runtime loads is never taken for something else.
fn as_libcni_reads_it(text: &[u8]) {
    let Ok(Value::Object(document)) = serde_json::from_slice::<Value>(text) else {
        return;
    };
    let read = conflist::read(text, true);
    assert!(
        !matches!(read, Err(Unfit::NotJson(_) | Unfit::NotAnObject)),
        "{read:?}"
    );
    let has_list = document.get("plugins").is_some_and(Value::is_array);
    if let Ok(Configuration::List { types }) = read {
        assert!(has_list && !types.is_empty());
    }
}
