//! A system call that fails, whichever it is: ADD has done its work, or says why
//! not and has left nothing.

use std::fs;
use std::thread;

use linkerd_cni_integration::backends::{self, Backend};
use linkerd_cni_integration::plugin::Output;
use linkerd_cni_integration::rules;
use linkerd_cni_integration::stage::Stage;
use tempfile::TempDir;

/// Calls of the plugin, its threads and its programs, and what they fail with.
const CALLS: [(&str, &[&str]); 16] = [
    ("openat", &["EMFILE", "EACCES"]),
    ("read", &["EIO"]),
    ("memfd_create", &["EMFILE", "ENOSYS", "EPERM"]),
    ("setns", &["EPERM", "ENOSYS"]),
    ("fstatfs", &["EPERM", "ENOSYS"]),
    ("flock", &["ENOLCK", "EPERM"]),
    ("fcntl", &["EPERM"]),
    ("clone3", &["EAGAIN", "EPERM"]),
    ("clone", &["EAGAIN"]),
    ("pipe2", &["EMFILE"]),
    ("poll", &["ENOMEM"]),
    ("epoll_create1", &["EMFILE"]),
    ("socket", &["EMFILE", "EPERM"]),
    ("connect", &["ENETUNREACH"]),
    ("mkdir", &["EROFS"]),
    ("rename", &["ENOSPC", "EROFS"]),
];

#[test]
fn a_call_that_fails_at_any_place_of_add_is_got_over_or_told_and_leaves_nothing() {
    thread::scope(|scope| {
        // `plain` runs the programs of one of the others.
        for backend in backends::all().into_iter().filter(|b| b.mode != "plain") {
            scope.spawn(move || each_call_fails(backend));
        }
    });
}

fn each_call_fails(backend: Backend) {
    let fresh = stage(backend);
    fresh.add().succeed();
    let once = rules::effective(&fresh.netns);
    for (call, errors) in CALLS {
        for error in errors {
            for nth in places() {
                let stage = stage(backend);
                let when = format!("{}: {error} at {call} number {nth}", backend.mode);
                let Some(output) = failing(&stage, call, error, nth) else {
                    break;
                };
                judge(&stage, &output, &when);
                stage.add().succeed();
                assert_eq!(once, rules::effective(&stage.netns), "{when}");
                stage.del().succeed();
            }
        }
    }
}

/// Which calls of a kind fail: the first few are the plugin's own. All of them if
/// `LINKERD_CNI_TEST_EVERY_CALL` is set.
fn places() -> Vec<usize> {
    let every = std::env::var_os("LINKERD_CNI_TEST_EVERY_CALL").is_some();
    (1..25)
        .filter(|nth| every || *nth < 7 || nth % 6 == 0)
        .collect()
}

fn judge(stage: &Stage, output: &Output, when: &str) {
    assert!(!output.stderr.contains("panicked"), "{when}: {output:#?}");
    let rules = rules::effective(&stage.netns);
    match output.exit {
        Some(0) => assert!(!rules.is_empty(), "{when}: {output:#?}"),
        // A build that is not static may not even get as far as `main`.
        Some(127) if output.stderr.contains("shared librar") => {}
        _ => {
            assert!(output.code().is_some(), "{when}: {output:#?}");
            assert!(!output.msg().is_empty(), "{when}: {output:#?}");
            assert!(rules.is_empty(), "{when}: {rules:#?} {output:#?}");
        }
    }
}

/// ADD with the nth of these calls failing, in each of its processes; `None` if
/// there was no such call any more.
fn failing(stage: &Stage, call: &str, error: &str, nth: usize) -> Option<Output> {
    let directory = TempDir::with_prefix("lct-trace-").expect("a temporary directory");
    let trace = directory.path().join("trace");
    let inject = format!("inject={call}:error={error}:when={nth}");
    let out = trace.to_string_lossy().into_owned();
    let words = ["/usr/bin/strace", "-f", "-o", &out, "-e", &inject];
    let output = stage.add().through(words).run();
    let trace = fs::read_to_string(trace).expect("strace wrote its trace");
    trace.contains("(INJECTED)").then_some(output)
}

fn stage(backend: Backend) -> Stage {
    Stage::new("annotated").linkerd("iptables-mode", backend.mode)
}
