use proptest::prelude::*;

use super::*;

fn entry() -> Entry {
    let text = r#"{"name":"linkerd-cni","type":"linkerd-cni","linkerd":{"ports":["4191","4190"],"x":[],"o":{}}}"#;
    Entry::new(Tree::parse(text).unwrap().unwrap())
}

fn chained(text: &str) -> String {
    String::from_utf8(chain(text.as_bytes(), &entry()).unwrap().unwrap()).unwrap()
}

#[track_caller]
fn comes_back(text: &str) {
    let with = chained(text);
    assert!(is_chained(with.as_bytes(), &entry()), "{with}");
    assert_eq!(unchain(with.as_bytes()).unwrap(), text.as_bytes(), "{with}");
}

#[test]
fn the_entry_is_laid_out_as_the_file_is() {
    let compact = r#"{"name":"n","plugins":[{"type":"a"}]}"#;
    let ours = r#"{"name":"linkerd-cni","type":"linkerd-cni","linkerd":{"ports":["4191","4190"],"x":[],"o":{}}}"#;
    assert_eq!(
        chained(compact),
        format!(r#"{{"name":"n","plugins":[{{"type":"a"}},{ours}]}}"#)
    );

    let tabs =
        "{\r\n\t\"name\": \"n\",\r\n\t\"plugins\": [\r\n\t\t{\"type\": \"a\"}\r\n\t]\r\n}\r\n";
    assert_eq!(
        chained(tabs),
        "{\r\n\t\"name\": \"n\",\r\n\t\"plugins\": [\r\n\t\t{\"type\": \"a\"},\r\n\t\t{\r\n\t\t\t\"name\": \"linkerd-cni\",\
         \r\n\t\t\t\"type\": \"linkerd-cni\",\r\n\t\t\t\"linkerd\": {\r\n\t\t\t\t\"ports\": [\"4191\", \"4190\"],\
         \r\n\t\t\t\t\"x\": [],\r\n\t\t\t\t\"o\": {}\r\n\t\t\t}\r\n\t\t}\r\n\t]\r\n}\r\n"
    );

    let hugging = "{\n  \"name\": \"n\",\n  \"plugins\": [{\n    \"type\": \"a\"\n  }]\n}";
    assert_eq!(
        chained(hugging),
        "{\n  \"name\": \"n\",\n  \"plugins\": [{\n    \"type\": \"a\"\n  },{\n    \"name\": \"linkerd-cni\",\
         \n    \"type\": \"linkerd-cni\",\n    \"linkerd\": {\n      \"ports\": [\"4191\", \"4190\"],\
         \n      \"x\": [],\n      \"o\": {}\n    }\n  }]\n}"
    );
}

#[test]
fn our_entries_are_taken_out_wherever_they_are() {
    let ours = r#"{"type":"linkerd-cni","old":1}"#;
    for (list, plain) in [
        (
            format!(r#"[ {ours} , {{"type":"a"}} ]"#),
            r#"[ {"type":"a"} ]"#,
        ),
        (
            format!(r#"[ {ours},{ours}, {{"type":"a"}}, {ours} , {{"type":"b"}},{ours} ]"#),
            r#"[ {"type":"a"} , {"type":"b"} ]"#,
        ),
        (format!(r#"[ {ours} ]"#), "[  ]"),
        (format!(r#"[{ours},{ours}]"#), "[]"),
    ] {
        let (text, plain) = (
            format!(r#"{{"name":"n","plugins":{list}}}"#),
            format!(r#"{{"name":"n","plugins":{plain}}}"#),
        );
        assert_eq!(
            String::from_utf8(unchain(text.as_bytes()).unwrap()).unwrap(),
            plain
        );
        if plain.contains("type") {
            let with = chained(&text);
            assert_eq!(with.matches("linkerd-cni\",\"type").count(), 1, "{with}");
            assert_eq!(
                unchain(with.as_bytes()).unwrap(),
                plain.as_bytes(),
                "{with}"
            );
        } else {
            assert_eq!(chain(text.as_bytes(), &entry()), Err(Unfit::NoPlugin));
        }
    }
}

#[test]
fn only_the_lists_own_plugins_count() {
    comes_back(
        r#"{"plugins":[{"type":"old"}],"x":{"plugins":[{"type":"linkerd-cni"}]},"plugins":[{"plugins":[],"type":"a"}]}"#,
    );
    let delegates = r#"{"name":"n","plugins":[{"type":"multus","delegates":[{"plugins":[{"type":"linkerd-cni"}]}]}]}"#;
    comes_back(delegates);
    assert_eq!(unchain(delegates.as_bytes()), None);
}

#[test]
fn an_entry_that_says_the_same_is_not_written_again() {
    let other = r#"{"name":"n","plugins":[{"type":"a"},{"type":"linkerd-cni","linkerd":{"x":[ ],"ports":["4191","\u0034190"],"o":{}},"name":"linkerd-cni"}]}"#;
    assert_eq!(chain(other.as_bytes(), &entry()), Ok(None));
    for (other, why) in [
        (other.replace("[ ]", "[1]"), "another value"),
        (
            other
                .replace("[{\"type\":\"a\"},", "[")
                .replace("}]}", "},{\"type\":\"a\"}]}"),
            "the first",
        ),
        (
            other.replace(
                "[{\"type\":\"a\"},",
                "[{\"type\":\"a\"},{\"type\":\"linkerd-cni\"},",
            ),
            "one more",
        ),
    ] {
        assert!(
            chain(other.as_bytes(), &entry()).unwrap().is_some(),
            "{why}"
        );
    }
}

#[test]
fn an_entry_behind_the_plugin_that_makes_the_interface_is_in_its_place() {
    let ours = r#"{"name":"linkerd-cni","type":"linkerd-cni","linkerd":{"ports":["4191","4190"],"x":[],"o":{}}}"#;
    for (plugins, in_place) in [
        (r#"{"type":"calico"},OURS"#, true),
        (r#"{"type":"calico"},OURS,{"type":"consul-cni"}"#, true),
        (
            r#"{"type":"calico"},{"type":"portmap"},OURS,{"type":"istio-cni"},{"type":"tuning"}"#,
            true,
        ),
        (
            r#"{"type":"loopback"},{"type":"calico"},OURS,{"type":"portmap"}"#,
            true,
        ),
        // Nobody chains such a list, but what was put in has to stay.
        (r#"{"type":"loopback"},OURS"#, true),
        (r#"OURS,{"type":"loopback"}"#, false),
        (r#"OURS,{"type":"calico"}"#, false),
        (r#"{"type":"loopback"},OURS,{"type":"calico"}"#, false),
        (
            r#"{"type":"calico"},{"type":"linkerd-cni"},{"type":"portmap"}"#,
            false,
        ),
        (r#"{"type":"calico"},OURS,{"type":"portmap"},OURS"#, false),
        (
            r#"{"type":"calico"},OURS,{"type":"portmap"},{"type":"linkerd-cni"}"#,
            false,
        ),
    ] {
        let list = format!(r#"{{"name":"n","plugins":[{plugins}]}}"#).replace("OURS", ours);
        assert_eq!(is_chained(list.as_bytes(), &entry()), in_place, "{list}");
        let changed = chain(list.as_bytes(), &entry()).unwrap();
        assert_eq!(changed.is_none(), in_place, "{list}");
        if let Some(moved) = changed {
            let moved = String::from_utf8(moved).unwrap();
            assert!(moved.ends_with(&format!(",{ours}]}}")), "{moved}");
            assert_eq!(moved.matches("\"linkerd-cni\"").count(), 2, "{moved}");
        }
    }
}

#[test]
fn what_no_runtime_loads_is_refused_with_a_reason() {
    for (text, why) in [
        ("", "not JSON (yet): expected a value at line 1 column 1"),
        (
            "\u{feff}{}",
            "not JSON (yet): expected a value at line 1 column 1",
        ),
        ("[1,2,3]", "not a JSON object"),
        (
            r#"{"name":"n"}"#,
            "neither a list (`plugins`) nor a plugin (`type`)",
        ),
        (
            r#"{"name":"n","plugins":{"type":"a"}}"#,
            "`plugins` is not a list",
        ),
        (
            r#"{"name":"n","plugins":[]}"#,
            "`plugins` holds no plugin to chain behind",
        ),
        (
            r#"{"name":"n","plugins":[{"type":"linkerd-cni"}]}"#,
            "`plugins` holds no plugin to chain behind",
        ),
        (
            r#"{"name":"n","plugins":["a",{"type":"b"}]}"#,
            "entry 0 of `plugins` is not an object with a `type`",
        ),
        (
            r#"{"name":"n","plugins":[{"type":"b"},{"type":7}]}"#,
            "entry 1 of `plugins` is not an object with a `type`",
        ),
        (
            r#"{"name":"n","Plugins":[{"type":"b"}]}"#,
            "`Plugins` has to be `plugins`: no runtime reads that key of a list in another case",
        ),
        (
            r#"{"NAME":"n","plugins":[{"type":"b"}]}"#,
            "`NAME` has to be `name`: no runtime reads that key of a list in another case",
        ),
        (
            r#"{"plugins":[{"type":"b"}]}"#,
            "`name` is missing or not a string: no runtime loads a network without one",
        ),
    ] {
        assert_eq!(
            read(text.as_bytes(), true).unwrap_err().to_string(),
            why,
            "{text}"
        );
    }
    let alone = br#"{"name":"linkerd-cni","type":"linkerd-cni"}"#;
    assert_eq!(read(alone, false), Err(Unfit::StandsAlone));
    assert_eq!(read(alone, true), Err(Unfit::Neither));
    assert_eq!(
        read(br#"{"type":"loopback"}"#, false),
        Ok(Configuration::Loopback)
    );
    assert_eq!(read(br#"{"type":"bridge"}"#, false), Err(Unfit::NoName));
}

#[test]
fn keys_in_another_case_are_what_libcni_takes_them_for() {
    let list = r#"{"name":"n","plugins":[{"Type":"a"},{"TYPE":"linkerd-cni","Linkerd":{}}]}"#;
    let with = chained(list);
    assert_eq!(with.matches("linkerd-cni").count(), 2, "{with}");
    let plain = r#"{"name":"n","plugins":[{"Type":"a"}]}"#;
    assert_eq!(unchain(list.as_bytes()).unwrap(), plain.as_bytes());
    comes_back(plain);

    let single = r#"{"Name":"n","CNIVersion":"0.4.0","cniVersion":null,"Type":"a","name":"m"}"#;
    assert_eq!(
        read(single.as_bytes(), false),
        Ok(Configuration::Single { kind: "a".into() })
    );
    let list = String::from_utf8(convert(single.as_bytes(), &entry()).unwrap()).unwrap();
    let head = format!(r#"{{"cniVersion":"0.4.0","name":"m","plugins":[{single},"#);
    assert!(list.starts_with(&head), "{list}");
    assert!(is_conversion(list.as_bytes(), single.as_bytes()));
    assert_eq!(
        read(br#"{"Name":"linkerd-cni","Type":"linkerd-cni"}"#, false),
        Err(Unfit::StandsAlone)
    );
    assert_eq!(
        read(br#"{"name":"n","plugins":[{"TYPE":"loopback"}]}"#, true),
        Ok(Configuration::Loopback)
    );
}

#[test]
fn a_single_configuration_keeps_its_name_and_version() {
    let text = "{\n    \"cniVersion\": \"0.3.1\",\n    \"name\": \"ovn\\u002dk\",\n    \"type\": \"ovn\"\n}\n";
    let list = String::from_utf8(convert(text.as_bytes(), &entry()).unwrap()).unwrap();
    let head = "{\n    \"cniVersion\": \"0.3.1\",\n    \"name\": \"ovn\\u002dk\",\n    \"plugins\": [\n        {\n            \"cniVersion\"";
    assert!(list.starts_with(head), "{list}");
    assert!(list.ends_with("        }\n    ]\n}\n"), "{list}");
    assert!(is_chained(list.as_bytes(), &entry()));
    assert!(is_conversion(list.as_bytes(), text.as_bytes()));
    assert!(is_conversion(
        &unchain(list.as_bytes()).unwrap(),
        text.as_bytes()
    ));
    assert!(!is_conversion(
        list.replace("\"ovn\"", "\"other\"").as_bytes(),
        text.as_bytes()
    ));

    let compact = r#"{"name":"n","type":"a"}"#;
    let list = String::from_utf8(convert(compact.as_bytes(), &entry()).unwrap()).unwrap();
    assert!(
        list.starts_with(
            r#"{"name":"n","plugins":[{"name":"n","type":"a"},{"name":"linkerd-cni","#
        ),
        "{list}"
    );
    assert_eq!(convert(br#"{"type":"a"}"#, &entry()), Err(Unfit::NoName));
}

/// Whitespace as people and printers leave it.
fn gap() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => Just(String::new()),
        3 => Just(" ".to_owned()),
        2 => Just("\n".to_owned()),
        2 => Just("\n    ".to_owned()),
        1 => Just("\r\n\t".to_owned()),
        1 => "[ \t\r\n]{0,6}",
    ]
}

fn scalar() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("null".to_owned()),
        Just("18446744073709551616".to_owned()),
        Just("12345678901234567890123.000e-7".to_owned()),
        "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?",
        "\"([a-z/ {}\\[\\],:é]|\\\\[\"\\\\/bfnrt]|\\\\u[0-9a-fA-F]{4}){0,12}\"",
    ]
}

fn json() -> impl Strategy<Value = String> {
    scalar().prop_recursive(8, 64, 6, |inner| {
        let items = prop::collection::vec((gap(), inner.clone(), gap()), 0..6);
        let members = prop::collection::vec((gap(), "[a-z]{1,3}", gap(), inner, gap()), 0..6);
        prop_oneof![
            items.prop_map(|v| bracketed('[', v.into_iter().map(|(a, b, c)| a + &b + &c), ']')),
            members.prop_map(|v| {
                bracketed(
                    '{',
                    v.into_iter()
                        .map(|(a, k, b, v, c)| format!("{a}\"{k}\"{b}:{b}{v}{c}")),
                    '}',
                )
            }),
        ]
    })
}

fn bracketed(open: char, items: impl Iterator<Item = String>, close: char) -> String {
    format!("{open}{}{close}", items.collect::<Vec<_>>().join(","))
}

fn plugin() -> impl Strategy<Value = String> {
    (gap(), gap(), gap(), json(), gap()).prop_map(|(a, b, c, extra, d)| {
        format!("{{{a}\"type\"{b}:{c}\"bridge\",\"extra\":{extra}{d}}}")
    })
}

fn list() -> impl Strategy<Value = String> {
    let plugins = prop::collection::vec((gap(), plugin(), gap()), 1..5);
    (gap(), gap(), json(), plugins, gap(), gap()).prop_map(|(a, b, extra, plugins, c, d)| {
        let plugins = bracketed('[', plugins.into_iter().map(|(a, p, b)| a + &p + &b), ']');
        format!("{a}{{{b}\"name\":{b}\"n\",{b}\"x\":{extra}{a},{b}\"plugins\":{a}{plugins}{c}}}{d}")
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_list_comes_back_byte_for_byte(text in list()) {
        prop_assert!(matches!(read(text.as_bytes(), true), Ok(Configuration::List { .. })), "{text}");
        let with = chain(text.as_bytes(), &entry()).unwrap().unwrap();
        prop_assert!(is_chained(&with, &entry()));
        prop_assert_eq!(unchain(&with).unwrap(), text.as_bytes());
    }

    #[test]
    fn only_what_is_added_differs(text in list()) {
        let with = chain(text.as_bytes(), &entry()).unwrap().unwrap();
        let common = text.bytes().zip(with.iter()).take_while(|(a, b)| a == *b).count();
        prop_assert!(with.ends_with(&text.as_bytes()[common..]));
    }

    #[test]
    fn a_single_one_is_known_again(plugin in plugin(), tail in gap()) {
        let text = plugin.replacen('{', "{\"name\":\"n\",", 1) + &tail;
        let with = convert(text.as_bytes(), &entry()).unwrap();
        prop_assert!(is_chained(&with, &entry()));
        prop_assert!(is_conversion(&with, text.as_bytes()));
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(text in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = (read(&text, true), read(&text, false), chain(&text, &entry()), unchain(&text), convert(&text, &entry()));
    }
}
