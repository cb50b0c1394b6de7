//! Every command in the hands of a tired person: help, mistyped words, not root,
//! no such pod, output that goes nowhere.

use std::fs;

use linkerd_cni_integration::rules::{self, Tables};
use linkerd_cni_integration::stage::Stage;
use linkerd_cni_integration::tool::{Tool, scratch};
use linkerd_cni_integration::{binaries, process};

const COMMANDS: [&str; 6] = [
    "check",
    "explain",
    "status",
    "rules",
    "version",
    "completion",
];

const EXPLAIN: [&str; 5] = ["explain", "--from", "10.0.0.1", "--to", "10.0.0.2:80"];

#[test]
fn help_has_examples_and_is_no_failure() {
    let said = Tool::new(&["--help"]).exits(0);
    said.prints(&[
        "A pod is not in the mesh?",
        "Exit status: 0 fine",
        "CNI_COMMAND",
    ]);
    for command in COMMANDS {
        said.prints(&[command]);
        let help = Tool::new(&[command, "--help"]).exits(0);
        help.prints(&["Usage: linkerd-cni"]);
        if command != "version" {
            help.prints(&["Example"]);
        }
        assert_eq!(help.stderr, "");
        assert!(
            help.stdout.lines().all(|line| line.chars().count() <= 110),
            "{help:#?}"
        );
    }
    Tool::new(&[]).exits(2).complains(&["Usage"]);
}

#[test]
fn mistyped_words_name_the_right_ones() {
    for (words, meant) in [
        (&["chek"][..], "'check'"),
        (&["expalin"], "'explain'"),
        (&["check", "--al"], "'--all'"),
        (&["check", "--netsn", "x"], "'--netns'"),
        (&["check", "-o", "jsn"], "'json'"),
        (&["explain", "--form", "x"], "'--from'"),
        (&["completion", "bsh"], "'bash'"),
    ] {
        let said = Tool::new(words).exits(2);
        said.complains(&["similar", meant]);
        assert_eq!(said.stdout, "");
    }
}

#[test]
fn values_that_cannot_be_say_how_they_are_written() {
    for (words, hint) in [
        (&["check", "--pod", "web"][..], "write NAMESPACE/NAME"),
        (
            &["explain", "--from", "x", "--to", "10.0.0.1:1"],
            "write 10.244.1.2,",
        ),
        (
            &["explain", "--from", "10.0.0.1", "--to", "10.0.0.2"],
            "write 10.244.1.2:8080",
        ),
        (
            &["explain", "--from", "10.0.0.1", "--to", "fd00::1:80"],
            "[fd00::2]:8080",
        ),
        (
            &["explain", "--interface", "net+"],
            "write the name of one interface",
        ),
        (&["check", "--all", "--pod", "a/b"], "cannot be used with"),
        (
            &["check", "--netns", "/x", "--pod", "a/b"],
            "cannot be used with",
        ),
        (&["rules"], "--conf <FILE>"),
        (
            &["rules", "--conf", "/nowhere/x"],
            "/nowhere/x: No such file",
        ),
        (&EXPLAIN, "--pod NS/NAME or --netns PATH"),
    ] {
        Tool::new(words).exits(2).complains(&[hint]);
    }
    let mixed = [
        "explain",
        "--from",
        "fd00::1",
        "--to",
        "10.0.0.2:80",
        "--pod",
        "a/b",
    ];
    Tool::new(&mixed)
        .exits(2)
        .complains(&["must both be IPv4 or both IPv6"]);
}

#[test]
fn whoever_is_not_root_is_told_so() {
    // The executable's own directory may be closed to others.
    let directory = scratch();
    let copy = directory.path().join("linkerd-cni");
    let script = format!(
        "cp \"$1\" {copy}; chmod 755 {directory}; shift; \
         exec setpriv --reuid 65534 --regid 65534 --clear-groups {copy} \"$@\"",
        copy = copy.display(),
        directory = directory.path().display(),
    );
    for words in [&["check"][..], &[&EXPLAIN[..], &["--pod", "a/b"]].concat()] {
        let said = Tool::new(words).after(&script).exits(2);
        said.complains(&["must be run as root"]);
    }
    Tool::new(&["version"]).after(&script).exits(0);
    Tool::new(&["status", "--conf-dir", "/nowhere"])
        .after(&script)
        .exits(1);
}

#[test]
fn a_pod_that_is_not_here_is_told_with_the_nearest_that_is() {
    let mut pod = linkerd_cni_integration::fixtures::pod("meshed");
    pod["metadata"]["name"] = "web-5f86686c4d-ftsbw".into();
    let netns = std::sync::Arc::new(linkerd_cni_integration::netns::Netns::new());
    let stage = Stage::in_namespace(pod, &netns);
    stage.add().succeed();
    let gone = "emojivoto/web-5f86686c4d-9xkzq";
    for words in [&["check"][..], &EXPLAIN] {
        let said = Tool::new(words).arg("--pod").arg(gone).exits(2);
        said.complains(&[
            "no pod emojivoto/web-5f86686c4d-9xkzq is known on this node",
            "did you mean emojivoto/web-5f86686c4d-ftsbw?",
        ]);
        Tool::new(words)
            .args(&["--pod", "nothing/like-any-other-of-them-all"])
            .exits(2)
            .complains(&["is known on this node"]);
    }
}

#[test]
fn a_namespace_that_is_gone_or_none_is_told() {
    for words in [&["check"][..], &EXPLAIN] {
        let netns = |path: &str| Tool::new(words).args(&["--netns", path]).exits(2);
        netns("/run/netns/lct-never-was").complains(&["cannot be opened", "No such file"]);
        netns("/etc/hostname").complains(&["is not a network namespace"]);
        netns("/proc/self/ns/net").complains(&["own network namespace"]);
    }
}

#[test]
fn output_that_goes_nowhere_is_told() {
    for words in [
        &["version"][..],
        &["--help"],
        &["completion", "zsh"],
        &["check"],
    ] {
        let full = Tool::new(words).after("exec >/dev/full").exits(2);
        full.complains(&["standard output cannot be written"]);
        let closed = Tool::new(words).after("exec >&-").run();
        assert!(closed.exit.is_some_and(|exit| exit <= 2), "{closed:#?}");
    }
    // Nobody is left to tell.
    let script = "exec >/dev/full 2>/dev/full";
    Tool::new(&["version"]).after(script).exits(2);
    Tool::new(&["chek"]).after("exec 2>&-").exits(2);
}

#[test]
fn a_record_that_is_broken_is_told_and_passed_over() {
    let mut pod = linkerd_cni_integration::fixtures::pod("meshed");
    pod["metadata"]["name"] = "web-broken".into();
    let netns = std::sync::Arc::new(linkerd_cni_integration::netns::Netns::new());
    let stage = Stage::in_namespace(pod, &netns);
    stage.add().succeed();
    let records = scratch();
    let name = format!("{}-eth0.json", stage.container_id);
    fs::write(records.path().join(&name), "{").expect("it can be written");
    let said = Tool::new(&["check"])
        .bind(records.path(), "/run/linkerd-cni")
        .bind(scratch().path(), "/var/lib/cni")
        .run();
    said.prints(&[&format!("/run/linkerd-cni/{name} cannot be read")]);
}

#[test]
fn scripts_for_every_shell_name_the_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let said = Tool::new(&["completion", shell]).exits(0);
        said.prints(&["linkerd-cni", "explain", "netns"]);
    }
    let script = Tool::new(&["completion", "bash"]).exits(0).stdout;
    let checked = process::run_with_input("/bin/bash", &["-n"], &script);
    checked.expect("bash takes it");
}

#[test]
fn a_person_who_has_a_variable_of_the_runtimes_is_still_a_person() {
    let said = Tool::new(&["version"])
        .env("CNI_PATH", "/opt/cni/bin")
        .exits(0);
    said.prints(&["CNI versions: 0.1.0"]);
    let runtime = Tool::new(&[]).env("CNI_PATH", "/opt/cni/bin").exits(1);
    runtime.prints(&["CNI_COMMAND"]);
}

/// Standard output as a terminal of 72 columns gets it.
fn on_a_terminal(words: &str) -> String {
    let script = format!(
        "stty rows 24 cols 72 -onlcr; {words} || true",
        words = words.replace("linkerd-cni", &binaries::plugin().to_string_lossy()),
    );
    let shown = process::run("script", &["-qec", &script, "/dev/null"]);
    shown.expect("script is installed")
}

#[test]
fn on_a_terminal_lines_fit_and_verdicts_are_coloured() {
    let stage = Stage::new("meshed");
    stage.add().succeed();
    let delete = "*nat\n-D PROXY_INIT_OUTPUT 1\nCOMMIT\n";
    rules::restore(&stage.netns, Tables::Nft, rules::Family::V4, delete);
    let netns = format!("--netns {}", stage.netns.path().display());
    for words in [
        format!("linkerd-cni check {netns}"),
        format!("linkerd-cni explain {netns} --from 10.0.0.1 --to 10.0.0.2:80"),
        "linkerd-cni status --conf-dir /nowhere".to_owned(),
    ] {
        let plain = on_a_terminal(&format!("NO_COLOR=1 {words}"));
        assert!(!plain.contains('\u{1b}'), "{plain}");
        assert!(plain.lines().count() > 3, "{plain}");
        for line in plain.lines() {
            assert!(line.chars().count() <= 72, "{line}");
        }
        assert!(on_a_terminal(&words).contains("\u{1b}["), "{words}");
    }
    let check = on_a_terminal(&format!("linkerd-cni check {netns}"));
    assert!(check.contains("\u{1b}[31m1 difference\u{1b}[0m"), "{check}");
}

#[test]
fn the_rules_that_annotations_ask_for_are_printed() {
    let stage = Stage::new("meshed");
    let conf = scratch();
    let file = conf.path().join("10-net.conf");
    fs::write(&file, stage.config.to_string()).expect("it can be written");
    let said = Tool::new(&["rules", "--ipv6", "--conf"])
        .arg(&file)
        .args(&[
            "--annotation",
            "config.linkerd.io/skip-interfaces=net1,tun+",
        ])
        .args(&[
            "--annotation",
            "config.linkerd.io/skip-outbound-subnets=fd77::/64,10.0.0.0/8",
        ])
        .exits(0);
    said.prints(&[
        "-A PROXY_INIT_REDIRECT -i net1 ",
        "-A PROXY_INIT_REDIRECT -i tun+ ",
        "-A PROXY_INIT_OUTPUT -o net1 ",
        "-A PROXY_INIT_OUTPUT -o tun+ ",
        "-A PROXY_INIT_OUTPUT -d fd77::/64 ",
    ]);
    assert!(!said.stdout.contains("10.0.0.0"), "{said:#?}");
}

#[test]
fn no_colour_goes_into_a_pipe() {
    let said = Tool::new(&["status", "--conf-dir", "/nowhere"]).exits(1);
    assert!(!said.stdout.contains('\u{1b}'), "{said:#?}");
}
