//! ADD is killed at some point, and then comes again.

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
