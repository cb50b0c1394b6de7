//! Programs that lie, hang, or fail at some call.

use std::thread;

use linkerd_cni_integration::backends::{self, Backend};
use linkerd_cni_integration::fake::{ALL, Fakes};
use linkerd_cni_integration::plugin::Output;
use linkerd_cni_integration::rules::{self, Family, Tables};
use linkerd_cni_integration::stage::Stage;

#[test]
fn a_program_that_reports_success_without_having_done_anything_is_not_believed() {
    for lie in ["exit 0", "cat >/dev/null"] {
        for backend in backends::with_programs() {
            let stage = stage(backend);
            let fakes = Fakes::new();
            for name in ALL {
                fakes.script(&format!("{name}-restore"), lie);
            }
            let output = stage.add().env("PATH", fakes.first_on_path()).succeed();
            output.logs(&["native is used instead", "reported success"]);
            stage.call("CHECK").succeed();
            stage.del().succeed();
            assert!(rules::effective(&stage.netns).is_empty());

            let _occupied = stage.netns.occupy_native();
            let before = rules::effective(&stage.netns);
            let output = stage.add().env("PATH", fakes.first_on_path()).fail(100);
            output.says(&["reported success", "iptables-nft-restore"]);
            assert_eq!(before, rules::effective(&stage.netns));
        }
    }
}

#[test]
fn programs_that_all_hang_cost_one_long_wait_and_then_short_ones() {
    let fakes = Fakes::new().replace(&ALL, "exec sleep 100");
    thread::scope(|scope| {
        for backend in backends::with_programs() {
            let path = fakes.first_on_path();
            scope.spawn(move || {
                let stage = stage(backend);
                let _occupied = stage.netns.occupy_native();
                let output = stage.add().env("PATH", path).fail(100);
                let waits = waits(output.details());
                assert_eq!(waits, ["8 s", "2 s", "2 s"], "{output:#?}");
            });
        }
        let stage = Stage::new("annotated");
        stage.add().succeed();
        let output = stage.del().env("PATH", fakes.first_on_path()).succeed();
        let long = waits(&output.stderr)
            .iter()
            .filter(|wait| **wait == "8 s")
            .count();
        assert_eq!(long, 1, "{output:#?}");
    });
}

#[test]
fn a_program_that_fails_at_any_call_leaves_nothing_half_done() {
    for backend in backends::with_programs() {
        for before in [Before::Nothing, Before::Ours] {
            for nth in 1..=6 {
                let stage = stage(backend);
                if before == Before::Ours {
                    stage.add().succeed();
                }
                let fakes = failing_at(nth);
                let output = stage.add().env("PATH", fakes.first_on_path()).run();
                let when = format!("{} over {before:?}, call {nth}", backend.mode);
                whole(&stage, &output, before, &when);
                stage.del().succeed();
            }
        }
    }
}

#[test]
fn del_succeeds_whichever_call_of_its_programs_fails_and_del_again_leaves_nothing() {
    for backend in backends::with_programs() {
        for with_record in [true, false] {
            for nth in 1..=4 {
                let stage = stage(backend);
                stage.add().succeed();
                if !with_record {
                    std::fs::remove_file(stage.record("eth0")).expect("there is a record");
                }
                let fakes = failing_at(nth);
                stage.del().env("PATH", fakes.first_on_path()).succeed();
                stage.del().succeed();
                let left = rules::effective(&stage.netns);
                assert!(left.is_empty(), "{} call {nth}: {left:#?}", backend.mode);
            }
        }
    }
}

#[test]
fn a_backend_that_works_again_leaves_no_rules_in_the_one_that_stood_in_for_it() {
    for backend in backends::with_programs() {
        let fresh = stage(backend);
        fresh.add().succeed();
        let broken: &[&str] = match backend.tables {
            Tables::Nft => &["iptables-nft", "iptables"],
            Tables::Legacy => &["iptables-legacy"],
        };
        let broken = Fakes::new().replace(broken, "exit 3");
        let stage = stage(backend);
        let output = stage.add().env("PATH", broken.first_on_path()).succeed();
        output.logs(&["is used instead"]);
        stage.add().succeed();
        assert_eq!(
            rules::effective(&fresh.netns),
            rules::effective(&stage.netns),
            "{}",
            backend.mode
        );
        stage.del().succeed();
        assert!(rules::effective(&stage.netns).is_empty());
    }
}

/// What is in the namespace before ADD.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Before {
    Nothing,
    Ours,
}

/// Both families in one backend, or nothing that was not there before.
fn whole(stage: &Stage, output: &Output, before: Before, when: &str) {
    let families = [Family::V4, Family::V6];
    let in_tables =
        |tables| families.map(|f| rules::save(&stage.netns, tables, f).contains("4143"));
    // One transaction for both, in one table.
    let native = [rules::native(&stage.netns).contains("4143"); 2];
    let there = [in_tables(Tables::Nft), in_tables(Tables::Legacy), native];
    let halves = there.iter().any(|[v4, v6]| v4 != v6);
    let count = there.iter().filter(|[v4, v6]| *v4 && *v6).count();
    assert!(!halves, "{when}: {there:?} {output:#?}");
    match (output.exit, before) {
        (Some(0), _) => assert_eq!(count, 1, "{when}: {output:#?}"),
        (_, Before::Nothing) => assert_eq!(count, 0, "{when}: {output:#?}"),
        (_, Before::Ours) => assert!(count >= 1, "{when}: {output:#?}"),
    }
}

/// Programs of which the nth that is started fails, whichever it is.
fn failing_at(nth: usize) -> Fakes {
    let fakes = Fakes::new();
    let counter = fakes.path().join("calls");
    for name in ALL {
        for tool in ["restore", "save"] {
            let script = format!(
                "echo x >> {0}; [ $(wc -l < {0}) != {nth} ] || exit 1; \
                 exec /usr/sbin/{name}-{tool} \"$@\"",
                counter.display(),
            );
            fakes.script(&format!("{name}-{tool}"), &script);
        }
    }
    fakes
}

/// How long each program was waited for in vain.
fn waits(text: &str) -> Vec<&str> {
    text.match_indices("did not end within ")
        .map(|(at, words)| {
            let rest = &text[at + words.len()..];
            &rest[..rest.find(" and").unwrap_or(rest.len())]
        })
        .collect()
}

fn stage(backend: Backend) -> Stage {
    Stage::new("annotated").linkerd("iptables-mode", backend.mode)
}
