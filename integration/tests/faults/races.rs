//! Others are at work in the pod's namespace while ADD is.

use std::fs;
use std::process::Child;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use linkerd_cni_integration::backends;
use linkerd_cni_integration::fake::{ALL, Fakes};
use linkerd_cni_integration::kubeconfig::{self, Contents};
use linkerd_cni_integration::netns::Netns;
use linkerd_cni_integration::process;
use linkerd_cni_integration::rules::{self, Tables};
use linkerd_cni_integration::stage::Stage;
use tempfile::TempDir;

#[test]
fn a_namespace_that_is_deleted_before_add_opens_it_is_named() {
    let stage = Stage::new("meshed");
    delete(&stage.netns);
    let path = stage.netns.path();
    stage
        .add()
        .fail(8)
        .says(&["CNI_NETNS", &path.to_string_lossy()]);
}

#[test]
fn a_namespace_that_is_deleted_while_the_api_server_is_asked_ends_in_an_answer() {
    for backend in backends::all() {
        let stage = Stage::new("meshed").linkerd("iptables-mode", backend.mode);
        stage.api.set_token("another");
        let (netns, path) = (Arc::clone(&stage.netns), stage.kubeconfig.path());
        let contents = Contents {
            token: "another".to_owned(),
            ..Contents::of(&stage.api)
        };
        stage.api.on_unauthorized(move || {
            delete(&netns);
            kubeconfig::replace(&path, &contents.yaml());
        });
        let output = stage.add().fail(8);
        output.says(&["CNI_NETNS", &stage.netns.path().to_string_lossy()]);
        assert!(!stage.record("eth0").exists(), "{output:#?}");
        stage.del().succeed();
    }
}

#[test]
fn a_namespace_that_is_deleted_while_a_program_works_in_it_ends_in_an_answer() {
    for backend in backends::with_programs() {
        let stage = Stage::new("meshed").linkerd("iptables-mode", backend.mode);
        let fakes = Fakes::new();
        for name in ALL {
            let deletes = format!(
                "ip netns del {} 2>/dev/null; exec /usr/sbin/{name}-restore \"$@\"",
                stage.netns.name(),
            );
            fakes.script(&format!("{name}-restore"), &deletes);
        }
        // It lives as long as somebody is in it: the rules go with it.
        stage.add().env("PATH", fakes.first_on_path()).succeed();
        stage.del().succeed();
        assert!(!stage.record("eth0").exists());
    }
}

#[test]
fn a_namespace_that_is_deleted_at_any_moment_never_crashes_add_and_del_cleans_up() {
    for backend in backends::all() {
        for moment in 0..20 {
            let stage = Stage::new("meshed").linkerd("iptables-mode", backend.mode);
            let add = stage.add();
            let adding = thread::spawn(move || add.run());
            thread::sleep(Duration::from_micros(700 * moment));
            delete(&stage.netns);
            let output = adding.join().expect("it answers");
            assert!(!output.stderr.contains("panicked"), "{output:#?}");
            match output.exit {
                Some(0) => {}
                _ => assert!(
                    matches!(output.code(), Some(5 | 8 | 11 | 100)),
                    "{output:#?}"
                ),
            }
            stage.del().succeed();
            assert!(!stage.record("eth0").exists(), "{output:#?}");
        }
    }
}

#[test]
fn rules_that_others_change_at_the_same_moment_neither_fail_us_nor_are_lost() {
    for backend in backends::all() {
        let fresh = Stage::new("annotated").linkerd("iptables-mode", backend.mode);
        fresh.add().succeed();
        let wanted = rules::effective(&fresh.netns);

        let stage = Stage::new("annotated").linkerd("iptables-mode", backend.mode);
        let other = Meddler::start(&stage.netns, backend.tables);
        for _ in 0..10 {
            for _ in 0..2 {
                let output = stage.add().succeed();
                let ours = without_theirs(&stage.netns);
                assert!(wanted == ours, "{}: {ours:#?} {output:#?}", backend.mode);
                stage.call("CHECK").succeed();
            }
            stage.del().succeed();
            let left = without_theirs(&stage.netns);
            assert!(left.is_empty(), "{}: {left:#?}", backend.mode);
        }
        let added = other.stop();
        let kept = rules::effective(&stage.netns)
            .iter()
            .filter(|line| line.contains("kept"))
            .count();
        assert!(added > 0, "{}: nothing was meddled with", backend.mode);
        assert!(kept >= added, "{}: {kept} of {added}", backend.mode);
    }
}

#[test]
fn del_during_add_leaves_all_rules_or_none_and_del_after_it_none() {
    for backend in backends::all() {
        let fresh = Stage::new("annotated").linkerd("iptables-mode", backend.mode);
        fresh.add().succeed();
        let once = rules::effective(&fresh.netns);
        for moment in 0..20 {
            let stage = Stage::new("annotated").linkerd("iptables-mode", backend.mode);
            let (add, del) = (stage.add(), stage.del());
            let adding = thread::spawn(move || add.succeed());
            thread::sleep(Duration::from_micros(1500 * moment));
            del.succeed();
            adding.join().expect("ADD succeeds");
            let found = rules::effective(&stage.netns);
            assert!(
                found.is_empty() || found == once,
                "{} {moment}: {found:#?}",
                backend.mode
            );
            stage.del().succeed();
            assert!(
                rules::effective(&stage.netns).is_empty(),
                "{}",
                backend.mode
            );
            assert!(!stage.record("eth0").exists());
        }
    }
}

#[test]
fn del_waits_for_an_add_that_is_in_the_middle_of_its_rules() {
    for backend in backends::with_programs() {
        let stage = Stage::new("annotated").linkerd("iptables-mode", backend.mode);
        let fakes = Fakes::new();
        let started = fakes.path().join("started");
        for name in ALL {
            let slow = format!(
                "touch {}; sleep 0.7; exec /usr/sbin/{name}-restore \"$@\"",
                started.display(),
            );
            fakes.script(&format!("{name}-restore"), &slow);
        }
        let add = stage.add().env("PATH", fakes.first_on_path());
        let adding = thread::spawn(move || add.succeed());
        while !started.exists() {
            thread::sleep(Duration::from_millis(1));
        }
        stage.del().succeed();
        adding.join().expect("ADD succeeds");
        let left = rules::effective(&stage.netns);
        assert!(left.is_empty(), "{}: {left:#?}", backend.mode);
    }
}

fn delete(netns: &Netns) {
    process::run("ip", &["netns", "del", netns.name()]).expect("it is there");
}

/// What a connection notices, less what the other program put there.
fn without_theirs(netns: &Netns) -> Vec<String> {
    let mut lines = rules::effective(netns);
    lines.retain(|line| !line.contains("somebody"));
    lines
}

/// A program that changes rules of the namespace without a pause, under a lock
/// that nobody else knows.
struct Meddler {
    child: Child,
    directory: TempDir,
}

// === impl Meddler ===

impl Meddler {
    fn start(netns: &Netns, tables: Tables) -> Self {
        let directory = TempDir::with_prefix("lct-meddler-").expect("a temporary directory");
        let program = match tables {
            Tables::Nft => "iptables-nft",
            Tables::Legacy => "iptables-legacy",
        };
        let script = format!(
            "cd {directory}; export XTABLES_LOCKFILE=$PWD/lock; n=0\n\
             try() {{ {program} -w 5 -t nat \"$@\" 2>/dev/null; }}\n\
             while [ ! -e stop ]; do n=$((n + 1))\n\
             try -A OUTPUT -p udp -d 192.0.$((n / 250)).$((n % 250)) -m comment --comment somebody-kept -j ACCEPT && echo >> ok\n\
             try -A OUTPUT -p udp -d 192.0.2.0 -m comment --comment somebody -j ACCEPT\n\
             try -D OUTPUT -p udp -d 192.0.2.0 -m comment --comment somebody -j ACCEPT\n\
             sleep 0.004; done",
            directory = directory.path().display(),
        );
        let mut command = process::command("nsenter");
        let net = format!("--net={}", netns.path().display());
        command.args([net.as_str(), "--", "/bin/sh", "-c", &script]);
        let child = process::spawn(&mut command).expect("nsenter is installed");
        Self { child, directory }
    }

    /// How many of its rules went in, to stay.
    fn stop(mut self) -> usize {
        fs::write(self.directory.path().join("stop"), "").expect("a file");
        self.child.wait().expect("it ends");
        let ok = fs::read_to_string(self.directory.path().join("ok"));
        ok.unwrap_or_default().lines().count()
    }
}

impl Drop for Meddler {
    fn drop(&mut self) {
        process::kill_group(&self.child);
        // `stop` has waited for it, if it was called.
        let _ = self.child.wait();
    }
}
