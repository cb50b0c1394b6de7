//! From a datagram to a line of the log.

use proxy_init_rules::report::{LARGEST, Outcome, Report};
use tracing::{info, warn};

use crate::log::shown;

/// The report in a datagram, its texts fit to be printed.
pub(super) fn read(datagram: &[u8]) -> Option<Report> {
    if datagram.len() > LARGEST {
        return None;
    }
    let mut report = Report::decode(datagram).ok()?;
    for text in [
        &mut report.verb,
        &mut report.namespace,
        &mut report.pod,
        &mut report.container,
    ] {
        *text = shown(text);
    }
    match &mut report.outcome {
        Outcome::Redirect { backend: text, .. }
        | Outcome::Pass { reason: text }
        | Outcome::Error { message: text, .. } => *text = shown(text),
        Outcome::Unknown => return None,
    }
    for text in &mut report.warnings {
        *text = shown(text);
    }
    Some(report)
}

/// Says what was decided.
pub(super) fn log(report: &Report) {
    let subject = report.subject();
    let requests = report.requests;
    let ms = report.milliseconds.total;
    match &report.outcome {
        Outcome::Redirect { backend, rules } if report.warnings.is_empty() => {
            info!(
                backend,
                rules, requests, ms, "linkerd-cni: {subject} redirected"
            );
        }
        Outcome::Redirect { backend, rules } => {
            let warnings = report.warnings.join("; ");
            warn!(
                backend,
                rules, requests, ms, "linkerd-cni: {subject} redirected, but: {warnings}"
            );
        }
        Outcome::Pass { reason } => {
            info!(reason, requests, ms, "linkerd-cni: {subject} passed on");
        }
        Outcome::Error { code, message } => {
            let verb = &report.verb;
            warn!(code, ms, "linkerd-cni: {subject} {verb} failed: {message}");
        }
        Outcome::Unknown => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_moves_the_cursor_gets_through() {
        let datagram = r#"{"verb":"ADD\n","pod":"a\u001b[31m","namespace":"\u009bK",
            "outcome":{"decision":"error","code":5,"message":"x\r\n[2023] INFO y"}}"#;
        let report = read(datagram.as_bytes()).unwrap();
        for text in [&report.verb, &report.pod, &report.namespace] {
            assert!(!text.contains(char::is_control), "{text:?}");
        }
        let Outcome::Error { message, .. } = report.outcome else {
            panic!("no error");
        };
        assert_eq!(message, "x\\r\\n[2023] INFO y");
    }

    #[test]
    fn what_is_no_report_is_none() {
        let long = format!("{{\"pod\":\"{}\"}}", "x".repeat(LARGEST));
        let unknown = r#"{"outcome":{"decision":"defer"}}"#;
        for datagram in ["", "{", "[]", "null", "\u{0}", unknown, &long] {
            assert_eq!(read(datagram.as_bytes()), None, "{datagram:.20}");
        }
    }
}
