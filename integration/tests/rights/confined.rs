//! A hardened host: a filter of system calls, a read-only root, few capabilities.

use std::sync::Mutex;
use std::thread;

use linkerd_cni_integration::backends;
use linkerd_cni_integration::plugin::Call;
use linkerd_cni_integration::rules;
use linkerd_cni_integration::stage::Stage;
use tempfile::TempDir;

use super::capabilities::{limited, needed};

const RIGHTS: &str = include_str!("../../../plugin/RIGHTS.md");

/// Without these nothing of the kind runs, whoever wrote it.
const OF_EVERY_PROCESS: [&str; 16] = [
    "arch_prctl",
    "brk",
    "execve",
    "exit",
    "exit_group",
    "futex",
    "mmap",
    "mprotect",
    "munmap",
    "poll",
    "pselect6",
    "read",
    "rt_sigaction",
    "rt_sigprocmask",
    "wait4",
    "write",
];

/// What is said, by the error or the log, when a call is refused; the others have
/// another way, or the same words.
const WORDS: [(&str, &str); 11] = [
    ("clone3", "could not be started"),
    ("connect", "can this node reach the API server"),
    ("epoll_create1", "the API client could not be started"),
    ("eventfd2", "the API client could not be started"),
    ("flock", "cannot be locked"),
    ("fstatfs", "cannot be told from an ordinary file"),
    ("memfd_create", "no memory for its input"),
    (
        "setns",
        "takes CAP_SYS_ADMIN, and a seccomp filter that allows setns",
    ),
    ("setpgid", "could not be started"),
    ("socket", "can this node reach the API server"),
    ("socketpair", "the API client could not be started"),
];

/// The calls that `RIGHTS.md` lists, by the names that they have on this machine.
fn documented() -> Vec<&'static str> {
    let block = RIGHTS
        .split("```text\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next());
    let calls: Vec<_> = block.expect("there is a list").split_whitespace().collect();
    assert!(calls.len() > 50, "{calls:?}");
    calls.into_iter().filter_map(here).collect()
}

/// Later architectures never had the calls that a newer one does the work of.
fn here(call: &'static str) -> Option<&'static str> {
    if cfg!(target_arch = "x86_64") {
        return Some(call);
    }
    match call {
        "access" => Some("faccessat"),
        "alarm" => Some("setitimer"),
        "arch_prctl" => None,
        "dup2" => Some("dup3"),
        "epoll_wait" => Some("epoll_pwait"),
        "mkdir" => Some("mkdirat"),
        "poll" => Some("ppoll"),
        "readlink" => Some("readlinkat"),
        "rename" => Some("renameat"),
        "unlink" => Some("unlinkat"),
        call => Some(call),
    }
}

fn filtered(call: Call, allowed: &[&str]) -> Call {
    call.through([
        env!("CARGO_BIN_EXE_linkerd-cni-confine"),
        &allowed.join(","),
    ])
}

/// Everything is read-only, but the plugin's own directory.
fn read_only(call: Call, records: &TempDir) -> Call {
    call.with_mounts(&format!(
        "mkdir -p /run/linkerd-cni\n\
         awk '{{print $5}}' /proc/self/mountinfo | while read -r mounted; do\n\
         mount -o remount,bind,ro \"$mounted\" 2>/dev/null || true; done\n\
         mount --bind {records} /run/linkerd-cni; mount -o remount,bind,rw /run/linkerd-cni\n\
         for directory in / /run /tmp /etc /var; do\n\
         if touch $directory/lct-writable 2>/dev/null; then exit 99; fi; done",
        records = records.path().display(),
    ))
}

#[test]
fn every_verb_works_on_a_hardened_host() {
    let allowed = documented();
    for backend in backends::all() {
        let free = Stage::new("annotated").linkerd("iptables-mode", backend.mode);
        free.add().succeed();
        let stage = Stage::new("annotated").linkerd("iptables-mode", backend.mode);
        let records = TempDir::with_prefix("lct-records-").expect("a temporary directory");
        let run = |verb| {
            let call = read_only(stage.call(verb), &records);
            let output = filtered(limited(call, needed(backend.tables)), &allowed).succeed();
            assert!(
                verb == "GC" || !output.stderr.contains(" WARN "),
                "{verb}: {output:#?}"
            );
        };
        let count = || std::fs::read_dir(records.path()).map_or(0, Iterator::count);
        for _ in 0..2 {
            run("ADD");
            assert_eq!(
                rules::effective(&free.netns),
                rules::effective(&stage.netns),
                "{}",
                backend.mode
            );
            run("CHECK");
        }
        assert_eq!(count(), 1);
        for verb in ["STATUS", "GC", "VERSION", "DEL"] {
            run(verb);
        }
        assert!(
            rules::effective(&stage.netns).is_empty(),
            "{}",
            backend.mode
        );
        assert_eq!(count(), 0);
    }
}

#[test]
fn a_call_that_the_filter_refuses_is_told_and_leaves_nothing() {
    let mut calls = documented();
    calls.retain(|call| !OF_EVERY_PROCESS.contains(call));
    let waiting = Mutex::new(calls);
    // Where the API server cannot be reached, most of the time is waited for.
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().expect("nobody panicked").pop();
                    let Some(call) = next else { break };
                    refused(call);
                }
            });
        }
    });
}

fn refused(call: &str) {
    let mut allowed = documented();
    allowed.retain(|other| *other != call);
    let stage = Stage::new("annotated");
    let output = filtered(stage.add(), &allowed).run();
    let rules = rules::effective(&stage.netns);
    match output.exit {
        Some(0) => assert!(!rules.is_empty(), "{call}: {output:#?}"),
        // A build that is not static may not even get as far as `main`.
        Some(127) if output.stderr.contains("shared libraries") => {}
        _ => {
            assert!(output.code().is_some(), "{call}: {output:#?}");
            assert!(rules.is_empty(), "{call}: {rules:#?} {output:#?}");
            // tokio knows no other way when it cannot wait; it is caught.
            let caught = call.starts_with("epoll_") && output.code() == Some(104);
            assert!(caught || !output.stderr.contains("panicked"), "{output:#?}");
        }
    }
    if let Some((_, words)) = WORDS.iter().find(|(of, _)| *of == call) {
        let said = format!("{} {}", output.details(), output.stderr);
        let said = said + output.msg();
        assert!(said.contains(words), "{call}: {output:#?}");
    }
    stage.del().succeed();
}
