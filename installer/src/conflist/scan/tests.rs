use super::*;

#[test]
fn what_is_json_is_passed_over_whole() {
    for text in [
        "{}",
        "[ ]",
        "[[],{}]",
        " {\"a\" : [1 , -0.5e+3, 1E400]}\r\n",
        "\"\\ud83d\\u00e9\\/\"",
        "12345678901234567890123",
        "[true,false,null]",
        "{\"\":{\"\":\"\"}}",
    ] {
        let value = Value::document(text.as_bytes()).unwrap();
        assert_eq!(value.raw(), text.trim().as_bytes());
    }
}

#[test]
fn what_is_not_json_is_refused_with_its_place() {
    for text in [
        "",
        " ",
        "{",
        "[",
        "[1,]",
        "{\"a\":1,}",
        "{a:1}",
        "{\"a\" 1}",
        "01",
        "1.",
        "-",
        "1e",
        "tru",
        "\"",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\n\"",
        "{}{}",
        "[1 2]",
        "\u{feff}{}",
        "{]",
        "[}",
        "nulll",
    ] {
        assert!(Value::document(text.as_bytes()).is_err(), "{text:?}");
    }
    let fault = Value::document(b"{\n  \"a\": tru").unwrap_err();
    assert_eq!(fault.to_string(), "expected a value at line 2 column 8");
}

#[test]
fn the_last_of_two_members_counts() {
    let value = Value::document(br#"{"a":1,"b":2,"\u0061":3}"#).unwrap();
    assert_eq!(value.get("a").map(Value::raw), Some(&b"3"[..]));
    assert_eq!(value.members().count(), 3);
    assert_eq!(value.elements().count(), 0);
}

#[test]
fn a_string_is_decoded() {
    let value = Value::document(b"\"a\\n\\\"\\\\\\/\\ud83d\\ude00\\ud800 \xff\xc3\xa9\"").unwrap();
    assert_eq!(
        value.string().unwrap(),
        "a\n\"\\/\u{1f600}\u{fffd} \u{fffd}é"
    );
}

#[test]
fn a_deep_text_does_not_overflow_the_stack() {
    let deep = [vec![b'['; 1_000_000], vec![b']'; 1_000_000]].concat();
    assert_eq!(Value::document(&deep).unwrap().raw().len(), 2_000_000);
    assert!(Value::document(&deep[..1_999_999]).is_err());
}
