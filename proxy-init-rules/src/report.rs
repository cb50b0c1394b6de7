//! What the plugin tells the installer of each decision: one datagram, one JSON object.
//!
//! The plugin sends it and forgets it; the installer logs and counts it. Both ends come from one
//! image, but for a moment of an upgrade they do not: unknown members are ignored, missing ones
//! have defaults, and what is not understood is no error for anybody but the log.

use serde::{Deserialize, Serialize};

/// The socket on the host, beside the records.
pub const SOCKET: &str = "/run/linkerd-cni/log.sock";

/// The largest datagram, in bytes. Longer texts are cut so that every report fits.
pub const LARGEST: usize = 16 << 10;

/// A name of Kubernetes is 253 bytes at the most; a byte may take six in JSON.
const LONGEST_NAME: usize = 253;
const LONGEST_MESSAGE: usize = 1000;
/// Of all warnings together.
const LONGEST_WARNINGS: usize = 800;
const MOST_WARNINGS: usize = 20;

/// One decision about one attachment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// The CNI verb: `ADD`, `CHECK`.
    pub verb: String,
    /// The pod's namespace and name; both empty if it is no pod of Kubernetes.
    pub namespace: String,
    /// The pod's name.
    pub pod: String,
    /// The container's id.
    pub container: String,
    /// What was decided.
    pub outcome: Outcome,
    /// Requests to the API server.
    pub requests: u32,
    /// How long it took.
    pub milliseconds: Milliseconds,
    /// What ADD warned of, a sentence each.
    pub warnings: Vec<String>,
}

/// What was decided.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "lowercase")]
pub enum Outcome {
    /// Its traffic is redirected.
    Redirect {
        /// By which backend.
        backend: String,
        /// How many rules, of both families.
        rules: u32,
    },
    /// It was passed on.
    Pass {
        /// Why, in a word (`no-proxy`).
        reason: String,
    },
    /// It must not start.
    Error {
        /// The CNI error code.
        code: u32,
        /// The error's text.
        message: String,
    },
    /// A decision that this version does not know.
    #[default]
    #[serde(other)]
    Unknown,
}

/// How long each part took, in milliseconds; 0 for a part that did not happen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Milliseconds {
    /// Asking the API server.
    pub api: f64,
    /// Programming the rules.
    pub rules: f64,
    /// Everything.
    pub total: f64,
}

// === impl Report ===

impl Report {
    /// The datagram, of [`LARGEST`] bytes at the most.
    #[must_use]
    pub fn encode(mut self) -> Vec<u8> {
        for name in [&mut self.namespace, &mut self.pod, &mut self.container] {
            cut(name, LONGEST_NAME);
        }
        if let Outcome::Error { message, .. } = &mut self.outcome {
            cut(message, LONGEST_MESSAGE);
        }
        cut_all(&mut self.warnings, LONGEST_WARNINGS);
        // Maps with text keys, numbers and texts can always be written.
        serde_json::to_vec(&self).unwrap_or_default()
    }

    /// Reads a datagram.
    ///
    /// # Errors
    /// It is not a report.
    pub fn decode(datagram: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(datagram)
    }

    /// The pod, or the container if it is none.
    #[must_use]
    pub fn subject(&self) -> String {
        if self.pod.is_empty() {
            format!("container {}", self.container)
        } else {
            format!("{}/{}", self.namespace, self.pod)
        }
    }
}

fn cut(text: &mut String, bytes: usize) {
    text.truncate(text.floor_char_boundary(bytes));
}

/// As many as there is room for, of so many bytes together.
fn cut_all(texts: &mut Vec<String>, bytes: usize) {
    let mut left = bytes;
    texts.truncate(MOST_WARNINGS);
    for text in texts.iter_mut() {
        cut(text, left);
        left -= text.len();
    }
    texts.retain(|text| !text.is_empty());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> Report {
        Report {
            verb: "ADD".to_owned(),
            namespace: text.to_owned(),
            pod: text.to_owned(),
            container: text.to_owned(),
            outcome: Outcome::Error {
                code: 11,
                message: text.to_owned(),
            },
            ..Report::default()
        }
    }

    #[test]
    fn what_is_sent_is_what_is_read() {
        let mut redirect = error("web");
        redirect.outcome = Outcome::Redirect {
            backend: "nft".to_owned(),
            rules: 12,
        };
        redirect.milliseconds.api = 1.25;
        redirect.warnings = vec!["a sentence".to_owned(), "another".to_owned()];
        for report in [error("web"), redirect, Report::default()] {
            assert_eq!(Report::decode(&report.clone().encode()).unwrap(), report);
        }
    }

    #[test]
    fn the_longest_report_fits() {
        for text in ["\u{1}", "é", "\"", "x"] {
            let mut report = error(&text.repeat(100_000));
            report.warnings = vec![text.repeat(500); 100];
            let datagram = report.encode();
            assert!(datagram.len() <= LARGEST, "{}", datagram.len());
            assert!(Report::decode(&datagram).is_ok());
        }
    }

    #[test]
    fn another_version_is_read_as_far_as_it_is_known() {
        let report = Report::decode(br#"{"pod":"web","new":[1],"outcome":{"decision":"defer"}}"#);
        assert_eq!(report.unwrap().outcome, Outcome::Unknown);
        for garbage in [&b""[..], b"[]x", b"\xff\xfe", br#"{"requests":-1}"#] {
            assert!(Report::decode(garbage).is_err());
        }
    }
}
