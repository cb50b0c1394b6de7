use proxy_init_rules::report::{Milliseconds, Outcome};

use super::{labels::MOST_SERIES, *};

fn report(outcome: Outcome) -> Report {
    Report {
        verb: "ADD".to_owned(),
        outcome,
        milliseconds: Milliseconds {
            api: 3.0,
            rules: 0.0,
            total: 7.0,
        },
        ..Report::default()
    }
}

fn pass(reason: &str) -> Report {
    report(Outcome::Pass {
        reason: reason.to_owned(),
    })
}

fn line<'a>(text: &'a str, start: &str) -> Option<&'a str> {
    text.lines().find(|line| line.starts_with(start))
}

#[test]
fn the_names_are_those_of_the_contract() {
    let metrics = Metrics::new();
    metrics.pass(&Pass {
        changed: true,
        chained: Some(2),
        undone: 1,
        token_expiry: Some(1_800_000_000),
        ..Pass::default()
    });
    metrics.ready(true);
    for result in [
        Some(Tainted::Set),
        Some(Tainted::Removed),
        Some(Tainted::Unchanged),
        None,
    ] {
        metrics.taint(result);
    }
    metrics.decision(&pass("no-proxy"));
    let text = metrics.text().unwrap();
    for expected in [
        "linkerd_cni_installer_passes_total{result=\"changed\"} 1",
        "linkerd_cni_installer_configurations_chained 2",
        "linkerd_cni_installer_undone_total 1",
        "linkerd_cni_installer_startup_taint_total{result=\"set\"} 1",
        "linkerd_cni_installer_startup_taint_total{result=\"removed\"} 1",
        "linkerd_cni_installer_startup_taint_total{result=\"failed\"} 1",
        "linkerd_cni_installer_token_expiry_timestamp_seconds 1800000000",
        "linkerd_cni_installer_ready 1",
        "linkerd_cni_installer_reports_ignored_total 0",
        "linkerd_cni_add_total{decision=\"pass\",reason=\"no-proxy\",backend=\"\"} 1",
        "linkerd_cni_add_duration_seconds_bucket{le=\"0.005\",phase=\"api\"} 1",
        "linkerd_cni_add_duration_seconds_bucket{le=\"10.0\",phase=\"total\"} 1",
        "linkerd_cni_add_duration_seconds_sum{phase=\"total\"} 0.007",
    ] {
        assert!(
            text.lines().any(|line| line == expected),
            "{expected}\n{text}"
        );
    }
    let build = format!(
        "linkerd_cni_build_info{{version=\"{}\"}} 1",
        env!("CARGO_PKG_VERSION")
    );
    assert!(text.contains(&build), "{text}");
    assert!(
        line(
            &text,
            "linkerd_cni_installer_last_change_timestamp_seconds 1"
        )
        .is_some()
    );
    assert!(!text.contains("phase=\"rules\""), "{text}");
}

#[test]
fn what_is_not_known_is_absent() {
    let metrics = Metrics::new();
    let text = metrics.text().unwrap();
    assert_eq!(line(&text, "linkerd_cni_installer_last_change"), None);
    assert_eq!(line(&text, "linkerd_cni_installer_token"), None);
}

#[test]
fn labels_are_bounded_whatever_is_sent() {
    let metrics = Metrics::new();
    for n in 0..5000 {
        metrics.decision(&pass(&format!("reason-{n}")));
        metrics.decision(&pass(&format!("Pod Name {n}")));
        metrics.decision(&report(Outcome::Error {
            code: n,
            message: String::new(),
        }));
    }
    let text = metrics.text().unwrap();
    let series = text
        .lines()
        .filter(|l| l.starts_with("linkerd_cni_add_total"));
    assert!(series.count() <= MOST_SERIES + 3, "{text}");
    assert!(!text.contains("Pod Name"), "{text}");
}

#[test]
fn a_time_that_is_none_and_another_verb_are_not_counted() {
    let metrics = Metrics::new();
    let mut odd = pass("no-proxy");
    for total in [-1.0, f64::NAN, f64::INFINITY, 1e300] {
        odd.milliseconds.total = total;
        metrics.decision(&odd);
    }
    let mut check = pass("no-proxy");
    check.verb = "CHECK".to_owned();
    metrics.decision(&check);
    metrics.decision(&report(Outcome::Unknown));
    let text = metrics.text().unwrap();
    assert!(
        line(
            &text,
            "linkerd_cni_add_duration_seconds_sum{phase=\"total\"}"
        )
        .is_none()
    );
    assert!(
        text.contains("reason=\"no-proxy\",backend=\"\"} 4"),
        "{text}"
    );
}
