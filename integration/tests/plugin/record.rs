//! What ADD leaves on the node, and who may read it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use linkerd_cni_integration::rules;
use linkerd_cni_integration::stage::{RECORDS, Stage};
use serde_json::Value;

fn mode(path: &Path) -> u32 {
    let metadata = fs::metadata(path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    metadata.permissions().mode() & 0o7777
}

#[test]
fn the_record_is_for_root_alone_whatever_the_umask() {
    for umask in ["0", "022", "0777"] {
        let stage = Stage::new("meshed");
        let script = format!("umask {umask}; exec \"$@\"");
        stage
            .add()
            .through(["/bin/sh", "-c", &script, "sh"])
            .succeed();
        assert_eq!(mode(&stage.record("eth0")), 0o600, "umask {umask}");
        assert_eq!(mode(Path::new(RECORDS)), 0o700, "umask {umask}");
    }
}

#[test]
fn the_record_tells_what_was_decided() {
    let stage = Stage::new("annotated");
    stage.add().succeed();
    let text = fs::read_to_string(stage.record("eth0")).expect("there is a record");
    let record: Value = serde_json::from_str(&text).expect("a record is JSON");
    assert!(record.is_object());
    let netns = stage.netns.path();
    for part in [
        "web-annotated",
        "emojivoto",
        &netns.to_string_lossy(),
        "nft",
        "4191,4190,222,5432:5433,8081,9000:9010",
        "fd00::/8",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn no_temporary_file_stays_beside_it() {
    let stage = Stage::new("meshed");
    stage.add().succeed();
    stage.add().succeed();
    let entries = fs::read_dir(RECORDS).expect("the directory is there");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let ours: Vec<_> = names
        .map(|name| name.to_string_lossy().into_owned())
        .filter(|name| name.contains(&format!("{}-", stage.container_id)))
        .collect();
    assert_eq!(ours, [format!("{}-eth0.json", stage.container_id)]);
}

#[test]
fn del_removes_the_record() {
    let stage = Stage::new("meshed");
    stage.add().succeed();
    stage.del().succeed();
    assert!(!stage.record("eth0").exists());
}

#[test]
fn a_record_that_is_broken_or_of_another_version_is_no_error() {
    for text in [
        "",
        "{",
        "[]",
        "null",
        "{\"schema\": 99}",
        "{\"version\": \"x\"}",
        "\0\0",
    ] {
        let stage = Stage::new("meshed");
        stage.add().succeed();
        let once = rules::everything(&stage.netns);
        fs::write(stage.record("eth0"), text).expect("the record can be spoilt");
        stage.add().succeed();
        assert_eq!(once, rules::everything(&stage.netns), "{text:?}");

        fs::write(stage.record("eth0"), text).expect("the record can be spoilt");
        stage.del().succeed();
        assert!(rules::effective(&stage.netns).is_empty(), "{text:?}");
        assert!(!stage.record("eth0").exists(), "{text:?}");
    }
}

#[test]
fn the_rules_stay_as_long_as_another_attachment_of_the_container_does() {
    let stage = Stage::new("meshed");
    stage.add().succeed();
    let once = rules::everything(&stage.netns);
    stage.add().interface("net1").succeed();
    assert_eq!(once, rules::everything(&stage.netns));

    stage.del().interface("net1").succeed();
    assert_eq!(once, rules::everything(&stage.netns));
    assert!(stage.record("eth0").exists() && !stage.record("net1").exists());

    stage.add().interface("net2").succeed();
    stage.del().succeed();
    assert_eq!(once, rules::everything(&stage.netns), "net2 is still there");
    stage.del().interface("net2").succeed();
    assert!(rules::effective(&stage.netns).is_empty());
}

#[test]
fn a_container_whose_name_begins_like_another_is_another() {
    let first = Stage::new("meshed");
    let mut second = Stage::new("meshed");
    second.container_id = format!("{}-eth0", first.container_id);
    first.add().succeed();
    second.add().succeed();
    first.del().succeed();
    assert!(rules::effective(&first.netns).is_empty());
    assert!(!rules::effective(&second.netns).is_empty());
    assert!(second.record("eth0").exists());
}
