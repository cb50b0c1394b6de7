use proptest::prelude::*;

use super::*;
use crate::conflist::{self, Entry, Tree, is_chained};

fn entry() -> Entry {
    Entry::new(
        Tree::parse(r#"{"type":"linkerd-cni","linkerd":{}}"#)
            .unwrap()
            .unwrap(),
    )
}

fn files(all: &[(&str, &str)]) -> Files {
    all.iter()
        .map(|(name, text)| (name.into(), Found::Text(text.as_bytes().to_vec())))
        .collect()
}

fn settle(files: &mut Files, plan: impl Fn(&Files) -> Plan) {
    for _ in 0..7 {
        let plan = plan(files);
        if plan.changes.is_empty() {
            return;
        }
        plan.changes
            .iter()
            .for_each(|change| change.apply_to(files));
    }
    panic!("does not settle: {files:?}");
}

fn chain_all(files: &mut Files) {
    settle(files, |files| {
        chaining(files, &entry(), None, &Ignored::default())
    });
}

const LIST: &str = r#"{"name":"n","plugins":[{"type":"a"}]}"#;
const SINGLE: &str = r#"{"name":"s","cniVersion":"0.4.0","type":"a"}"#;
const OTHER: &str = r#"{"name":"s","cniVersion":"0.4.0","type":"a","mtu":9000}"#;

#[test]
fn a_single_configuration_becomes_a_list_and_comes_back() {
    let before = files(&[
        ("00-a.conf", SINGLE),
        ("10-b.json", SINGLE),
        ("20-c.conflist", LIST),
    ]);
    let mut node = before.clone();
    chain_all(&mut node);
    let names: Vec<_> = node.keys().map(|n| n.to_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "00-a.conf.linkerd-cni-original",
            "00-a.conflist",
            "10-b.conflist",
            "10-b.json.linkerd-cni-original",
            "20-c.conflist"
        ]
    );
    settle(&mut node, removal);
    assert_eq!(node, before);
}

#[test]
fn a_conversion_that_was_cut_short_is_completed() {
    let mut node = files(&[("a.conf", SINGLE)]);
    for _ in 0..2 {
        chaining(&node, &entry(), None, &Ignored::default()).changes[0].apply_to(&mut node);
    }
    assert!(node.contains_key(OsStr::new("a.conf")));
    let mut undone = node.clone();
    settle(&mut undone, removal);
    assert_eq!(undone, files(&[("a.conf", SINGLE)]));
    chain_all(&mut node);
    assert!(!node.contains_key(OsStr::new("a.conf")));
    settle(&mut node, removal);
    assert_eq!(node, files(&[("a.conf", SINGLE)]));
}

#[test]
fn a_converted_file_that_its_agent_writes_again_is_converted_again() {
    let mut node = files(&[("a.conf", SINGLE)]);
    chain_all(&mut node);
    node.extend(files(&[("a.conf", OTHER)]));
    chain_all(&mut node);
    assert!(!node.contains_key(OsStr::new("a.conf")));
    settle(&mut node, removal);
    assert_eq!(node, files(&[("a.conf", OTHER)]));
}

#[test]
fn a_file_that_its_agent_writes_again_amid_a_conversion_is_converted_again() {
    for step in 1..=4 {
        let mut node = files(&[("a.conf", SINGLE)]);
        for _ in 0..step {
            let plan = chaining(&node, &entry(), None, &Ignored::default());
            plan.changes
                .iter()
                .for_each(|change| change.apply_to(&mut node));
        }
        node.extend(files(&[("a.conf", OTHER)]));
        let mut undone = node.clone();
        settle(&mut undone, removal);
        assert_eq!(undone, files(&[("a.conf", OTHER)]), "step {step}");
        chain_all(&mut node);
        assert!(!node.contains_key(OsStr::new("a.conf")), "step {step}");
        settle(&mut node, removal);
        assert_eq!(node, files(&[("a.conf", OTHER)]), "step {step}");
    }
}

#[test]
fn a_list_that_is_beside_a_single_configuration_is_the_only_one_chained() {
    let mut node = files(&[("a.conf", SINGLE), ("a.conflist", LIST)]);
    let same = format!(r#"{{"name":"s","cniVersion":"0.4.0","plugins":[{SINGLE}]}}"#);
    node.extend(files(&[("b.conf", SINGLE), ("b.conflist", &same)]));
    chain_all(&mut node);
    assert_eq!(text(&node, OsStr::new("a.conf")), Some(SINGLE.as_bytes()));
    assert_eq!(text(&node, OsStr::new("b.conf")), Some(SINGLE.as_bytes()));
    assert!(is_chained(
        text(&node, OsStr::new("a.conflist")).unwrap(),
        &entry()
    ));
    settle(&mut node, removal);
    let plain = [
        ("a.conf", SINGLE),
        ("a.conflist", LIST),
        ("b.conf", SINGLE),
        ("b.conflist", &same),
    ];
    assert_eq!(node, files(&plain));
}

#[test]
fn what_others_changed_meanwhile_is_kept() {
    let mut node = files(&[("a.conf", SINGLE)]);
    chain_all(&mut node);
    node.extend(files(&[("a.conflist", LIST)]));
    chain_all(&mut node);
    settle(&mut node, removal);
    assert_eq!(
        node,
        files(&[
            ("a.conf.linkerd-cni-original", SINGLE),
            ("a.conflist", LIST)
        ])
    );

    let mut node = files(&[("a.conf", SINGLE)]);
    chain_all(&mut node);
    node.extend(files(&[("a.conf", OTHER)]));
    settle(&mut node, removal);
    assert_eq!(node, files(&[("a.conf", OTHER)]));
}

#[test]
fn a_renamed_list_is_unchained_too() {
    let mut node = files(&[("a.conflist", LIST)]);
    chain_all(&mut node);
    let chained = node.remove(OsStr::new("a.conflist")).unwrap();
    node.insert("a.conflist.cilium_bak".into(), chained);
    settle(&mut node, removal);
    assert_eq!(node, files(&[("a.conflist.cilium_bak", LIST)]));
}

#[test]
fn a_list_without_any_of_its_plugins_is_not_chained() {
    let executables = Executables {
        dir: "/opt/cni/bin".into(),
        names: ["b".to_owned()].into(),
    };
    let plan = chaining(
        &files(&[("a.conflist", LIST), ("b.conf", SINGLE)]),
        &entry(),
        Some(&executables),
        &Ignored::default(),
    );
    assert_eq!((plan.changes.len(), plan.findings.len()), (0, 2));
    assert!(
        plan.findings[0]
            .what
            .contains("none of its plugins (a) is in /opt/cni/bin")
    );
}

#[test]
fn the_first_loadable_is_the_one_that_libcni_takes() {
    let first = |all: &[(&str, &str)]| first_loadable(&files(all), &entry()).map(|(name, _)| name);
    assert_eq!(
        first(&[
            ("a.conf", LIST),
            ("b.conflist", SINGLE),
            ("c.conflist", LIST)
        ]),
        Some("c.conflist".into())
    );
    assert_eq!(
        first(&[("a.txt", LIST), ("b.json", SINGLE), ("a.conflist", "")]),
        Some("b.json".into())
    );
    assert_eq!(first(&[("lo.conf", r#"{"type":"loopback"}"#)]), None);
}

#[test]
fn a_list_under_another_extension_is_named_and_an_entry_of_ours_in_it_goes() {
    let ours = r#"{"name":"n","plugins":[{"type":"a"},{"type":"linkerd-cni"}]}"#;
    for (name, rename) in [("a.conf", "a.conflist"), ("a.json", "a.conflist")] {
        let mut node = files(&[(name, ours), ("b.conflist", LIST)]);
        let plan = chaining(&node, &entry(), None, &Ignored::default());
        let what = &plan.findings[0].what;
        assert!(
            what.ends_with(&format!("rename the file to {rename}")),
            "{what}"
        );
        assert_eq!(plan.chained, 1);
        chain_all(&mut node);
        assert_eq!(text(&node, OsStr::new(name)), Some(LIST.as_bytes()));
        assert_eq!(
            first_loadable(&node, &entry()),
            Some(("b.conflist".into(), true))
        );
    }
}

#[test]
fn beside_a_list_that_no_runtime_loads_the_single_configuration_is_chained() {
    for broken in [
        "",
        "{",
        "[]",
        r#"{"name":"s","plugins":{}}"#,
        r#"{"name":"s","plugins":[{"name":"s","type":7}]}"#,
        r#"{"plugins":[{"type":"a"}]}"#,
    ] {
        let before = files(&[("a.conf", SINGLE), ("a.conflist", broken)]);
        let mut node = before.clone();
        let first = chaining(&node, &entry(), None, &Ignored::default());
        assert_eq!(first.findings[0].file, "a.conflist", "{broken}");
        chain_all(&mut node);
        assert_eq!(
            text(&node, OsStr::new("a.conflist")),
            Some(broken.as_bytes())
        );
        // What was the first stays the first.
        let (name, chained) = first_loadable(&node, &entry()).unwrap();
        assert!(chained && name == "a.conf.conflist", "{name:?}");
        let files_of_ignored = Ignored::parse("a.conf").unwrap();
        let mut ignored = node.clone();
        settle(&mut ignored, |files| {
            chaining(files, &entry(), None, &files_of_ignored)
        });
        assert_eq!(ignored, before);
        let mut undone = node.clone();
        settle(&mut undone, removal);
        assert_eq!(undone, before);

        // Its agent was only not ready with it.
        node.extend(files(&[("a.conflist", LIST)]));
        chain_all(&mut node);
        assert_eq!(
            first_loadable(&node, &entry()),
            Some(("a.conflist".into(), true))
        );
    }
}

#[test]
fn what_is_ignored_is_not_chained_and_what_was_chained_is_given_back() {
    let before = files(&[
        ("10-a.conflist", LIST),
        ("87-podman-bridge.conflist", LIST),
        ("87-x.conf", SINGLE),
    ]);
    let mut node = before.clone();
    chain_all(&mut node);
    assert!(node.contains_key(OsStr::new("87-x.conflist")));
    let ignored = Ignored::parse("87-podman*.conflist,87-x.conf").unwrap();
    settle(&mut node, |files| chaining(files, &entry(), None, &ignored));
    let mut expected = before;
    expected.remove(OsStr::new("10-a.conflist"));
    let chained = node.remove(OsStr::new("10-a.conflist")).unwrap();
    assert!(is_chained(chained.text().unwrap(), &entry()));
    assert_eq!(node, expected);

    // Without the other, the runtime takes one of these: that is a fault.
    let plan = chaining(&node, &entry(), None, &ignored);
    assert_eq!((plan.changes.len(), plan.chained), (0, 0));
    let faults: Vec<_> = plan.findings.iter().map(|f| f.fault).collect();
    assert_eq!(faults, [true, false], "{:?}", plan.findings);
}

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "a.conf",
        "a.conf.conflist",
        "a.conflist",
        "a.json",
        "b.conf",
        "c.conflist",
        "b.conf.linkerd-cni-original",
    ])
    .prop_map(str::to_owned)
}

fn content() -> impl Strategy<Value = String> {
    let ours = r#"{"name":"n","plugins":[{"type":"linkerd-cni"},{"type":"b"}]}"#;
    prop::sample::select(vec![LIST, SINGLE, OTHER, "", "{\"name\":", "[]", ours])
        .prop_map(str::to_owned)
}

#[test]
fn a_step_that_fails_does_not_take_the_network_away() {
    for (start, plan) in [
        (
            vec![("a.conf", SINGLE)],
            (|files: &Files| chaining(files, &entry(), None, &Ignored::default()))
                as fn(&Files) -> Plan,
        ),
        (
            vec![("a.conf.linkerd-cni-original", SINGLE), ("a.conflist", "")],
            removal,
        ),
    ] {
        let mut node = files(&start);
        if let Some(list) = node.get_mut(OsStr::new("a.conflist")) {
            *list = Found::Text(conflist::convert(SINGLE.as_bytes(), &entry()).unwrap());
        }
        for _ in 0..5 {
            for failing in 0..plan(&node).changes.len() {
                let mut node = node.clone();
                let steps = plan(&node).changes;
                steps
                    .iter()
                    .enumerate()
                    .filter(|(i, _)| *i != failing)
                    .for_each(|(_, c)| c.apply_to(&mut node));
                assert!(first_loadable(&node, &entry()).is_some(), "{node:?}");
            }
            plan(&node)
                .changes
                .iter()
                .for_each(|change| change.apply_to(&mut node));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// Outside writes fall between any two steps of ours; when they are over,
    /// the node is chained, a second plan is empty, and it can be undone.
    #[test]
    fn any_interleaving_converges(
        writes in prop::collection::vec((name(), prop::option::of(content()), any::<bool>()), 0..24),
    ) {
        let mut node = Files::new();
        for (name, content, step) in writes {
            match content {
                Some(text) => { node.insert(name.into(), Found::Text(text.into_bytes())); }
                None => { node.remove(OsStr::new(&name)); }
            }
            if step && let Some(change) = chaining(&node, &entry(), None, &Ignored::default()).changes.first() {
                change.apply_to(&mut node);
            }
        }
        chain_all(&mut node);
        for (name, found) in node.iter().filter(|(name, _)| is_list(name)) {
            if let Ok(conflist::Configuration::List { .. }) = conflist::read(found.text().unwrap(), true) {
                prop_assert!(is_chained(found.text().unwrap(), &entry()), "{:?}", name);
            }
        }
        settle(&mut node, removal);
        for (name, found) in node.iter().filter(|(name, _)| !is_original(name)) {
            prop_assert_eq!(conflist::unchain(found.text().unwrap()), None, "{:?}", name);
        }
    }
}
