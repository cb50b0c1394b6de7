//! STATUS fails for faults that are local and certain, and for nothing else.

use std::fs;

use linkerd_cni_integration::api_server::Fault;
use linkerd_cni_integration::binaries;
use linkerd_cni_integration::kubeconfig::{Contents, token_expiring_in};
use linkerd_cni_integration::plugin::Call;
use linkerd_cni_integration::stage::Stage;
use linkerd_cni_integration::tool::scratch;
use serde_json::json;

fn stage() -> Stage {
    Stage::new("meshed").top("cniVersion", "1.1.0")
}

fn status(stage: &Stage) -> Call {
    Call::new("STATUS").config(&stage.config)
}

#[test]
fn a_node_in_order_is_fine_whatever_the_api_server_does() {
    let stage = stage();
    for fault in [Fault::Status(500), Fault::HangBeforeTls] {
        stage.api.misbehave(fault);
        let output = status(&stage).succeed();
        assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("", ""));
    }
    assert_eq!(stage.api.connections(), 0);
}

/// Hides the programs.
const NO_PROGRAMS: &str = "mount -t tmpfs none /usr/sbin";

/// Has nf_tables refuse whatever it is asked.
const NO_NF_TABLES: [&str; 2] = ["/usr/bin/setpriv", "--bounding-set=-net_admin"];

#[test]
fn no_programs_is_a_warning_where_nf_tables_answers_and_a_fault_where_not() {
    let stage = stage();
    let output = status(&stage).with_mounts(NO_PROGRAMS).succeed();
    output.logs(&["iptables-mode nft has no programs here, native is used instead"]);
    let none = status(&stage)
        .with_mounts(NO_PROGRAMS)
        .through(NO_NF_TABLES);
    none.fail(50).says(&[
        "nf_tables refused to show its rules: Operation not permitted",
        "iptables-nft-restore",
        "install iptables",
    ]);

    let only = "cp /usr/sbin/xtables-nft-multi /tmp/lct-xtables-$$; mount -t tmpfs none /usr/sbin; \
                mv /tmp/lct-xtables-$$ /usr/sbin/iptables-legacy-restore";
    let output = status(&stage).with_mounts(only).succeed();
    output.logs(&[
        "WARN",
        "iptables-mode nft has no programs here, legacy is used instead",
    ]);

    let simulated = stage.linkerd("simulate", true);
    status(&simulated)
        .with_mounts(NO_PROGRAMS)
        .through(NO_NF_TABLES)
        .succeed();
}

#[test]
fn native_that_does_not_work_is_a_warning_where_programs_are() {
    let stage = stage().linkerd("iptables-mode", "native");
    status(&stage).succeed();
    let output = status(&stage).through(NO_NF_TABLES).succeed();
    output.logs(&[
        "WARN",
        "iptables-mode native does not work here",
        "nft is used instead",
    ]);
    let stage = stage.linkerd("iptables-mode", "auto");
    let output = status(&stage).through(NO_NF_TABLES).succeed();
    assert_eq!(output.stderr, "");
}

#[test]
fn a_missing_kubeconfig_is_a_warning_as_the_installer_writes_it() {
    let stage = stage();
    fs::remove_file(stage.kubeconfig.path()).expect("there is one");
    let output = status(&stage).succeed();
    output.logs(&["WARN", "is not there", "linkerd-cni-installer"]);
}

#[test]
fn a_kubeconfig_that_cannot_be_used_is_a_fault() {
    for (text, words) in [
        ("", "is empty"),
        ("{", "cannot be used"),
        ("apiVersion: v1\nkind: Config\n", "names no server"),
    ] {
        let stage = stage();
        stage.kubeconfig.write_text(text);
        let path = stage.kubeconfig.path();
        status(&stage)
            .fail(50)
            .says(&[words, &path.to_string_lossy()]);
    }
    let stage = stage();
    let mut contents = Contents::of(&stage.api);
    contents.ca = Some("no certificate".to_owned());
    stage.kubeconfig.write(&contents);
    status(&stage).fail(50).says(&["cannot be used"]);

    let directory = scratch();
    let kubeconfig = json!({"kubeconfig": directory.path().to_string_lossy()});
    let stage = stage.top("kubernetes", kubeconfig);
    status(&stage).fail(50).says(&["cannot be read"]);
    let stage = stage.top("kubernetes", json!({}));
    status(&stage)
        .fail(50)
        .says(&["kubernetes.kubeconfig is not set"]);
}

#[test]
fn a_token_is_a_fault_once_it_ended_long_ago() {
    let stage = stage();
    let with_token = |seconds| {
        let mut contents = Contents::of(&stage.api);
        contents.token = token_expiring_in(seconds);
        stage.kubeconfig.write(&contents);
        status(&stage)
    };
    with_token(3600).succeed();
    with_token(-1800).succeed().logs(&["WARN", "expired at"]);
    let output = with_token(-2 * 3600).fail(50);
    output.says(&["expired at", "linkerd-cni-installer"]);
    assert!(!output.stderr.contains(&token_expiring_in(0)[..40]));
}

#[test]
fn a_directory_of_records_that_cannot_be_written_is_a_fault() {
    let stage = stage();
    let over = "mkdir -p /run/linkerd-cni; mount -t tmpfs -o ro none /run/linkerd-cni";
    let output = status(&stage).with_mounts(over).fail(50);
    output.says(&["/run/linkerd-cni", "cannot be written to"]);
    let file = "mount -t tmpfs none /run; echo > /run/linkerd-cni";
    let output = status(&stage).with_mounts(file).fail(50);
    output.says(&["/run/linkerd-cni is no directory"]);
    // ADD makes it if it is not there.
    status(&stage)
        .with_mounts("mount -t tmpfs none /run")
        .succeed();
    let output = status(&stage)
        .with_mounts("mount -t tmpfs none /run; mount -o remount,ro /run")
        .fail(50);
    output.says(&["/run cannot be written to"]);
}

#[test]
fn an_executable_that_is_gone_is_a_fault_and_one_that_was_replaced_is_none() {
    let stage = stage();
    let directory = scratch();
    let place = directory.path().join("linkerd-cni");
    let script = |then: &str| {
        format!(
            "cp {} {place}; exec 9<{place}; rm {place}; {then}; exec /proc/self/fd/9",
            binaries::plugin().display(),
            place = place.display(),
        )
    };
    let run = |then: &str| {
        let script = script(then);
        status(&stage).through(["/bin/sh", "-c", &script, "sh"])
    };
    let output = run(":").fail(50);
    output.says(&[&place.to_string_lossy(), "cannot be executed"]);
    run(&format!("cp /bin/true {}", place.display())).succeed();
}

#[test]
fn all_faults_are_in_the_details() {
    let stage = stage();
    stage.kubeconfig.write_text("");
    let output = status(&stage)
        .with_mounts(NO_PROGRAMS)
        .through(NO_NF_TABLES)
        .fail(50);
    assert_eq!(output.details().lines().count(), 2, "{output:#?}");
}
