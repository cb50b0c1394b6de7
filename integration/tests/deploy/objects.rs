//! The objects: names and labels that others look for, and that an API server takes them.

use std::collections::BTreeSet;

use k8s_openapi::api::{
    apps::v1::DaemonSet,
    core::v1::{ConfigMap, Namespace, ServiceAccount},
    rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
};
use linkerd_cni_integration::api_server::ApiServer;
use linkerd_cni_integration::chart::{self, Chart};
use linkerd_cni_integration::kubeconfig::Kubeconfig;
use linkerd_cni_integration::node::Node;
use linkerd_cni_integration::{fixtures, process};
use serde_json::{Value, json};

fn charts() -> [Chart; 4] {
    [
        Chart::new(),
        Chart::new().values("everything.yaml"),
        Chart::new().values("present-test.yaml"),
        Chart::new().values("present-fully-configured.yaml"),
    ]
}

/// What `linkerd check` asks the API server for, under the names it asks for.
#[test]
fn what_linkerd_check_looks_for_is_there() {
    for chart in charts() {
        for (kind, name) in [
            ("ConfigMap", "linkerd-cni-config"),
            ("ClusterRole", "linkerd-cni"),
            ("ClusterRoleBinding", "linkerd-cni"),
            ("ServiceAccount", "linkerd-cni"),
            ("DaemonSet", "linkerd-cni"),
        ] {
            let object = chart.object(kind, name);
            let label = &object["metadata"]["labels"]["linkerd.io/cni-resource"];
            assert_eq!(label, "true", "{object}");
        }
        let daemonset = chart.object("DaemonSet", "linkerd-cni");
        let labels = &daemonset["spec"]["template"]["metadata"]["labels"];
        assert_eq!(labels["linkerd.io/cni-resource"], "true");
        // It cannot be changed, so an upgrade from the present chart needs the same.
        let selector = &daemonset["spec"]["selector"]["matchLabels"];
        assert_eq!(selector, &json!({"k8s-app": "linkerd-cni"}));
        assert_eq!(labels["k8s-app"], "linkerd-cni");
    }
}

#[test]
fn the_pod_is_there_before_the_network_and_stays_on_every_node() {
    let spec = Chart::new().object("DaemonSet", "linkerd-cni")["spec"]["template"]["spec"].clone();
    assert_eq!(spec["hostNetwork"], true);
    assert_eq!(spec["priorityClassName"], "system-node-critical");
    assert_eq!(spec["tolerations"], json!([{"operator": "Exists"}]));
    // The installer asks for 3 s and gives back in 2 s, by itself.
    assert!(spec["terminationGracePeriodSeconds"].as_u64() > Some(5));
    let container = Chart::new().container();
    assert_eq!(container["lifecycle"], Value::Null);
    assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
}

/// A probe that cannot arrive would restart the installer for ever.
#[test]
fn life_is_probed_only_where_kubelet_can_ask() {
    let probe = |address: &str, host_network: bool| {
        let chart = Chart::new()
            .set("adminAddress", &json!(address))
            .set("hostNetwork", &json!(host_network));
        chart.container()["livenessProbe"]["httpGet"].clone()
    };
    let anywhere = json!({"path": "/live", "port": "admin-http"});
    let loopback = json!({"path": "/live", "port": "admin-http", "host": "127.0.0.1"});
    for (address, host_network, expected) in [
        ("", true, &Value::Null),
        ("0.0.0.0:9990", true, &anywhere),
        ("0.0.0.0:9990", false, &anywhere),
        ("[::]:9990", true, &anywhere),
        ("127.0.0.1:9990", true, &loopback),
        ("127.0.0.1:9990", false, &Value::Null),
    ] {
        let found = probe(address, host_network);
        assert_eq!(found, *expected, "{address} {host_network}");
    }
}

/// The API's own types: what they do not carry through, an API server would drop or refuse.
#[test]
fn the_apis_types_know_every_field() {
    for object in charts().iter().flat_map(Chart::objects) {
        let carried = match object["kind"].as_str().unwrap() {
            "ClusterRole" => carried::<ClusterRole>(&object),
            "ClusterRoleBinding" => carried::<ClusterRoleBinding>(&object),
            "ConfigMap" => carried::<ConfigMap>(&object),
            "DaemonSet" => carried::<DaemonSet>(&object),
            "Namespace" => carried::<Namespace>(&object),
            "PodMonitor" => carried::<crate::pod_monitor::PodMonitor>(&object),
            "Role" => carried::<Role>(&object),
            "RoleBinding" => carried::<RoleBinding>(&object),
            "ServiceAccount" => carried::<ServiceAccount>(&object),
            kind => panic!("{kind} is not expected"),
        };
        assert_eq!(carried, object);
    }
}

fn carried<T: serde::de::DeserializeOwned + serde::Serialize>(object: &Value) -> Value {
    let typed: T = serde_json::from_value(object.clone())
        .unwrap_or_else(|error| panic!("{error}: {object:#}"));
    serde_json::to_value(typed).expect("the API's types are JSON")
}

/// An API server that says which kinds there are, and serves nothing else.
fn cluster() -> (ApiServer, Kubeconfig) {
    let server = ApiServer::start();
    let discovery = fixtures::json("chart/discovery.json");
    for (path, answer) in discovery.as_object().expect("paths and answers") {
        server.put_at(path, answer.clone());
    }
    let kubeconfig = Kubeconfig::of(&server);
    (server, kubeconfig)
}

/// kubectl knows the kinds from the server, and refuses what it cannot place. Fields are for
/// `the_apis_types_know_every_field`: this server has no schema to offer.
#[test]
fn kubectl_accepts_every_object() {
    let (_server, kubeconfig) = cluster();
    let cache = tempfile::tempdir().unwrap();
    let kubeconfig = kubeconfig.path();
    for chart in charts() {
        let said = process::run_with_input(
            "kubectl",
            &[
                &format!("--kubeconfig={}", kubeconfig.display()),
                &format!("--cache-dir={}", cache.path().display()),
                "create",
                "--dry-run=client",
                "--validate=false",
                "--filename=-",
            ],
            &chart.render().unwrap(),
        )
        .unwrap();
        let accepted: BTreeSet<&str> = said.lines().collect();
        assert_eq!(accepted.len(), chart.objects().len(), "{said}");
        for line in accepted {
            assert!(line.ends_with("created (dry run)"), "{said}");
        }
    }
}

#[test]
fn what_is_ignored_is_told_to_the_person_who_installs() {
    let (_server, kubeconfig) = cluster();
    let said = |chart: &Chart| chart::notes(chart, &kubeconfig.path()).unwrap();
    let quiet = said(&Chart::new());
    assert!(!quiet.contains("IGNORED"), "{quiet}");
    for (path, value) in [
        ("enablePSP", json!(true)),
        ("repairController", json!({"enabled": true})),
        ("namespace", json!("other")),
        ("cniPluginImage", json!("example.org/cni")),
    ] {
        let notes = said(&Chart::new().set(path, &value));
        assert!(notes.contains(&format!("IGNORED: {path}.")), "{notes}");
    }
}

#[test]
fn where_the_priority_may_need_a_quota_is_told() {
    let (_server, kubeconfig) = cluster();
    let said = |chart: &Chart| chart::notes(chart, &kubeconfig.path()).unwrap();
    assert!(said(&Chart::new()).contains("insufficient quota"));
    let none = Chart::new().set("priorityClassName", &json!(""));
    assert!(!said(&none).contains("insufficient quota"));
}

#[test]
fn the_pods_tolerate_the_startup_taint_whatever_else_they_tolerate() {
    let tolerations = |chart: &Chart| {
        let daemonset = chart.object("DaemonSet", "linkerd-cni");
        daemonset["spec"]["template"]["spec"]["tolerations"].clone()
    };
    let key = "linkerd.io/cni-not-ready";
    let tainted = Chart::new().set("startupTaint", &json!(key));
    let everything = json!([{"operator": "Exists"}]);
    assert_eq!(tolerations(&tainted), everything);
    let ours = json!({"key": key, "operator": "Exists"});
    for (set, expected) in [
        (json!([]), json!([ours])),
        (
            json!([{"key": "a", "operator": "Exists"}]),
            json!([{"key": "a", "operator": "Exists"}, ours]),
        ),
        (
            json!([{"operator": "Exists", "effect": "NoExecute"}]),
            json!([{"operator": "Exists", "effect": "NoExecute"}, ours]),
        ),
    ] {
        let chart = tainted.clone().set("tolerations", &set);
        assert_eq!(tolerations(&chart), expected);
        let untainted = Chart::new().set("tolerations", &set);
        let kept = tolerations(&untainted);
        assert!(kept == set || kept.is_null() && set == json!([]), "{kept}");
    }
}

#[test]
fn the_directory_above_both_is_mounted_instead_of_them() {
    let chart = Chart::new()
        .set(
            "destCNINetDir",
            &json!("/var/snap/microk8s/current/args/cni-network"),
        )
        .set(
            "destCNIBinDir",
            &json!("/var/snap/microk8s/current/opt/cni/bin"),
        )
        .set("hostMountDir", &json!("/var/snap/microk8s/"));
    let pod = chart.object("DaemonSet", "linkerd-cni")["spec"]["template"]["spec"].clone();
    let named = |list: &Value, name: &str| {
        let mut list = list.as_array().unwrap().iter();
        list.find(|item| item["name"] == name).cloned()
    };
    let volume = named(&pod["volumes"], "host-dir").unwrap();
    assert_eq!(volume["hostPath"]["path"], "/var/snap/microk8s");
    let mounts = &pod["containers"][0]["volumeMounts"];
    assert_eq!(
        named(mounts, "host-dir").unwrap()["mountPath"],
        "/host/var/snap/microk8s"
    );
    for gone in ["cni-net-dir", "cni-bin-dir"] {
        assert_eq!(
            (named(&pod["volumes"], gone), named(mounts, gone)),
            (None, None)
        );
    }
    let elsewhere = chart.set("hostMountDir", &json!("/var/snap/microk8s/current/opt"));
    chart::refuses(&elsewhere, &["hostMountDir", "have to be below it"]).unwrap();
}

#[test]
fn an_empty_list_of_configurations_to_ignore_ignores_none() {
    for (value, expected) in [
        (json!([]), "none"),
        (json!(["a.conf", "b*.conflist"]), "a.conf,b*.conflist"),
    ] {
        let chart = Chart::new().set("ignoreConfigurations", &value);
        let env = chart.container()["env"].as_array().cloned().unwrap();
        let variable = env.iter().find(|v| v["name"] == "IGNORE_CONFIGURATIONS");
        assert_eq!(variable.unwrap()["value"], expected);
    }
}

/// The chart shows what the installer does without it.
#[test]
fn the_chart_ignores_what_the_installer_ignores_by_default() {
    let list = chart::default_values()["ignoreConfigurations"].clone();
    let names: Vec<_> = list
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let help = Node::new().run(&["--help"]);
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let default = format!("[default: {}]", names.join(","));
    assert!(words.contains(&default), "{default}: {help}");
}
