//! Whether two JSON values say the same, however they are written.
//!
//! Agents read our entry and print it anew (sorted keys, `1e3` as `1000`,
//! other escapes). That is no difference worth a write, and answering it with
//! one would start a fight; a number that lost a digit is.

use std::collections::BTreeMap;

use super::scan::{Kind, Value};

/// What is nested deeper than this counts as different: a stranger's file must
/// not overflow the stack, and no runtime's configuration comes near it.
const DEPTH: usize = 128;

/// Compares by value: members in any order, the last of two with one key,
/// numbers as exact decimals.
pub(crate) fn same(a: Value<'_>, b: Value<'_>) -> bool {
    same_within(DEPTH, a, b)
}

fn same_within(depth: usize, a: Value<'_>, b: Value<'_>) -> bool {
    let Some(below) = depth.checked_sub(1) else {
        return false;
    };
    a.kind() == b.kind()
        && match a.kind() {
            Kind::Object => same_members(below, a, b),
            Kind::Array => same_elements(below, a, b),
            Kind::String => a.string() == b.string(),
            Kind::Number => decimal(a.raw()) == decimal(b.raw()),
            Kind::Literal => a.raw() == b.raw(),
        }
}

fn same_members(depth: usize, a: Value<'_>, b: Value<'_>) -> bool {
    let (a, b) = (members(a), members(b));
    a.len() == b.len()
        && a.iter().all(|(key, value)| {
            b.get(key)
                .is_some_and(|other| same_within(depth, *value, *other))
        })
}

fn same_elements(depth: usize, a: Value<'_>, b: Value<'_>) -> bool {
    let (a, b) = (
        a.elements().collect::<Vec<_>>(),
        b.elements().collect::<Vec<_>>(),
    );
    a.len() == b.len() && a.into_iter().zip(b).all(|(x, y)| same_within(depth, x, y))
}

fn members(value: Value<'_>) -> BTreeMap<String, Value<'_>> {
    value
        .members()
        .map(|(key, v)| (key.string().unwrap_or_default(), v))
        .collect()
}

/// A number as (negative, its digits without zeros at either end, the power of
/// ten of the last digit). Zero has no digits and no sign. An exponent that no
/// machine integer holds is kept apart from every other number as text.
fn decimal(raw: &[u8]) -> Result<(bool, String, i64), String> {
    let text = String::from_utf8_lossy(raw);
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((&text, "0"));
    let exponent = exponent.parse::<i64>().map_err(|_| text.to_string())?;
    let negative = mantissa.starts_with('-');
    let (whole, fraction) = mantissa
        .trim_start_matches('-')
        .split_once('.')
        .unwrap_or_else(|| (mantissa.trim_start_matches('-'), ""));
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    let short = digits.trim_end_matches('0');
    if short.is_empty() {
        return Ok((false, String::new(), 0));
    }
    let shift = (digits.len() - short.len()) as i64 - fraction.len() as i64;
    Ok((negative, short.to_owned(), exponent.saturating_add(shift)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says_the_same(a: &str, b: &str) -> bool {
        same(
            Value::document(a.as_bytes()).unwrap(),
            Value::document(b.as_bytes()).unwrap(),
        )
    }

    #[test]
    fn spelling_is_no_difference() {
        for (a, b) in [
            ("{\"a\":1,\"b\":[true]}", "{ \"b\" : [ true ], \"a\" : 1 }"),
            ("1e3", "1000"),
            ("1.50", "15e-1"),
            ("-0", "0.0"),
            ("\"\\u0041\"", "\"A\""),
            ("{\"a\":1,\"a\":2}", "{\"a\":2}"),
            ("18446744073709551616", "18446744073709551616.0"),
        ] {
            assert!(says_the_same(a, b), "{a} {b}");
        }
    }

    #[test]
    fn a_value_is() {
        for (a, b) in [
            ("18446744073709551616", "18446744073709551617"),
            ("1", "\"1\""),
            ("[1,2]", "[2,1]"),
            ("{\"a\":1}", "{\"a\":1,\"b\":null}"),
            ("1", "-1"),
            ("1e1", "1e99999999999999999999"),
            ("true", "false"),
        ] {
            assert!(!says_the_same(a, b), "{a} {b}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        assert!(!says_the_same("[[1]]", &deep));
        assert!(!says_the_same(&deep, &deep));
    }
}
