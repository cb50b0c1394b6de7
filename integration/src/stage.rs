//! What most tests start from: a namespace, an API server with one pod in it,
//! a kubeconfig that leads there, and calls made of these.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::api_server::ApiServer;
use crate::fixtures;
use crate::kubeconfig::Kubeconfig;
use crate::netns::{Netns, unique_name};
use crate::plugin::Call;

/// Where the plugin keeps its records.
pub const RECORDS: &str = "/run/linkerd-cni";

/// A pod that is about to get its network.
#[derive(Debug)]
pub struct Stage {
    /// The pod's network namespace.
    pub netns: Arc<Netns>,
    /// The API server that knows the pod.
    pub api: ApiServer,
    /// Leads to the API server.
    pub kubeconfig: Kubeconfig,
    /// The pod's sandbox.
    pub container_id: String,
    /// The network configuration that calls get.
    pub config: Value,
    pod: Value,
}

// === impl Stage ===

impl Stage {
    /// A fresh namespace for the pod of `fixtures/pods/NAME.json`, and the
    /// configuration of `fixtures/linkerd/template-chart.json` (nft, IPv6).
    ///
    /// # Panics
    ///
    /// If the machine does not let us, or there is no such fixture.
    pub fn new(pod: &str) -> Self {
        Self::in_namespace(fixtures::pod(pod), &Arc::new(Netns::new()))
    }

    /// As [`Stage::new`], for a pod and a namespace of the test's own.
    ///
    /// # Panics
    ///
    /// As [`Stage::new`].
    pub fn in_namespace(pod: Value, netns: &Arc<Netns>) -> Self {
        let api = ApiServer::start();
        api.put(pod.clone());
        api.put(fixtures::pod("namespace"));
        api.put(fixtures::pod("service-kubernetes"));
        let kubeconfig = Kubeconfig::of(&api);
        let config = network_config("template-chart", &kubeconfig.path());
        Self {
            netns: Arc::clone(netns),
            api,
            kubeconfig,
            container_id: unique_name(),
            config,
            pod,
        }
    }

    /// Uses another template of `fixtures/linkerd/`.
    ///
    /// # Panics
    ///
    /// If there is no such fixture.
    pub fn template(mut self, name: &str) -> Self {
        self.config = network_config(name, &self.kubeconfig.path());
        self
    }

    /// Sets a key of the configuration's `linkerd` object.
    pub fn linkerd(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.config["linkerd"][key] = value.into();
        self
    }

    /// Sets a key of the configuration.
    pub fn top(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.config[key] = value.into();
        self
    }

    /// The pod, for the API server to serve, with an annotation set.
    pub fn annotate(mut self, key: &str, value: &str) -> Self {
        self.pod["metadata"]["annotations"][key] = json!(value);
        self.api.put(self.pod.clone());
        self
    }

    /// A call of this verb for this pod's first interface.
    ///
    /// # Panics
    ///
    /// If the plugin's executable is not there.
    pub fn call(&self, verb: &str) -> Call {
        let name = |key: &str| self.pod["metadata"][key].as_str().unwrap_or_default();
        Call::new(verb)
            .container(&self.container_id)
            .interface("eth0")
            .netns(&self.netns.path())
            .pod(name("namespace"), name("name"))
            .config(&self.config)
    }

    /// ADD for this pod.
    ///
    /// # Panics
    ///
    /// If the plugin's executable is not there.
    pub fn add(&self) -> Call {
        self.call("ADD")
    }

    /// DEL for this pod.
    ///
    /// # Panics
    ///
    /// If the plugin's executable is not there.
    pub fn del(&self) -> Call {
        self.call("DEL")
    }

    /// The file of this pod's record for an interface.
    pub fn record(&self, ifname: &str) -> PathBuf {
        Path::new(RECORDS).join(format!("{}-{ifname}.json", self.container_id))
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        for ifname in ["eth0", "net1", "net2"] {
            // Most tests leave none.
            let _ = fs::remove_file(self.record(ifname));
        }
    }
}

/// A template of `fixtures/linkerd/` as the last plugin of a list of version
/// 0.3.1 receives it: name, version and previous result injected.
///
/// # Panics
///
/// If there is no such fixture.
pub fn network_config(template: &str, kubeconfig: &Path) -> Value {
    let mut config = fixtures::template(template, kubeconfig);
    config["name"] = json!("k8s-pod-network");
    config["cniVersion"] = json!("0.3.1");
    config["prevResult"] = previous_result();
    config
}

/// What the main plugin of a dual-stack network answers (version 0.3.1).
pub fn previous_result() -> Value {
    json!({
        "cniVersion": "0.3.1",
        "interfaces": [{"name": "eth0", "sandbox": "/run/netns/pod", "mac": "0a:58:0a:f4:01:02"}],
        "ips": [
            {"version": "4", "interface": 0, "address": "10.244.1.2/24", "gateway": "10.244.1.1"},
            {"version": "6", "interface": 0, "address": "fd00:244:1::2/64"}
        ],
        "routes": [{"dst": "0.0.0.0/0"}],
        "dns": {}
    })
}
