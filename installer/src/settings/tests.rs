use std::{path::Path, time::Duration};

use clap::Parser as _;

use super::*;

fn settings(flags: &[&str]) -> Result<Settings, SettingsError> {
    let command_line = CommandLine::parse_from([&["linkerd-cni-installer"], flags].concat());
    command_line.arguments.try_into()
}

#[test]
fn an_empty_value_is_one_that_is_not_set() {
    let some = settings(&[
        "--on-exit=",
        "--container-mount-prefix=",
        "--kubeconfig-mode=",
        "--cni-network-config-file=",
        "--resync-interval=",
    ])
    .unwrap();
    assert_eq!(some.on_exit, OnExit::Auto);
    assert_eq!(some.net_dir, Path::new("/host/etc/cni/net.d"));
    assert_eq!(
        some.kubeconfig_on_host,
        "/etc/cni/net.d/ZZZ-linkerd-cni-kubeconfig"
    );
    assert_eq!(
        (some.kubeconfig_mode, some.resync),
        (0o600, Duration::from_secs(15))
    );
    assert_eq!(some.template, TemplateSource::None);
}

#[test]
fn what_cannot_be_used_is_named() {
    for (flag, message) in [
        (
            "--on-exit=never",
            "ON_EXIT=never: expected auto, keep or remove",
        ),
        ("--sleep=perhaps", "SLEEP=perhaps: expected true or false"),
        (
            "--kubeconfig-mode=9",
            "KUBECONFIG_MODE=9: expected an octal mode such as 600 that lets the owner read",
        ),
        (
            "--resync-interval=0s",
            "RESYNC_INTERVAL=0s: expected a time such as 15s, 500ms or 2m, and not zero",
        ),
        (
            "--resync-interval=2y",
            "RESYNC_INTERVAL=2y: expected a time such as 15s, 500ms or 2m, and not zero",
        ),
        (
            "--ignore-configurations=/etc/cni/net.d/a.conf",
            "IGNORE_CONFIGURATIONS=/etc/cni/net.d/a.conf: expected file names, not paths, parted by commas, such as \
             87-podman*.conflist, or none",
        ),
        (
            "--taint-on-loss=yes",
            "TAINT_ON_LOSS=true: needs STARTUP_TAINT, the key of the taint",
        ),
        (
            "--log-level=loud",
            "LOG_LEVEL=loud: expected error, warn, info, debug or trace",
        ),
        (
            "--kubeconfig-file-name=a/b",
            "KUBECONFIG_FILE_NAME=a/b: has to be a file name, not a path",
        ),
    ] {
        assert_eq!(settings(&[flag]).unwrap_err().to_string(), message);
    }
}
