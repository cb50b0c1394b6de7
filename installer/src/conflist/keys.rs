//! Which member counts, as libcni has it.
//!
//! It reads with Go's `encoding/json`. A struct's field takes a key in any case; of
//! several the last counts, and `null` is as good as none. A map takes keys as they
//! are written. A single configuration is read into a struct. A list is read into a
//! map, so that only `name` and `plugins` will do; each of its plugins is printed
//! again with its keys sorted, and then read into a struct.

use std::collections::BTreeMap;

use super::scan::{Kind, Value};

/// What a field of a single configuration gets; none if it is not set.
pub(super) fn field<'a>(document: Value<'a>, key: &str) -> Option<Value<'a>> {
    set(document.members().filter_map(named), key)
        .last()
        .copied()
}

/// The same for a text; none also if a value is no text, which is an error for libcni
/// even if another one comes after it.
pub(super) fn text(document: Value<'_>, key: &str) -> Option<String> {
    last_text(&set(document.members().filter_map(named), key))
}

/// The text that a field of a plugin of a list gets.
pub(super) fn text_of_plugin(plugin: Value<'_>, key: &str) -> Option<String> {
    let sorted: BTreeMap<_, _> = plugin.members().filter_map(named).collect();
    last_text(&set(sorted.into_iter(), key))
}

/// A key that would do for a struct, where there is none for a map.
pub(super) fn misspelt(list: Value<'_>, key: &str) -> Option<String> {
    let mut names = list.members().filter_map(named).map(|(name, _)| name);
    names.find(|name| name != key && folded(name) == folded(key))
}

fn named<'a>((key, value): (Value<'a>, Value<'a>)) -> Option<(String, Value<'a>)> {
    key.string().map(|key| (key, value))
}

fn set<'a>(members: impl Iterator<Item = (String, Value<'a>)>, key: &str) -> Vec<Value<'a>> {
    let key = folded(key);
    let same = members.filter(|(name, _)| folded(name) == key);
    let values = same.map(|(_, value)| value);
    values.filter(|value| value.raw() != b"null").collect()
}

fn last_text(values: &[Value<'_>]) -> Option<String> {
    let texts = values.iter().all(|value| value.kind() == Kind::String);
    values.last().filter(|_| texts)?.string()
}

/// A key without its case; two letters beyond ASCII are those of it in another case.
fn folded(key: &str) -> String {
    let fold = |c: char| match c {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        c => c.to_ascii_lowercase(),
    };
    key.chars().map(fold).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What libcni 1.3.0 says of these texts.
    #[test]
    fn a_single_configuration_takes_the_last_of_a_key_in_any_case() {
        for (json, expected) in [
            (r#"{"Type":"a"}"#, Some("a")),
            (r#"{"type":"a","Type":"b"}"#, Some("b")),
            (r#"{"Type":"b","type":"a"}"#, Some("a")),
            (r#"{"TYPE":"b","type":null}"#, Some("b")),
            (r#"{"Type":7,"type":"a"}"#, None),
            (r#"{"typ":"a"}"#, None),
        ] {
            let document = Value::document(json.as_bytes()).unwrap();
            assert_eq!(text(document, "type").as_deref(), expected, "{json}");
        }
        let long = Value::document(r#"{"cniVer\u017fion":"1.0.0"}"#.as_bytes()).unwrap();
        assert_eq!(text(long, "cniVersion").as_deref(), Some("1.0.0"));
    }

    /// Likewise.
    #[test]
    fn a_plugin_of_a_list_takes_the_last_in_the_order_of_its_keys() {
        for (json, expected) in [
            (r#"{"Type":"a"}"#, Some("a")),
            (r#"{"type":"a","Type":"b"}"#, Some("a")),
            (r#"{"Type":"b","type":"a"}"#, Some("a")),
            (r#"{"TYPE":"b","Type":"a"}"#, Some("a")),
            (r#"{"Type":"b","type":null}"#, Some("b")),
            (r#"{"Type":7,"type":"a"}"#, None),
            (r#"{"Type":7,"Type":"b","type":"a"}"#, Some("a")),
        ] {
            let plugin = Value::document(json.as_bytes()).unwrap();
            assert_eq!(
                text_of_plugin(plugin, "type").as_deref(),
                expected,
                "{json}"
            );
        }
    }
}
