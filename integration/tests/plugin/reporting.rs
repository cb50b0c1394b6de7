//! Whatever is in the place of the log socket, an ADD does the same.

use std::fs;
use std::os::unix::net::UnixDatagram;

use linkerd_cni_integration::api_server::TOKEN;
use linkerd_cni_integration::plugin::Call;
use linkerd_cni_integration::rules;
use linkerd_cni_integration::stage::Stage;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A directory that only the plugin sees as its own.
struct Run(TempDir);

impl Run {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    fn socket(&self) -> std::path::PathBuf {
        self.0.path().join("log.sock")
    }

    fn listen(&self) -> UnixDatagram {
        UnixDatagram::bind(self.socket()).expect("a socket")
    }

    fn seen_by(&self, call: Call) -> Call {
        let mount = "mkdir -p /run/linkerd-cni; mount --bind";
        call.with_mounts(&format!(
            "{mount} {} /run/linkerd-cni",
            self.0.path().display()
        ))
    }
}

/// Each makes another obstacle, and keeps it up as long as what it returns lives.
type Obstacle = fn(&Run) -> Option<UnixDatagram>;

const OBSTACLES: [(&str, Obstacle); 6] = [
    ("nothing", |_| None),
    ("a directory", |run| {
        fs::create_dir(run.socket()).expect("a directory");
        None
    }),
    ("a file", |run| {
        fs::write(run.socket(), "").expect("a file");
        None
    }),
    ("a socket that nobody listens on", |run| {
        drop(run.listen());
        None
    }),
    ("a queue that is full", |run| Some(full(run))),
    ("a link to somebody else's socket", |run| {
        let other = run.0.path().join("other");
        std::os::unix::fs::symlink("other", run.socket()).expect("a link");
        Some(UnixDatagram::bind(other).expect("a socket"))
    }),
];

fn full(run: &Run) -> UnixDatagram {
    let listener = run.listen();
    let sender = UnixDatagram::unbound().expect("a socket");
    sender.set_nonblocking(true).expect("nonblocking");
    while sender.send_to(b"x", run.socket()).is_ok() {}
    listener
}

#[test]
fn an_add_is_the_same_whatever_is_in_the_place_of_the_socket() {
    let free = Stage::new("meshed");
    let expected = free.add().succeed();
    let rules_of = |stage: &Stage| rules::everything(&stage.netns);
    for (what, obstacle) in OBSTACLES {
        let run = Run::new();
        let listener = obstacle(&run);
        let stage = Stage::new("meshed");
        let output = run.seen_by(stage.add()).succeed();
        assert_eq!(output.stdout, expected.stdout, "{what}");
        assert_eq!(rules_of(&stage), rules_of(&free), "{what}");
        assert!(!output.stderr.contains("log.sock"), "{what}: {output:#?}");
        let record = format!("{}-eth0.json", stage.container_id);
        assert!(run.0.path().join(record).exists(), "{what}: no record");
        if what.starts_with("a link") {
            assert_eq!(
                received(&listener.expect("it listens")),
                Vec::<Value>::new()
            );
        }
        run.seen_by(stage.del()).succeed();
    }
}

/// Counted and not timed: no wait, and no second try.
#[test]
fn a_report_costs_one_call_to_look_and_four_to_send_and_none_of_them_waits() {
    assert_eq!(calls(|_| None), Vec::<String>::new());
    for (answer, obstacle) in [
        (" = 2", (|run| Some(run.listen())) as Obstacle),
        ("EAGAIN", |run| Some(full(run))),
        ("ECONNREFUSED", |run| {
            drop(run.listen());
            None
        }),
    ] {
        let calls = calls(obstacle);
        let names: Vec<_> = calls
            .iter()
            .filter_map(|call| call.split_whitespace().nth(1)?.split('(').next())
            // A debug build looks at each descriptor before it closes it.
            .filter(|name| *name != "fcntl")
            .collect();
        assert_eq!(names, ["socket", "ioctl", "sendto", "close"], "{calls:#?}");
        let sent = calls.iter().find(|call| call.contains("sendto("));
        assert!(
            sent.is_some_and(|sent| sent.contains(answer)),
            "{answer}: {calls:#?}"
        );
    }
}

/// What an ADD calls after it looked for the socket, and before it prints its result.
fn calls(obstacle: Obstacle) -> Vec<String> {
    let run = Run::new();
    let _listener = obstacle(&run);
    let trace = run.0.path().join("trace");
    let excluded = json!({"kubeconfig": "/nowhere", "exclude-namespaces": ["emojivoto"]});
    let stage = Stage::new("meshed").top("kubernetes", excluded);
    run.seen_by(stage.add())
        .through(["/usr/bin/strace", "-f", "-o", &trace.to_string_lossy()])
        .succeed();
    let text = fs::read_to_string(&trace).expect("a trace");
    let looked = text.lines().skip_while(|line| !line.contains("log.sock"));
    let calls = looked
        .skip(1)
        .take_while(|line| !line.contains(" write(1, "));
    calls.map(str::to_owned).collect()
}

fn received(listener: &UnixDatagram) -> Vec<Value> {
    listener.set_nonblocking(true).expect("nonblocking");
    let mut buffer = vec![0; 1 << 16];
    let mut all = Vec::new();
    while let Ok(length) = listener.recv(&mut buffer) {
        all.push(serde_json::from_slice(&buffer[..length]).expect("a report is JSON"));
    }
    all
}

#[test]
fn each_add_and_each_failure_is_told_once_and_never_with_the_token() {
    let run = Run::new();
    let listener = run.listen();
    let meshed = Stage::new("meshed").top("log_level", "debug");
    run.seen_by(meshed.add()).succeed();
    run.seen_by(meshed.call("CHECK")).succeed();
    run.seen_by(Stage::new("bad-annotation").add()).fail(102);
    run.seen_by(meshed.add().stdin("{")).fail(6);
    run.seen_by(meshed.add().without("CNI_NETNS")).fail(4);
    run.seen_by(meshed.del()).succeed();
    run.seen_by(meshed.call("CHECK")).fail(101);
    let all = received(&listener);
    let told: Vec<_> = all
        .iter()
        .map(|report| {
            let outcome = &report["outcome"];
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            (
                text(&report["verb"]),
                text(&outcome["decision"]),
                outcome["code"].as_u64(),
            )
        })
        .collect();
    let told: Vec<_> = told
        .iter()
        .map(|(v, d, c)| (v.as_str(), d.as_str(), *c))
        .collect();
    let expected = [
        ("ADD", "redirect", None),
        ("ADD", "error", Some(102)),
        ("ADD", "error", Some(6)),
        ("ADD", "error", Some(4)),
        ("CHECK", "error", Some(101)),
    ];
    assert_eq!(told, expected, "{all:#?}");
    let first = &all[0];
    assert_eq!(first["namespace"], "emojivoto");
    assert_eq!(first["pod"], "web-meshed");
    assert_eq!(first["container"], meshed.container_id.as_str());
    assert_eq!(first["outcome"]["backend"], "nft");
    assert_eq!(first["requests"], 2);
    assert!(
        first["milliseconds"]["rules"].as_f64() > Some(0.0),
        "{first}"
    );
    assert!(!format!("{all:?}").contains(TOKEN));
}

#[test]
fn a_container_that_can_be_no_pod_is_told_by_its_id() {
    let run = Run::new();
    let listener = run.listen();
    let stage = Stage::new("meshed");
    let add = stage.add().pod("nifty_pasteur", "nifty_pasteur");
    run.seen_by(add).succeed();
    let all = received(&listener);
    let [told] = all.as_slice() else {
        panic!("{all:#?}");
    };
    let outcome = json!({"decision": "pass", "reason": "not-kubernetes"});
    assert_eq!(told["outcome"], outcome);
    assert_eq!((&told["namespace"], &told["pod"]), (&json!(""), &json!("")));
    assert_eq!(told["container"], stage.container_id.as_str());
}

#[test]
fn a_directory_that_kubelet_made_is_tightened_and_costs_no_pod() {
    use std::os::unix::fs::PermissionsExt;
    let run = Run::new();
    let wide = fs::Permissions::from_mode(0o755);
    fs::set_permissions(run.0.path(), wide).expect("chmod");
    let stage = Stage::new("meshed");
    let output = run.seen_by(stage.add()).succeed();
    assert!(!output.stderr.contains("WARN"), "{output:#?}");
    let mode = fs::metadata(run.0.path())
        .expect("it is there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o700);
    run.seen_by(stage.del()).succeed();
}
