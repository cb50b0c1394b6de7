use proxy_init_rules::RawConfig;
use serde_json::json;

use super::*;

fn attachment(container_id: &str, ifname: &str) -> Attachment {
    Attachment {
        container_id: container_id.to_owned(),
        ifname: ifname.to_owned(),
        netns: Some("/run/netns/x".into()),
        pod: Some(PodRef {
            namespace: "ns".to_owned(),
            name: "web".to_owned(),
            uid: None,
        }),
        warnings: Vec::new(),
    }
}

fn redirect() -> (Decision, RuleSet) {
    let raw = RawConfig::from_value(&json!({
        "incoming-proxy-port": 4143, "outgoing-proxy-port": 4140, "subnets-to-ignore": ["::/0"],
    }));
    let config = Config::try_from(raw.unwrap()).unwrap();
    let rules = RuleSet::new(&config, Family::Ipv6);
    (
        Decision::redirect(BackendKind::Nft, &config, std::slice::from_ref(&rules)),
        rules,
    )
}

fn record(attachment: &Attachment, decision: Decision) -> Record {
    Record::new(
        attachment,
        "net",
        decision,
        "2023-05-17T08:50:46Z".to_owned(),
        Phases::default(),
    )
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

#[test]
fn what_is_written_is_read_back_and_private() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("records");
    let records = Records::in_directory(&directory);
    let (decision, rules) = redirect();
    records
        .write(&record(&attachment("a-b", "eth0"), decision))
        .unwrap();

    assert_eq!(mode(&directory), 0o700);
    assert_eq!(mode(&directory.join("a-b-eth0.json")), 0o600);
    let found = records.read("a-b", "eth0").unwrap();
    let Decision::Redirect {
        backend,
        rules: recorded,
        ..
    } = found.decision
    else {
        panic!("{found:?}");
    };
    assert_eq!(backend, BackendKind::Nft);
    assert_eq!(recorded[0].rule_set(), rules);

    records.remove("a-b", "eth0").unwrap();
    records.remove("a-b", "eth0").unwrap();
    assert!(fs::read_dir(&directory).unwrap().next().is_none());
}

#[test]
fn a_record_that_cannot_be_read_is_none() {
    let directory = tempfile::tempdir().unwrap();
    let records = Records::in_directory(directory.path());
    assert!(records.read("a", "eth0").is_none());
    let mut other = record(
        &attachment("a", "eth0"),
        Decision::Pass { why: Pass::NoProxy },
    );
    other.schema = SCHEMA + 1;
    records.write(&other).unwrap();
    fs::write(directory.path().join("b-eth0.json"), "{").unwrap();
    assert!(records.read("a", "eth0").is_none());
    assert!(records.read("b", "eth0").is_none());
    assert!(records.all().is_empty());
}

#[test]
fn another_redirect_of_the_same_container_is_seen() {
    let directory = tempfile::tempdir().unwrap();
    let records = Records::in_directory(directory.path());
    let first = attachment("a", "eth0");
    records.write(&record(&first, redirect().0)).unwrap();
    assert!(!records.others_of(&first));
    assert!(records.others_of(&attachment("a", "net1")));
    assert!(!records.others_of(&attachment("b", "net1")));
    let second = attachment("a", "net2");
    records
        .write(&record(&second, Decision::Pass { why: Pass::NoProxy }))
        .unwrap();
    assert!(!records.others_of(&first));
}

#[test]
fn notes_are_kept_and_a_record_of_an_earlier_version_has_none() {
    let directory = tempfile::tempdir().unwrap();
    let records = Records::in_directory(directory.path());
    let noted = redirect().0.noting(&["a sentence".to_owned()]);
    let written = record(&attachment("a", "eth0"), noted);
    records.write(&written).unwrap();
    let found = records.read("a", "eth0").unwrap();
    assert_eq!(found.decision.notes(), ["a sentence"]);

    let mut earlier = serde_json::to_value(&written).unwrap();
    let decision = earlier["decision"].as_object_mut().unwrap();
    decision.remove("notes").unwrap();
    let path = directory.path().join("a-eth0.json");
    fs::write(path, earlier.to_string()).unwrap();
    assert!(
        records
            .read("a", "eth0")
            .unwrap()
            .decision
            .notes()
            .is_empty()
    );
}
