//! The configurations that are tried, made from tables: each variation in three settings.
//!
//! A further setting or annotation is a line in `variations.rs`, and a row in `PEER.md` where the two
//! plugins are meant to differ in it.

use std::collections::BTreeSet;
use std::fmt;

use linkerd_cni_integration::fixtures;
use serde_json::{Value, json};

use self::variations::{Variation, variations};

mod variations;

/// What one pod is made with: the chart's configuration, a pod whose proxy runs as configured, and a
/// namespace without annotations, until something is changed.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// The `linkerd` object of the network configuration.
    pub(crate) linkerd: Value,
    pub(crate) pod: Value,
    pub(crate) namespace: Value,
}

/// One configuration, and the values (`axis=value`) that make it.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) values: BTreeSet<String>,
    pub(crate) setup: Setup,
}

/// The container of the proxy.
const PROXY: &str = "linkerd-proxy";

/// What carries an annotation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum On {
    Pod,
    Namespace,
}

/// Mode and IPv6 that every variation is tried with.
const SETTINGS: [(&str, &str); 3] = [("legacy", "off"), ("nft", "on"), ("plain", "off")];

/// The rest of these two, with nothing else changed.
const MORE_SETTINGS: [(&str, &str); 3] = [("legacy", "on"), ("nft", "off"), ("plain", "on")];

/// Every configuration.
pub(crate) fn cases() -> Vec<Case> {
    let unchanged = SETTINGS.into_iter().chain(MORE_SETTINGS);
    let mut cases: Vec<Case> = unchanged.map(|setting| Case::new(setting, None)).collect();
    for variation in variations() {
        cases.extend(SETTINGS.map(|setting| Case::new(setting, Some(&variation))));
    }
    cases
}

// === impl Case ===

impl Case {
    fn new((mode, ipv6): (&str, &str), variation: Option<&Variation>) -> Self {
        let mut setup = Setup::new();
        setup.set("iptables-mode", mode);
        setup.set("ipv6", ipv6 == "on");
        let mut values = BTreeSet::from([format!("mode={mode}"), format!("ipv6={ipv6}")]);
        if let Some(variation) = variation {
            variation.change(&mut setup);
            values.extend(variation.values.iter().cloned());
        }
        Self { values, setup }
    }

    pub(crate) fn name(&self) -> String {
        let values: Vec<&str> = self.values.iter().map(String::as_str).collect();
        values.join(" ")
    }
}

// === impl Setup ===

impl Setup {
    fn new() -> Self {
        let mut namespace = fixtures::pod("namespace");
        namespace["metadata"]["annotations"] = json!({});
        Self {
            linkerd: fixtures::json("linkerd/template-chart.json")["linkerd"].clone(),
            pod: fixtures::pod("meshed"),
            namespace,
        }
    }

    /// Sets a key of the configuration; `null` leaves it out.
    fn set(&mut self, key: &str, value: impl Into<Value>) {
        let members = self.linkerd.as_object_mut().expect("it is an object");
        match value.into() {
            Value::Null => members.remove(key),
            value => members.insert(key.to_owned(), value),
        };
    }

    fn annotate(&mut self, on: On, name: &str, value: &str) {
        let object = match on {
            On::Pod => &mut self.pod,
            On::Namespace => &mut self.namespace,
        };
        let key = format!("config.linkerd.io/{name}");
        object["metadata"]["annotations"][key] = json!(value);
    }

    /// Nothing but configuration and annotations tells who the proxy is, if that is what is tried.
    fn only_configured(&mut self, key: &str) {
        if key == "proxy-uid" {
            self.proxy_runs_as(None);
        }
    }

    fn proxy_runs_as(&mut self, uid: Option<u32>) {
        let context = uid.map_or(json!({}), |uid| json!({"runAsUser": uid}));
        self.container(PROXY)["securityContext"] = context;
    }

    fn container(&mut self, name: &str) -> &mut Value {
        let all = self.pod["spec"]["containers"].as_array_mut();
        let mut all = all.into_iter().flatten();
        let found = all.find(|container| container["name"] == name);
        found.expect("the pod has it")
    }
}

// === impl On ===

impl fmt::Display for On {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Pod => "pod",
            Self::Namespace => "namespace",
        })
    }
}
