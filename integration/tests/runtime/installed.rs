//! The container from our image, with exactly what the chart renders.

use std::fs;

use linkerd_cni_integration::chart::default_values;
use linkerd_cni_integration::exposition::Exposition;
use linkerd_cni_integration::{fixtures, http};
use serde_json::{Value, json};

use crate::kubelet::{DaemonPod, Manifest, chart};
use crate::life::{directories, meshed};
use crate::machine::{LIST, Machine, list};
use crate::pod::Pod;

fn start<'a>(machine: &'a Machine, manifest: &Manifest, name: &str) -> DaemonPod<'a> {
    manifest.apply(machine);
    DaemonPod::start(machine, manifest, name).unwrap()
}

#[test]
fn it_is_ready_once_the_node_is_chained_and_its_log_tells_each_pods_decision() {
    let machine = Machine::with_image();
    let installer = start(&machine, &Manifest::rendered(&chart()), "linkerd-cni-aaaaa");
    installer.wait_line(&["No active CNI configuration files found"]);
    let probed = installer.probe();
    assert_eq!(probed.code, 1, "{probed:?}");
    assert!(
        probed.said.contains("waiting for another CNI plugin"),
        "{probed:?}"
    );
    machine.drop_list(&list());
    let took = installer.wait_ready();
    eprintln!("ready {took:?} after the file of the other plugin");
    machine.wait_loaded("linkerd-cni");

    let serving = meshed(&machine, "web-1");
    installer.wait_line(&["linkerd-cni: emojivoto/web-1 redirected", "backend=nft"]);
    Pod::of(&machine, fixtures::pod("unmeshed"))
        .start(&machine)
        .unwrap();
    installer.wait_line(&["/web-plain passed on", "no-proxy"]);
    let bad = Pod::of(&machine, fixtures::pod("bad-annotation"));
    bad.start(&machine).err().unwrap();
    installer.wait_line(&["WARN", "ADD failed"]);
    serving.sandbox.end(&machine).unwrap();
}

#[test]
fn it_runs_with_no_more_rights_than_the_chart_asks_for() {
    let machine = Machine::with_image();
    let installer = start(&machine, &Manifest::rendered(&chart()), "linkerd-cni-aaaaa");
    let status = installer
        .exec(&["/bin/busybox", "cat", "/proc/1/status"])
        .said;
    let field = |name: &str| {
        let mut lines = status.lines();
        let line = lines.find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().to_owned()
    };
    // CHOWN, DAC_OVERRIDE and FOWNER are the bits 0, 1 and 3.
    for set in ["CapPrm:", "CapEff:", "CapBnd:"] {
        assert_eq!(field(set), "000000000000000b", "{set}");
    }
    assert_eq!(field("NoNewPrivs:"), "1");
    assert_eq!(field("Seccomp:"), "2", "a filter");
    let written = installer.exec(&["/bin/busybox", "touch", "/new"]);
    assert_ne!(written.code, 0);
    assert!(
        written.said.contains("Read-only file system"),
        "{written:?}"
    );
}

#[test]
fn on_sigterm_the_node_stays_chained_as_long_as_the_daemonset_does() {
    let machine = Machine::with_image();
    let manifest = Manifest::rendered(&chart());
    let empty = directories(&machine);
    let first = start(&machine, &manifest, "linkerd-cni-aaaaa");
    machine.drop_list(&list());
    first.wait_ready();
    machine.wait_loaded("linkerd-cni");
    let chained = directories(&machine);
    let (code, log) = first.end();
    assert_eq!(code, 0, "{log}");
    assert!(log.contains("SIGTERM received"), "{log}");
    assert_eq!(directories(&machine), chained, "{log}");
    let meanwhile = meshed(&machine, "meanwhile");

    let second = start(&machine, &manifest, "linkerd-cni-bbbbb");
    second.wait_ready();
    manifest.delete(&machine);
    let (code, log) = second.end();
    assert_eq!(code, 0, "{log}");
    assert!(log.contains("Our DaemonSet is being deleted"), "{log}");
    machine.wait_loaded("portmap");
    assert_eq!(
        fs::read(machine.node.conf(LIST)).unwrap(),
        list().as_bytes()
    );
    fs::remove_file(machine.node.conf(LIST)).unwrap();
    assert_eq!(directories(&machine), empty, "{log}");
    assert_eq!(meanwhile.redirected(&machine), (true, true));
}

#[test]
fn its_metrics_count_what_its_pods_were_decided() {
    let machine = Machine::with_image();
    let mut resources = Value::Object(default_values())["resources"].clone();
    resources["memory"]["limit"] = json!("32Mi");
    resources["cpu"] = json!({"limit": "500m", "request": "10m"});
    let chart = chart()
        .set("adminAddress", &json!("127.0.0.1:9990"))
        .set("resources", &resources);
    let installer = start(&machine, &Manifest::rendered(&chart), "linkerd-cni-aaaaa");
    let get = |path: &str| {
        let address = "127.0.0.1:9990".parse().unwrap();
        machine
            .namespaces
            .enter(|| http::get_as(address, path, "application/openmetrics-text"))
    };
    installer.wait_line(&["Serving /live, /ready and /metrics on 127.0.0.1:9990"]);
    assert_eq!((get("/live").status, get("/ready").status), (200, 503));
    machine.drop_list(&list());
    installer.wait_ready();
    machine.wait_loaded("linkerd-cni");
    let _pods = ["web-1", "web-2"].map(|name| meshed(&machine, name));
    Pod::of(&machine, fixtures::pod("unmeshed"))
        .start(&machine)
        .unwrap();
    installer.wait_line(&["/web-plain passed on"]);

    assert_eq!(get("/ready").status, 200);
    let metrics = Exposition::parse(&get("/metrics").body);
    for (sample, count) in [
        (
            r#"linkerd_cni_add_total{backend="nft",decision="redirect"}"#,
            2.0,
        ),
        (
            r#"linkerd_cni_add_total{decision="pass",reason="no-proxy"}"#,
            1.0,
        ),
        (
            r#"linkerd_cni_add_duration_seconds_count{phase="total"}"#,
            3.0,
        ),
        ("linkerd_cni_installer_configurations_chained", 1.0),
        ("linkerd_cni_installer_ready", 1.0),
    ] {
        assert_eq!(metrics.value(sample), Some(count), "{sample}: {metrics:?}");
    }
}
