//! Tells the installer what was decided, so that it stands in its log: one datagram, sent and
//! forgotten.
//!
//! The pod does not depend on it. Nobody may be there to listen, or not fast enough; the path may
//! be anything. None of that is worth a word, let alone a wait.

use std::{fs, os::unix::fs::FileTypeExt as _, os::unix::net::UnixDatagram, path::Path};

use proxy_init_rules::report::{Milliseconds, Outcome, Report, SOCKET};
use serde::Serialize;

use crate::{
    cni::{self, Attachment, Command, Environment, Error, PodRef},
    record::{Decision, Phases},
};

const ADD: &str = "ADD";

/// Reports what ADD decided.
pub(crate) fn decision(
    attachment: &Attachment,
    decision: &Decision,
    warnings: Vec<String>,
    requests: u32,
    phases: Phases,
) {
    let outcome = match decision {
        Decision::Redirect { backend, rules, .. } => Outcome::Redirect {
            backend: backend.to_string(),
            rules: rules.iter().map(|of| count(of.rules.len())).sum(),
        },
        Decision::Pass { why } => Outcome::Pass { reason: word(why) },
    };
    send(Report {
        outcome,
        requests,
        warnings,
        ..about(ADD, Some(attachment), phases)
    });
}

/// Reports why an ADD or a CHECK failed. Nobody needs to know of the other verbs: DEL never
/// fails, and STATUS is asked again and again.
pub(crate) fn failure(environment: &impl Environment, error: &Error, phases: Phases) {
    let verb = match cni::command(environment) {
        Ok(Command::Add) => ADD,
        Ok(Command::Check) => "CHECK",
        _ => return,
    };
    let attachment = Attachment::read(environment).ok();
    send(Report {
        outcome: Outcome::Error {
            code: error.code() as u32,
            message: error.to_string(),
        },
        ..about(verb, attachment.as_ref(), phases)
    });
}

fn about(verb: &str, attachment: Option<&Attachment>, phases: Phases) -> Report {
    let pod = attachment.and_then(|attachment| attachment.pod.as_ref());
    let of_pod = |field: fn(&PodRef) -> &String| pod.map(field).cloned().unwrap_or_default();
    Report {
        verb: verb.to_owned(),
        namespace: of_pod(|pod| &pod.namespace),
        pod: of_pod(|pod| &pod.name),
        container: attachment.map_or(String::new(), |of| of.container_id.clone()),
        milliseconds: Milliseconds {
            api: phases.api,
            rules: phases.rules,
            total: phases.total,
        },
        ..Report::default()
    }
}

fn count(rules: usize) -> u32 {
    u32::try_from(rules).unwrap_or(u32::MAX)
}

/// The one word that a value is written as.
fn word(value: &impl Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

fn send(report: Report) {
    // A link could lead to somebody else's socket, who would take it for a message of his own.
    let is_socket = fs::symlink_metadata(SOCKET).is_ok_and(|m| m.file_type().is_socket());
    if is_socket {
        // Silent, see above.
        let _ = send_to(Path::new(SOCKET), &report.encode());
    }
}

/// Never waits for room: a full queue is EAGAIN.
fn send_to(path: &Path, datagram: &[u8]) -> std::io::Result<usize> {
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.send_to(datagram, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::Pass;

    #[test]
    fn a_full_queue_is_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log.sock");
        let _nobody_reads = UnixDatagram::bind(&path).unwrap();
        let sent = (0..100_000).find_map(|_| send_to(&path, b"{}").err());
        assert_eq!(sent.unwrap().kind(), std::io::ErrorKind::WouldBlock);
    }

    #[test]
    fn a_reason_is_one_word() {
        assert_eq!(word(&Pass::ExcludedNamespace), "excluded-namespace");
    }
}
