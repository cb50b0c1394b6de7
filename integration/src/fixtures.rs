//! The files under `integration/fixtures/`, as parsed JSON.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// The path of a fixture, given relative to `integration/fixtures/`.
pub fn path(relative: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures")
        .join(relative)
}

/// The text of a fixture.
///
/// # Panics
///
/// If it is not there.
pub fn text(relative: &str) -> String {
    let path = path(relative);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A fixture that holds JSON.
///
/// # Panics
///
/// If it is not there or not JSON.
pub fn json(relative: &str) -> Value {
    serde_json::from_str(&text(relative))
        .unwrap_or_else(|error| panic!("fixture {relative}: {error}"))
}

/// A pod of `fixtures/pods/`, by file name without extension.
///
/// # Panics
///
/// If there is no such fixture.
pub fn pod(name: &str) -> Value {
    json(&format!("pods/{name}.json"))
}

/// A network configuration template of `fixtures/linkerd/` with its
/// placeholders filled in as the installer fills them in.
///
/// # Panics
///
/// If there is no such fixture, or it is not JSON once filled in.
pub fn template(name: &str, kubeconfig: &Path) -> Value {
    let filled = text(&format!("linkerd/{name}.json"))
        .replace("__KUBECONFIG_FILEPATH__", &kubeconfig.to_string_lossy())
        .replace("__KUBERNETES_SERVICE_HOST__", "10.60.0.1")
        .replace("__KUBERNETES_SERVICE_PORT__", "443");
    serde_json::from_str(&filled).unwrap_or_else(|error| panic!("template {name}: {error}"))
}
