//! Alert rules and dashboard, read by Prometheus' own promtool.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use linkerd_cni_integration::chart::deploy;
use linkerd_cni_integration::{binaries, fixtures, image, process, tool};
use serde_json::{Value, json};

/// The metrics that there are.
const METRICS: [&str; 8] = [
    "linkerd_cni_add_duration_seconds_bucket",
    "linkerd_cni_add_total",
    "linkerd_cni_installer_configurations_chained",
    "linkerd_cni_installer_last_change_timestamp_seconds",
    "linkerd_cni_installer_passes_total",
    "linkerd_cni_installer_ready",
    "linkerd_cni_installer_token_expiry_timestamp_seconds",
    "linkerd_cni_installer_undone_total",
];

fn alerts() -> String {
    fs::read_to_string(deploy().join("alerts/linkerd-cni.yaml")).expect("the alerts")
}

fn dashboard() -> Value {
    image::json(&deploy().join("dashboards/linkerd-cni.json"))
}

/// The expressions of all panels, Grafana's variables filled in.
fn expressions(dashboard: &Value) -> Vec<String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let panels = list(&dashboard["panels"]);
    let targets = panels.iter().flat_map(|panel| list(&panel["targets"]));
    let expressions = targets.map(|target| target["expr"].as_str().expect("text").to_owned());
    expressions
        .map(|e| {
            e.replace("$__rate_interval", "5m")
                .replace("$instance", ".*")
        })
        .collect()
}

/// Whatever looks like a metric of ours.
fn metrics(text: &str) -> BTreeSet<&str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| word.starts_with("linkerd_cni_"))
        .collect()
}

fn promtool(command: &str, file: &Path) -> String {
    let promtool = binaries::helper("promtool");
    process::run(&promtool, &[command, "rules", &file.to_string_lossy()])
        .unwrap_or_else(|error| panic!("{error:#}"))
}

#[test]
fn each_alert_fires_for_what_it_is_made_for_and_none_on_a_healthy_node() {
    let directory = tool::scratch();
    let rules = directory.path().join("linkerd-cni.yaml");
    let cases = directory.path().join("fire.yaml");
    fs::write(&rules, alerts()).unwrap();
    fs::write(&cases, fixtures::text("alerts/fire.yaml")).unwrap();
    promtool("check", &rules);
    promtool("test", &cases);
    let alerts = alerts();
    for name in alerts
        .lines()
        .filter_map(|l| l.trim().strip_prefix("- alert: "))
    {
        let tested = fixtures::text("alerts/fire.yaml").contains(&format!("\"{name}\""));
        assert!(tested, "no case for {name}");
    }
}

#[test]
fn prometheus_reads_every_expression_of_the_dashboard() {
    let expressions = expressions(&dashboard());
    assert!(expressions.len() > 10, "{expressions:?}");
    let rules: Vec<Value> = expressions
        .iter()
        .map(|expression| json!({"record": "x", "expr": expression}))
        .collect();
    let directory = tool::scratch();
    let file = directory.path().join("dashboard.yaml");
    // JSON is YAML.
    fs::write(
        &file,
        json!({"groups": [{"name": "x", "rules": rules}]}).to_string(),
    )
    .unwrap();
    promtool("check", &file);
}

#[test]
fn dashboard_and_alerts_know_every_metric_and_no_other() {
    let dashboard = dashboard();
    let all = expressions(&dashboard).join(" ");
    let alerts = alerts();
    assert_eq!(metrics(&all), BTreeSet::from(METRICS));
    assert!(
        metrics(&alerts).is_subset(&BTreeSet::from(METRICS)),
        "{alerts}"
    );
}

#[test]
fn every_panel_of_the_dashboard_has_a_place_of_its_own() {
    let panels = dashboard()["panels"].as_array().cloned().unwrap();
    let mut taken = BTreeSet::new();
    for panel in &panels {
        let at = |key: &str| panel["gridPos"][key].as_u64().expect("a number");
        assert!(at("x") + at("w") <= 24, "{panel}");
        for x in at("x")..at("x") + at("w") {
            for y in at("y")..at("y") + at("h") {
                assert!(taken.insert((x, y)), "{} lies over another", panel["title"]);
            }
        }
    }
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64()).collect();
    assert_eq!(ids.len(), panels.len());
}
