//! Programs that are missing, fail or hang: the next backend, or one error that
//! tells of each.

use std::time::Duration;

use linkerd_cni_integration::fake::{ALL, Fakes};
use linkerd_cni_integration::plugin::Output;
use linkerd_cni_integration::rules::{self, Family, Tables};
use linkerd_cni_integration::stage::Stage;

const FAILS: &str = "cat >/dev/null; echo \"$0: broken on purpose\" >&2; exit 3";

/// Three backends, each given up after 5 s, and their takings back; on a busy
/// machine.
const HANGING: Duration = Duration::from_secs(50);

#[test]
fn the_next_backend_is_taken_with_one_warning() {
    for (mode, broken, tables) in [
        ("nft", vec!["iptables-nft"], super::golden::plain()),
        ("nft", vec!["ip6tables-nft"], super::golden::plain()),
        ("nft", vec!["iptables-nft", "iptables"], Tables::Legacy),
        ("nft", vec!["iptables-nft", "ip6tables"], Tables::Legacy),
        ("legacy", vec!["iptables-legacy"], Tables::Nft),
        (
            "legacy",
            vec!["ip6tables-legacy", "ip6tables-nft"],
            super::golden::plain(),
        ),
        ("plain", vec!["iptables"], Tables::Nft),
    ] {
        let stage = Stage::new("meshed").linkerd("iptables-mode", mode);
        let fakes = Fakes::new().replace(&broken, FAILS);
        let output = stage.add().env("PATH", fakes.first_on_path()).succeed();
        assert_eq!(
            warnings(&output).len(),
            1,
            "{mode} {broken:?}: {}",
            output.stderr
        );
        output.logs(&[mode]);
        only_in(&stage, tables);
        stage.del().succeed();
        assert!(
            rules::effective(&stage.netns).is_empty(),
            "{mode} {broken:?}"
        );
    }
}

#[test]
fn a_program_that_is_not_installed_is_replaced_by_what_is() {
    let stage = Stage::new("meshed");
    let legacy_only = "d=$(mktemp -d); mount -t tmpfs none $d; \
        cp /usr/sbin/xtables-legacy-multi $d/; \
        for n in iptables ip6tables; do for t in save restore; do \
        ln -s xtables-legacy-multi $d/$n-legacy-$t; done; done; \
        mount --bind $d /usr/sbin; umount $d; rmdir $d";
    let output = stage.add().with_mounts(legacy_only).succeed();
    assert_eq!(warnings(&output).len(), 1, "{}", output.stderr);
    only_in(&stage, Tables::Legacy);
}

#[test]
fn programs_that_all_fail_are_replaced_by_none_with_one_warning() {
    for mode in ["nft", "legacy", "plain"] {
        let stage = Stage::new("meshed").linkerd("iptables-mode", mode);
        let fakes = Fakes::new().replace(&ALL, FAILS);
        let output = stage.add().env("PATH", fakes.first_on_path()).succeed();
        assert_eq!(warnings(&output).len(), 1, "{}", output.stderr);
        output.logs(&[mode, "native is used instead"]);
        only_native(&stage);
        stage.del().env("PATH", fakes.first_on_path()).succeed();
        assert!(rules::effective(&stage.netns).is_empty(), "{mode}");
    }
}

#[test]
fn auto_takes_native_where_it_works_and_programs_where_not() {
    let stage = Stage::new("meshed").linkerd("iptables-mode", "auto");
    let output = stage.add().succeed();
    assert_eq!(warnings(&output), Vec::<&str>::new());
    only_native(&stage);

    let stage = Stage::new("meshed").linkerd("iptables-mode", "auto");
    let _occupied = stage.netns.occupy_native();
    let fakes = Fakes::new().replace(&["iptables-nft", "iptables"], FAILS);
    let output = stage.add().env("PATH", fakes.first_on_path()).succeed();
    assert_eq!(warnings(&output), Vec::<&str>::new());
    only_in(&stage, Tables::Legacy);
}

#[test]
fn native_that_is_refused_is_replaced_by_a_program_with_one_warning() {
    let stage = Stage::new("meshed").linkerd("iptables-mode", "native");
    let _occupied = stage.netns.occupy_native();
    let output = stage.add().succeed();
    assert_eq!(warnings(&output).len(), 1, "{}", output.stderr);
    output.logs(&[
        "iptables-mode native does not work here, nft is used instead",
        "nf_tables refused the removal of table inet linkerd-cni: Operation not permitted",
    ]);
    only_in(&stage, Tables::Nft);
}

#[test]
fn nothing_at_all_is_an_error_that_names_each() {
    let stage = Stage::new("meshed");
    let _occupied = stage.netns.occupy_native();
    let before = rules::everything(&stage.netns);
    let output = stage
        .add()
        .with_mounts("mount -t tmpfs none /usr/sbin")
        .fail(100);
    output.says(&[
        "iptables-nft-restore",
        "iptables-restore",
        "iptables-legacy-restore",
        "native: nf_tables refused",
    ]);
    assert_eq!(before, rules::everything(&stage.netns));
}

#[test]
fn programs_that_all_fail_are_an_error_with_what_each_said() {
    let stage = Stage::new("meshed");
    let _occupied = stage.netns.occupy_native();
    let before = rules::everything(&stage.netns);
    let fakes = Fakes::new().replace(&ALL, FAILS);
    let output = stage.add().env("PATH", fakes.first_on_path()).fail(100);
    output.says(&["broken on purpose", "3"]);
    for program in [
        "iptables-nft-restore",
        "iptables-restore",
        "iptables-legacy-restore",
    ] {
        let path = fakes.path().join(program);
        output.says(&[&path.to_string_lossy()]);
    }
    assert_eq!(before, rules::everything(&stage.netns));
}

#[test]
fn programs_that_hang_are_killed() {
    let fakes = Fakes::new().replace(&ALL, "exec sleep 100");
    gives_up_on(&fakes);
}

#[test]
fn programs_whose_children_hold_the_pipes_do_not_hold_up_the_plugin() {
    let fakes = Fakes::new().replace(&ALL, "sleep 70 & exec sleep 71");
    gives_up_on(&fakes);
}

#[test]
fn a_program_that_leaves_a_child_behind_and_fails_does_not_hold_up_the_plugin() {
    let fakes = Fakes::new().replace(&ALL, "sleep 72 & echo broken >&2; exit 1");
    gives_up_on(&fakes);
}

#[test]
fn a_hanging_program_is_replaced_by_one_that_works() {
    let stage = Stage::new("meshed");
    let fakes = Fakes::new().replace(&["iptables-nft"], "exec sleep 100");
    let output = stage.add().env("PATH", fakes.first_on_path()).succeed();
    assert_eq!(warnings(&output).len(), 1, "{}", output.stderr);
    output.within(HANGING);
}

#[test]
fn programs_that_talk_without_end_are_neither_waited_for_nor_repeated_whole() {
    let stage = Stage::new("meshed");
    let _occupied = stage.netns.occupy_native();
    let fakes = Fakes::new().replace(&ALL, "head -c 3000000 /dev/zero | tr '\\0' x >&2; exit 1");
    let output = stage.add().env("PATH", fakes.first_on_path()).fail(100);
    output.within(HANGING);
    assert!(
        output.stdout.len() < 100_000,
        "{} bytes",
        output.stdout.len()
    );
}

#[test]
fn programs_that_do_not_read_their_input_are_an_error_and_no_crash() {
    // A payload larger than a pipe: writing it fails with EPIPE.
    let ports: Vec<_> = (1..30_000)
        .step_by(2)
        .map(|port| port.to_string())
        .collect();
    let stage =
        Stage::new("meshed").annotate("config.linkerd.io/skip-inbound-ports", &ports.join(","));
    let _occupied = stage.netns.occupy_native();
    let fakes = Fakes::new().replace(&ALL, "exit 1");
    stage.add().env("PATH", fakes.first_on_path()).fail(100);
}

#[test]
fn programs_that_fail_only_the_second_time_leave_nothing_half_done() {
    // The nth call fails, whichever program makes it.
    for nth in 1..=4 {
        let stage = Stage::new("meshed");
        let fakes = Fakes::new();
        let counter = fakes.path().join("calls");
        for name in ALL {
            for tool in ["restore", "save"] {
                let real = format!("/usr/sbin/{name}-{tool}");
                let script = format!(
                    "echo x >> {0}; [ $(wc -l < {0}) != {nth} ] || exit 1; exec {real} \"$@\"",
                    counter.display(),
                );
                fakes.script(&format!("{name}-{tool}"), &script);
            }
        }
        let output = stage.add().env("PATH", fakes.first_on_path()).run();
        let count = |tables, family| rules::save(&stage.netns, tables, family).contains("4143");
        let nft = [Family::V4, Family::V6].map(|family| count(Tables::Nft, family));
        let legacy = [Family::V4, Family::V6].map(|family| count(Tables::Legacy, family));
        match output.exit {
            Some(0) => assert!(
                (nft, legacy) == ([true; 2], [false; 2])
                    || (nft, legacy) == ([false; 2], [true; 2]),
                "call {nth}: {nft:?} {legacy:?} {output:#?}",
            ),
            _ => assert_eq!(
                (nft, legacy),
                ([false; 2], [false; 2]),
                "call {nth}: {output:#?}"
            ),
        }
    }
}

fn gives_up_on(fakes: &Fakes) {
    let stage = Stage::new("meshed");
    let _occupied = stage.netns.occupy_native();
    let before = rules::everything(&stage.netns);
    let output = stage.add().env("PATH", fakes.first_on_path()).fail(100);
    output.says(&["iptables-nft-restore"]).within(HANGING);
    assert_eq!(before, rules::everything(&stage.netns));
}

fn only_in(stage: &Stage, tables: Tables) {
    let ours = |tables, family| rules::save(&stage.netns, tables, family).contains("4143");
    for family in [Family::V4, Family::V6] {
        for each in [Tables::Nft, Tables::Legacy] {
            assert_eq!(ours(each, family), each == tables, "{each:?} {family:?}");
        }
    }
}

fn only_native(stage: &Stage) {
    let listed = rules::native(&stage.netns);
    assert!(listed.starts_with("table inet linkerd-cni {"), "{listed}");
    for family in [Family::V4, Family::V6] {
        for each in [Tables::Nft, Tables::Legacy] {
            let saved = rules::save(&stage.netns, each, family);
            assert!(!saved.contains("4143"), "{each:?} {family:?}");
        }
    }
}

fn warnings(output: &Output) -> Vec<&str> {
    let lines = output.stderr.lines();
    lines.filter(|line| line.contains(" WARN ")).collect()
}
