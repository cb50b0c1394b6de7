//! The Helm chart, rendered by Helm itself.
//!
//! Helm is `LINKERD_CNI_HELM`, or the one on the PATH. Objects come as JSON values, read by a YAML
//! parser that is not Helm's.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};

use crate::{binaries, process};

/// The namespace in which the chart is rendered.
pub const NAMESPACE: &str = "linkerd-cni";

/// Helm that was built from its module takes itself for that of a very old cluster.
const KUBERNETES: &str = "1.34.0";

/// The chart and the values it is rendered with.
#[derive(Clone, Debug, Default)]
pub struct Chart {
    arguments: Vec<String>,
}

// === impl Chart ===

impl Chart {
    /// The chart with its defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes values from a file of `fixtures/chart/`.
    pub fn values(self, file: &str) -> Self {
        let path = crate::fixtures::path("chart").join(file);
        self.with("--values", &path.to_string_lossy())
    }

    /// Sets a value, given as JSON, at a path of keys with dots.
    pub fn set(self, path: &str, json: &Value) -> Self {
        self.with("--set-json", &format!("{path}={json}"))
    }

    /// What Helm makes of it.
    ///
    /// # Errors
    ///
    /// What Helm says if it refuses a value.
    pub fn render(&self) -> Result<String> {
        let mut arguments = vec!["template", "linkerd2-cni", "--namespace", NAMESPACE];
        arguments.extend(["--kube-version", KUBERNETES]);
        arguments.extend(self.arguments.iter().map(String::as_str));
        helm(&arguments)
    }

    /// The objects that Helm makes of it.
    ///
    /// # Panics
    ///
    /// If Helm refuses a value, or what it makes is not YAML.
    pub fn objects(&self) -> Vec<Value> {
        let text = self.render().unwrap_or_else(|error| panic!("{error:#}"));
        documents(&text)
    }

    /// The object of this kind and name.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn object(&self, kind: &str, name: &str) -> Value {
        let is_it = |o: &Value| o["kind"] == kind && o["metadata"]["name"] == name;
        let mut objects = self.objects().into_iter();
        objects
            .find(is_it)
            .unwrap_or_else(|| panic!("no {kind} {name}"))
    }

    /// The plugin's network configuration, as the ConfigMap has it.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn network_configuration(&self) -> String {
        let config = self.object("ConfigMap", "linkerd-cni-config");
        let text = config["data"]["cni_network_config"].as_str();
        text.expect("a network configuration").to_owned()
    }

    /// The installer's container.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn container(&self) -> Value {
        let daemonset = self.object("DaemonSet", "linkerd-cni");
        daemonset["spec"]["template"]["spec"]["containers"][0].clone()
    }

    fn with(mut self, flag: &str, value: &str) -> Self {
        self.arguments.extend([flag.to_owned(), value.to_owned()]);
        self
    }
}

/// Runs Helm with these words and the chart's directory as the last.
///
/// # Errors
///
/// If it is not there, or fails; with what it says.
pub fn helm(arguments: &[&str]) -> Result<String> {
    let program = env::var("LINKERD_CNI_HELM").unwrap_or_else(|_| binaries::helper("helm"));
    let chart = directory();
    let chart = chart.to_string_lossy();
    process::run(&program, &[arguments, &[&*chart]].concat())
}

/// What Helm says to a person who installs this chart into the cluster of this kubeconfig.
///
/// # Errors
///
/// What Helm says if it refuses.
pub fn notes(chart: &Chart, kubeconfig: &Path) -> Result<String> {
    let kubeconfig = kubeconfig.to_string_lossy();
    let mut arguments = vec!["install", "linkerd2-cni", "--dry-run=client"];
    // The harness serves no schema.
    arguments.push("--disable-openapi-validation");
    arguments.extend(["--namespace", NAMESPACE, "--kubeconfig", &*kubeconfig]);
    arguments.extend(chart.arguments.iter().map(String::as_str));
    let said = helm(&arguments)?;
    let notes = said.split("\nNOTES:\n").nth(1).map(str::to_owned);
    notes.with_context(|| format!("no notes: {said}"))
}

/// Where the chart is.
pub fn directory() -> PathBuf {
    deploy().join("charts/linkerd2-cni")
}

/// The repository's `deploy/`.
pub fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("deploy")
}

/// The documents of a YAML text, empty ones left out.
///
/// # Panics
///
/// If it is not YAML.
pub fn documents(text: &str) -> Vec<Value> {
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(text).unwrap_or_else(|error| panic!("{error}:\n{text}"));
    documents.into_iter().filter(|d| !d.is_null()).collect()
}

/// The chart's `values.yaml`.
///
/// # Panics
///
/// If it is not there, or no YAML.
pub fn default_values() -> Map<String, Value> {
    let text = fs::read_to_string(directory().join("values.yaml")).expect("values.yaml");
    serde_saphyr::from_str(&text).expect("values.yaml is YAML")
}

/// Expects Helm to refuse these values, and to name what is wrong.
///
/// # Errors
///
/// If it does not.
pub fn refuses(chart: &Chart, words: &[&str]) -> Result<()> {
    match chart.render() {
        Ok(_) => bail!("{chart:?} is not refused"),
        Err(error) => {
            let said = format!("{error:#}");
            match words.iter().find(|word| !said.contains(**word)) {
                Some(word) => bail!("lacks {word:?}: {said}"),
                None => Ok(()),
            }
        }
    }
}
