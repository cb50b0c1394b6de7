//! ADD is killed at some point, and then comes again.

use std::thread;
use std::time::Duration;

use linkerd_cni_integration::fake::Fakes;
use linkerd_cni_integration::netns::Netns;
use linkerd_cni_integration::rules;
use linkerd_cni_integration::stage::Stage;

/// How many points of a run are tried; all of them if `LINKERD_CNI_TEST_EVERY_CALL`
/// is set.
const POINTS: u64 = 150;

#[test]
fn add_after_a_kill_at_any_point_is_add_once_with_nft() {
    survives_kills("nft");
}

#[test]
fn add_after_a_kill_at_any_point_is_add_once_with_legacy() {
    survives_kills("legacy");
}

#[test]
fn a_killed_native_add_has_set_the_rules_of_both_families_or_none() {
    let stage = Stage::new("annotated").linkerd("iptables-mode", "native");
    let calls = stage.add().trace(None).calls;
    let once = rules::everything(&stage.netns);
    let never = rules::everything(&Netns::new());
    let (mut with, mut without) = (0, 0);
    // The transaction is near the end.
    for point in (1..=calls).rev().take(200) {
        let netns = Netns::new();
        if !stage.add().netns(&netns.path()).trace(Some(point)).killed {
            continue;
        }
        match rules::everything(&netns) {
            all if all == once => with += 1,
            none if none == never => without += 1,
            part => panic!("killed at call {point} of {calls}: {part}"),
        }
        stage.add().netns(&netns.path()).succeed();
        assert_eq!(once, rules::everything(&netns), "killed at call {point}");
    }
    assert!(
        with > 5 && without > 50,
        "{with} with rules, {without} without"
    );
}

#[test]
fn a_second_native_add_that_is_killed_never_leaves_a_moment_without_rules() {
    let stage = Stage::new("annotated").linkerd("iptables-mode", "native");
    stage.add().succeed();
    let first = rules::native(&stage.netns);
    let mut other = stage.config.clone();
    other["linkerd"]["incoming-proxy-port"] = 5143.into();
    let again = stage.add().config(&other);
    let calls = again.trace(None).calls;
    let second = rules::native(&stage.netns);
    for point in (1..=calls).rev().take(60) {
        stage.add().succeed();
        again.trace(Some(point));
        let found = rules::native(&stage.netns);
        assert!(found == first || found == second, "call {point}: {found}");
    }
}

fn survives_kills(mode: &str) {
    let stage = Stage::new("annotated").linkerd("iptables-mode", mode);
    let whole = stage.add().trace(None);
    assert_eq!(whole.exit, Some(0), "{whole:#?}");
    let once = rules::everything(&stage.netns);

    let mut kills = 0;
    for point in (1..=whole.calls).step_by(step(whole.calls)) {
        let netns = Netns::new();
        let add = stage.add().netns(&netns.path());
        if add.trace(Some(point)).killed {
            kills += 1;
        }
        // Without a pause: a child of the killed one may still be at work.
        add.succeed();
        assert_eq!(once, rules::everything(&netns), "killed at call {point}");
        stage.del().netns(&netns.path()).succeed();
        assert!(
            rules::effective(&netns).is_empty(),
            "killed at call {point}"
        );
    }
    assert!(
        kills >= POINTS / 2,
        "only {kills} kills in {} calls",
        whole.calls
    );
}

fn step(calls: u64) -> usize {
    let every = std::env::var_os("LINKERD_CNI_TEST_EVERY_CALL").is_some();
    let step = if every { 1 } else { calls / POINTS };
    usize::try_from(step.max(1)).expect("a small number")
}

#[test]
fn a_child_that_outlives_a_killed_add_is_waited_for_by_the_next_add() {
    let stage = interrupted();
    stage.add().succeed();
    let at_once = rules::everything(&stage.netns);
    thread::sleep(SLOW);
    assert_eq!(at_once, rules::everything(&stage.netns));
    let fresh = Stage::new("annotated");
    fresh.add().succeed();
    assert_eq!(at_once, rules::everything(&fresh.netns));
}

#[test]
fn a_child_that_outlives_a_killed_add_is_waited_for_by_del() {
    let stage = interrupted();
    stage.del().succeed();
    thread::sleep(SLOW);
    assert_eq!(rules::effective(&stage.netns), Vec::<String>::new());
}

/// How long the slow program takes.
const SLOW: Duration = Duration::from_millis(1500);

/// ADD was killed, and the program that it had started is still about to work.
fn interrupted() -> Stage {
    let stage = Stage::new("annotated");
    let slow = "sleep 1.5; exec /usr/sbin/iptables-nft-restore \"$@\"";
    let fakes = Fakes::new();
    fakes.script("iptables-nft-restore", slow);
    let add = stage.add().env("PATH", fakes.first_on_path());
    let killed = add
        .through(["/usr/bin/timeout", "--foreground", "-s", "KILL", "0.5"])
        .run();
    assert_eq!(killed.exit, Some(137), "{killed:#?}");
    stage
}
