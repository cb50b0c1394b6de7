//! A DaemonSet and its ConfigMap.

use linkerd_cni_integration::chart::Chart;
use linkerd_cni_integration::fixtures;
use linkerd_cni_integration::node::NAME;
use serde_json::{Value, json};

use crate::machine::Machine;

/// What an API server has of an installation.
#[derive(Clone, Debug)]
pub(crate) struct Manifest {
    daemonset: Value,
    settings: Value,
}

// === impl Manifest ===

impl Manifest {
    /// What Helm makes of our chart.
    pub(crate) fn rendered(chart: &Chart) -> Self {
        let objects = chart.objects();
        let find = |kind: &str| {
            let mut found = objects.iter().filter(|object| object["kind"] == kind);
            found.next().expect("the chart has one").clone()
        };
        Self {
            daemonset: find("DaemonSet"),
            settings: find("ConfigMap")["data"].clone(),
        }
    }

    /// The present chart's pod with its default values, but for the image.
    pub(crate) fn present() -> Self {
        Self {
            daemonset: fixtures::json("chart/present-daemonset.json"),
            settings: json!({
                "dest_cni_net_dir": "/etc/cni/net.d",
                "dest_cni_bin_dir": "/opt/cni/bin",
                "cni_network_config": fixtures::text("linkerd/template-chart.json"),
            }),
        }
    }

    /// The same in the network of the pods, as later releases of the present chart
    /// have it.
    pub(crate) fn in_pod_network(mut self) -> Self {
        self.daemonset["spec"]["template"]["spec"]["hostNetwork"] = false.into();
        self
    }

    /// Tells the API server of it, and of a node that it is meant for.
    pub(crate) fn apply(&self, machine: &Machine) {
        machine.api.put(self.daemonset.clone());
        machine.api.put(json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": NAME, "labels": {"kubernetes.io/os": "linux"}},
        }));
    }

    /// Tells the API server that it is being deleted.
    pub(crate) fn delete(&self, machine: &Machine) {
        let mut deleted = self.daemonset.clone();
        deleted["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        machine.api.put(deleted);
    }

    /// The pods' spec.
    pub(crate) fn spec(&self) -> &Value {
        &self.daemonset["spec"]["template"]["spec"]
    }

    /// Their only container.
    pub(crate) fn container(&self) -> Value {
        let containers = self.spec()["containers"].as_array().expect("containers");
        assert_eq!(containers.len(), 1);
        containers[0].clone()
    }

    /// Their namespace.
    pub(super) fn namespace(&self) -> &str {
        self.daemonset["metadata"]["namespace"]
            .as_str()
            .expect("one")
    }

    /// A value of the ConfigMap.
    pub(super) fn setting(&self, key: &str) -> &str {
        self.settings[key].as_str().expect("a text")
    }

    /// How many seconds a pod has to end.
    pub(super) fn grace(&self) -> Option<i64> {
        self.spec()["terminationGracePeriodSeconds"].as_i64()
    }
}
