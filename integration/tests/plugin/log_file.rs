//! The log file: capped, shared by many processes, and never in a pod's way.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use linkerd_cni_integration::stage::Stage;
use linkerd_cni_integration::{api_server::TOKEN, rules};
use serde_json::json;

const WRITERS: usize = 64;
const TURNS: usize = 8;

/// One line for each ADD, without a question to anybody.
fn excluded() -> Stage {
    let kubernetes = json!({"kubeconfig": "/nowhere", "exclude-namespaces": ["emojivoto"]});
    Stage::new("meshed")
        .top("kubernetes", kubernetes)
        .top("log_level", "info")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_file_has_the_lines_of_standard_error_at_its_level() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("cni.log");
    let stage = Stage::new("meshed").top("log_file", path.to_string_lossy().as_ref());
    for level in ["debug", "info"] {
        let stage = stage.call("ADD").config(&{
            let mut config = stage.config.clone();
            config["log_level"] = json!(level);
            config
        });
        let before = fs::read_to_string(&path).unwrap_or_default();
        let said = stage.succeed().stderr;
        assert!(said.contains("Redirected"), "{said}");
        assert_eq!(read(&path), before + &said, "{level}");
    }
    assert!(!read(&path).contains(TOKEN));
}

#[test]
fn sixty_four_writers_lose_no_line_while_the_file_is_rotated() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("cni.log");
    let max_bytes = 60_000;
    let stage = excluded()
        .top("log_file", path.to_string_lossy().as_ref())
        .top("log_file_max_bytes", max_bytes);
    let script = format!(
        "mount -t tmpfs none /run; mkdir /run/linkerd-cni; cat > /run/config\n\
         for w in $(seq {WRITERS}); do\n\
           (for t in $(seq {TURNS}); do\n\
             CNI_CONTAINERID=writer-$w-$t \"$@\" < /run/config > /dev/null 2>&1\n\
           done) &\n\
         done; wait; exec < /run/config"
    );
    stage.add().with_mounts(&script).succeed();

    let former = read(&directory.path().join("cni.log.1"));
    let current = read(&path);
    let container = |line: &str| {
        let (_, rest) = line
            .split_once("container=")
            .unwrap_or_else(|| panic!("half: {line}"));
        rest.split(' ').next().unwrap_or_default().to_owned()
    };
    let lines: Vec<_> = former
        .lines()
        .chain(current.lines())
        .map(container)
        .collect();
    let all: BTreeSet<_> = lines.iter().cloned().collect();
    assert_eq!(lines.len(), all.len(), "a line is there twice");
    let mut expected: BTreeSet<_> = (1..=WRITERS)
        .flat_map(|w| (1..=TURNS).map(move |t| format!("writer-{w}-{t}")))
        .collect();
    expected.insert(stage.container_id.clone());
    assert_eq!(all, expected);
    // Whoever had the file open when it was renamed still writes one line.
    let longest = former.lines().map(str::len).max().unwrap_or_default() + 1;
    assert!(
        former.len() <= max_bytes + WRITERS * longest,
        "{}",
        former.len()
    );
    assert!(current.len() <= max_bytes, "{}", current.len());
}

#[test]
fn a_file_that_cannot_be_written_costs_one_warning_and_no_pod() {
    for script in [
        "true",
        "mkdir -p log/cni.log",
        "mkdir log; mkfifo log/cni.log",
        "mkdir log; ln -s /dev/null log/cni.log",
        "mkdir log; mount -t tmpfs -o ro none log",
        "mkdir log; mount -t tmpfs -o size=4k none log; \
         head -c 9000 /dev/zero > log/full 2>/dev/null || true",
    ] {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("log/cni.log");
        let stage = Stage::new("meshed")
            .top("log_file", path.to_string_lossy().as_ref())
            .top("log_level", "debug");
        let script = format!("cd {}; {script}; cd /", directory.path().display());
        let output = stage.add().with_mounts(&script).succeed();
        let warned = output.stderr.matches("The log file ").count();
        assert_eq!(warned, 1, "{script}: {output:#?}");
        assert!(!rules::effective(&stage.netns).is_empty(), "{script}");
    }
}

#[test]
fn a_value_that_cannot_be_used_costs_a_warning_and_no_pod() {
    for (key, value, words) in [
        (
            "log_file",
            json!("cni.log"),
            "log_file: \"cni.log\" is not an absolute path",
        ),
        ("log_file", json!(7), "log_file: 7"),
        (
            "log_file_max_bytes",
            json!("10"),
            "log_file_max_bytes: \"10\"",
        ),
    ] {
        let output = excluded().top(key, value).add().succeed();
        output.logs(&["WARN", words, "there is no log file"]);
    }
}
