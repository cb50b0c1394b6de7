//! The PodMonitor, by the fields that the operator's CustomResourceDefinition has
//! (`monitoring.coreos.com/v1`, of prometheus-operator 0.91): an API server drops what is not in it
//! without a word.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use linkerd_cni_integration::chart::{Chart, refuses};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PodMonitor {
    api_version: String,
    kind: String,
    metadata: ObjectMeta,
    spec: Spec,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Spec {
    selector: LabelSelector,
    pod_metrics_endpoints: Vec<Endpoint>,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Endpoint {
    port: String,
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    interval: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scrape_timeout: Option<String>,
    relabelings: Vec<Relabeling>,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Relabeling {
    source_labels: Vec<String>,
    target_label: String,
}

fn monitored() -> Chart {
    let chart = Chart::new().set("podMonitor.enabled", &json!(true));
    chart.set("adminAddress", &json!("0.0.0.0:9990"))
}

#[test]
fn there_is_none_unless_it_is_asked_for() {
    let objects = Chart::new().objects();
    assert!(objects.iter().all(|object| object["kind"] != "PodMonitor"));
}

#[test]
fn it_selects_the_pods_and_the_port_that_they_have() {
    let chart = monitored();
    let monitor = chart.object("PodMonitor", "linkerd-cni");
    assert_eq!(monitor["apiVersion"], "monitoring.coreos.com/v1");
    let pod = chart.object("DaemonSet", "linkerd-cni")["spec"]["template"].clone();
    let selected = monitor["spec"]["selector"]["matchLabels"]
        .as_object()
        .unwrap();
    for (label, value) in selected {
        assert_eq!(&pod["metadata"]["labels"][label], value);
    }
    let endpoint = &monitor["spec"]["podMetricsEndpoints"][0];
    let ports = pod["spec"]["containers"][0]["ports"].as_array().unwrap();
    assert!(
        ports.iter().any(|port| port["name"] == endpoint["port"]),
        "{ports:?}"
    );
    // What dashboard and alerts take the instance for.
    assert_eq!(endpoint["relabelings"][0]["targetLabel"], "instance");
    assert_eq!(
        (&endpoint["interval"], &endpoint["scrapeTimeout"]),
        (&Value::Null, &Value::Null)
    );
}

#[test]
fn its_labels_and_times_can_be_set_and_without_an_address_it_is_refused() {
    let chart = monitored()
        .set("podMonitor.labels", &json!({"release": "prometheus"}))
        .set("podMonitor.scrapeInterval", &json!("1m30s"))
        .set("podMonitor.scrapeTimeout", &json!("10s"));
    let monitor = chart.object("PodMonitor", "linkerd-cni");
    assert_eq!(monitor["metadata"]["labels"]["release"], "prometheus");
    let endpoint = &monitor["spec"]["podMetricsEndpoints"][0];
    assert_eq!(
        (&endpoint["interval"], &endpoint["scrapeTimeout"]),
        (&json!("1m30s"), &json!("10s"))
    );
    let bare = Chart::new().set("podMonitor.enabled", &json!(true));
    refuses(&bare, &["podMonitor", "needs adminAddress"]).unwrap();
    let wrong = monitored().set("podMonitor.scrapeInterval", &json!("30 s"));
    refuses(&wrong, &["podMonitor", "scrapeInterval"]).unwrap();
}
