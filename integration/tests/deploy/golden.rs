//! What Helm makes of the chart, byte for byte. `UPDATE_EXPECT=1` renews the files; read the
//! difference before it is committed.

use expect_test::expect_file;
use linkerd_cni_integration::chart::{self, Chart};
use serde_json::json;

#[test]
fn helm_has_nothing_to_say_against_the_chart() {
    let said = chart::helm(&["lint", "--strict"]).unwrap();
    assert!(said.contains("0 chart(s) failed"), "{said}");
    for file in ["everything.yaml", "present-test.yaml"] {
        let values = linkerd_cni_integration::fixtures::path("chart").join(file);
        let values = values.to_string_lossy().into_owned();
        chart::helm(&["lint", "--strict", "--values", &values]).unwrap();
    }
}

#[test]
fn the_defaults_render_as_they_should() {
    expect_file!["../../fixtures/golden/chart/defaults.yaml"]
        .assert_eq(&Chart::new().render().unwrap());
}

#[test]
fn every_value_set_renders_as_it_should() {
    expect_file!["../../fixtures/golden/chart/everything.yaml"]
        .assert_eq(&Chart::new().values("everything.yaml").render().unwrap());
}

#[test]
fn the_values_of_the_present_charts_tests_render_as_they_should() {
    expect_file!["../../fixtures/golden/chart/present-test.yaml"]
        .assert_eq(&Chart::new().values("present-test.yaml").render().unwrap());
    expect_file!["../../fixtures/golden/chart/present-fully-configured.yaml"].assert_eq(
        &Chart::new()
            .values("present-fully-configured.yaml")
            .render()
            .unwrap(),
    );
}

/// People without Helm apply the manifest.
#[test]
fn the_manifest_is_the_chart_with_its_namespace() {
    let rendered = Chart::new().set("createNamespace", &json!(true)).render();
    let head = "# The chart linkerd2-cni with its defaults, and its namespace. Do not edit it: a test\n\
                # compares, and UPDATE_EXPECT=1 renews it.\n";
    expect_file!["../../../deploy/linkerd-cni.yaml"]
        .assert_eq(&format!("{head}{}", rendered.unwrap()));
}

#[test]
fn the_chart_has_the_workspaces_version() {
    let chart = std::fs::read_to_string(chart::directory().join("Chart.yaml")).unwrap();
    for key in ["version", "appVersion"] {
        let line = format!("\n{key}: {}\n", env!("CARGO_PKG_VERSION"));
        assert!(chart.contains(&line), "lacks {line}: {chart}");
    }
}
