//! The present chart's container with our image in it, and what the present
//! installer leaves on a node.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use linkerd_cni_integration::binaries;
use linkerd_cni_integration::fixtures;
use linkerd_cni_integration::kubeconfig::{Contents, token_expiring_in};
use linkerd_cni_integration::node::KUBECONFIG;
use serde_json::{Value, json};

use crate::kubelet::{DaemonPod, Manifest, chart};
use crate::life::{directories, meshed};
use crate::machine::{ADDRESS, LIST, Machine, list};
use crate::pod::Pod;

/// What the present image's `linkerd-cni` comes to once its token is revoked.
const OLD_EXECUTABLE: &str = "#!/bin/sh
echo '{\"cniVersion\":\"1.0.0\",\"code\":999,\"msg\":\"Unauthorized\"}'
exit 1
";

/// The present chart lets its account read no DaemonSet.
fn grant_rights_of_the_present_chart(machine: &Machine) {
    machine
        .api
        .allow_if(|request| request.method == "GET" && !request.path().contains("/daemonsets/"));
}

/// The list with an entry at its end, and beside it a kubeconfig whose token has
/// ended.
fn leave_stale_entry(machine: &Machine) {
    let kubeconfig = format!("/etc/cni/net.d/{KUBECONFIG}");
    let template = fixtures::text("linkerd/template-chart.json");
    let entry = template.replace("__KUBECONFIG_FILEPATH__", &kubeconfig);
    let mut list: Value = serde_json::from_str(&list()).unwrap();
    let entry: Value = serde_json::from_str(&entry).unwrap();
    list["plugins"].as_array_mut().unwrap().push(entry);
    let contents = Contents {
        server: format!("https://{ADDRESS}:{}", machine.api.address().port()),
        ca: Some(machine.api.ca()),
        token: token_expiring_in(-3600),
    };
    fs::write(machine.node.kubeconfig(), contents.yaml()).unwrap();
    machine.drop_list(&format!("{list:#}\n"));
    machine.wait_loaded("linkerd-cni");
}

fn put_executable(machine: &Machine, bytes: &[u8]) {
    fs::write(machine.node.executable(), bytes).unwrap();
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(machine.node.executable(), mode).unwrap();
}

/// No meshed pod starts; then this DaemonSet's does, and they do too.
fn repairs(machine: &Machine, manifest: &Manifest) {
    let web = Pod::of(machine, fixtures::pod("meshed"));
    let refused = web.start(machine).err().unwrap();
    let why = ["Unauthorized", "401"];
    assert!(why.iter().any(|word| refused.contains(word)), "{refused}");
    manifest.apply(machine);
    let installer = DaemonPod::start(machine, manifest, "linkerd-cni-aaaaa").unwrap();
    installer.wait_line(&["Created CNI config"]);
    assert!(machine.node.is_chained(LIST), "{}", installer.log());
    let serving = meshed(machine, "web-1");
    manifest.delete(machine);
    let (code, log) = installer.end();
    assert_eq!(code, 0, "{log}");
    // Nothing of the present installer's is left either.
    let left: Value = serde_json::from_slice(&fs::read(machine.node.conf(LIST)).unwrap()).unwrap();
    assert_eq!(left, serde_json::from_str::<Value>(&list()).unwrap());
    assert!(!machine.node.kubeconfig().exists() && !machine.node.executable().exists());
    drop(serving);
}

#[test]
fn our_image_works_in_the_present_charts_container_and_leaves_with_its_pre_stop() {
    let machine = Machine::with_image();
    let manifest = Manifest::present();
    manifest.apply(&machine);
    grant_rights_of_the_present_chart(&machine);
    let empty = directories(&machine);
    let installer = DaemonPod::start(&machine, &manifest, "linkerd-cni-aaaaa").unwrap();
    installer.wait_line(&["No active CNI configuration files found"]);
    machine.drop_list(&list());
    machine.wait_chained();
    let serving = meshed(&machine, "web-1");

    // It is told to give the node back, as the present one does: it may not know
    // whether its DaemonSet stays.
    let (code, log) = installer.end();
    assert_eq!(code, 0, "{log}");
    assert!(log.contains("SIGTERM received"), "{log}");
    machine.wait_loaded("portmap");
    assert_eq!(
        fs::read(machine.node.conf(LIST)).unwrap(),
        list().as_bytes()
    );
    fs::remove_file(machine.node.conf(LIST)).unwrap();
    assert_eq!(directories(&machine), empty, "{log}");
    assert_eq!(serving.redirected(&machine), (true, true));
}

#[test]
fn in_the_present_charts_container_it_keeps_the_node_if_it_may_ask_and_the_daemonset_stays() {
    let machine = Machine::with_image();
    let manifest = Manifest::present();
    manifest.apply(&machine);
    machine.drop_list(&list());
    let installer = DaemonPod::start(&machine, &manifest, "linkerd-cni-aaaaa").unwrap();
    machine.wait_chained();
    installer.wait_line(&["Watches established."]);
    let chained = directories(&machine);
    let (code, log) = installer.end();
    assert_eq!(code, 0, "{log}");
    assert_eq!(directories(&machine), chained, "{log}");
    meshed(&machine, "meanwhile");
}

#[test]
fn what_the_present_installer_left_is_repaired_from_the_hosts_network() {
    let machine = Machine::with_image();
    put_executable(&machine, OLD_EXECUTABLE.as_bytes());
    leave_stale_entry(&machine);
    repairs(&machine, &Manifest::rendered(&chart()));
}

/// Its own pod goes through the chain that it is to repair: our executable lets it
/// pass unseen.
#[test]
fn a_stale_entry_is_repaired_from_the_pods_network_where_our_executable_is() {
    for manifest in [
        Manifest::rendered(&chart().set("hostNetwork", &json!(false))),
        Manifest::present().in_pod_network(),
    ] {
        let machine = Machine::with_image();
        put_executable(&machine, &fs::read(binaries::plugin()).unwrap());
        leave_stale_entry(&machine);
        repairs(&machine, &manifest);
    }
}
