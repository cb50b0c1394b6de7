//! One answer, and what can be wrong with it.

use std::{error::Error as StdError, io, time::Duration};

use api_server_trust::Refusal;
use http::{Request, header::CONTENT_TYPE};
use http_body_util::{BodyExt as _, Limited};
use kube::{Client, client::Body};
use serde::de::DeserializeOwned;

use crate::kubernetes::{
    kubeconfig::BUNDLE,
    objects::{Identity, Status},
};

/// No pod object is larger: the API server's store takes 1.5 MiB.
const MOST_BYTES: usize = 4 << 20;

/// An answer that came in whole.
pub(super) struct Answer {
    status: u16,
    is_html: bool,
    body: Vec<u8>,
}

/// Why there is no answer that we could use.
#[derive(Debug)]
pub(super) enum Trouble {
    /// No answer in time.
    Timeout(Duration),
    /// No connection, or it broke.
    Connection(String),
    /// The server is not one we trust, or none with which we have a way to talk.
    Untrusted(Refusal),
    /// The answer broke off.
    Truncated(String),
    /// It is no answer of an API server.
    NotApiServer(String),
    /// The API server refused.
    Status {
        status: u16,
        /// After a colon; empty if it said nothing.
        message: String,
    },
}

impl Answer {
    pub(super) async fn fetch(client: &Client, path: &str) -> Result<Self, Trouble> {
        let request = Request::get(path).header("accept", "application/json");
        let request = request.body(Body::empty());
        let request = request.map_err(|error| Trouble::Connection(error.to_string()))?;
        let response = client.send(request).await.map_err(|error| broken(&error))?;
        let content_type = response.headers().get(CONTENT_TYPE);
        let content_type = content_type.and_then(|value| value.to_str().ok());
        let is_html = content_type.is_some_and(|kind| kind.contains("html"));
        let status = response.status().as_u16();
        let body = Limited::new(response.into_body(), MOST_BYTES)
            .collect()
            .await;
        let body = body.map_err(|error| Trouble::Truncated(error.to_string()))?;
        let body = body.to_bytes().into();
        Ok(Self {
            status,
            is_html,
            body,
        })
    }

    /// The object, if it is of the kind that was asked for: whatever else answers with JSON must
    /// not pass for a pod that has no proxy.
    pub(super) fn read<T: DeserializeOwned>(self, kind: &str) -> Result<T, Trouble> {
        match self.status {
            200 if self.is_html => Err(Trouble::NotApiServer("a page in HTML".to_owned())),
            200 => {
                let identity: Identity = self.parse()?;
                if !identity.kind.eq_ignore_ascii_case(kind) {
                    return Err(Trouble::NotApiServer(format!("it is not a {kind}")));
                }
                self.parse()
            }
            // Each of these would be a verdict on our token or our pod, and an error page of a
            // proxy is none.
            status @ (401 | 403 | 404) if self.is_html => Err(Trouble::NotApiServer(format!(
                "a page with status {status}"
            ))),
            status => Err(Trouble::Status {
                status,
                message: self.message(),
            }),
        }
    }

    fn parse<T: DeserializeOwned>(&self) -> Result<T, Trouble> {
        serde_json::from_slice(&self.body).map_err(|error| {
            if error.is_eof() {
                Trouble::Truncated(error.to_string())
            } else {
                Trouble::NotApiServer(error.to_string())
            }
        })
    }

    fn message(&self) -> String {
        let status: Status = serde_json::from_slice(&self.body).unwrap_or_default();
        if status.kind == "Status" {
            format!(": {}", status.message)
        } else {
            ": answer did not come from the API server".to_owned()
        }
    }
}

impl Trouble {
    /// Whether the same question may be answered a moment later.
    pub(super) fn is_transient(&self) -> bool {
        match self {
            Self::Timeout(_) | Self::Connection(_) | Self::Truncated(_) => true,
            Self::Untrusted(_) | Self::NotApiServer(_) => false,
            Self::Status { status, .. } => *status == 429 || *status >= 500,
        }
    }

    /// What happened.
    pub(super) fn reason(&self) -> String {
        match self {
            Self::Timeout(deadline) => format!("no answer within {deadline:.1?}"),
            Self::Connection(reason) => reason.clone(),
            Self::Untrusted(refusal) => refusal.to_string(),
            Self::Truncated(reason) => format!("the answer broke off: {reason}"),
            Self::NotApiServer(reason) => {
                format!("answer did not come from the API server: {reason}")
            }
            Self::Status { status, message } => format!("status {status}{message}"),
        }
    }

    /// What to look at.
    pub(super) fn hint(&self) -> String {
        let hint = match self {
            Self::Untrusted(refusal) => {
                return refusal.hint(&format!("{BUNDLE} of the kubeconfig"));
            }
            Self::NotApiServer(_) => "is a proxy between this node and the API server?",
            _ => "can this node reach the API server at that address?",
        };
        hint.to_owned()
    }
}

fn broken(error: &(dyn StdError + 'static)) -> Trouble {
    if let Some(refusal) = Refusal::behind(error) {
        return Trouble::Untrusted(refusal);
    }
    let causes: Vec<&(dyn StdError + 'static)> =
        std::iter::successors(Some(error), |&error| error.source()).collect();
    Trouble::Connection(innermost(&causes))
}

/// The wrappers say "client error (Connect)"; the cause at the bottom says why.
fn innermost(causes: &[&(dyn StdError + 'static)]) -> String {
    let io = causes
        .iter()
        .rev()
        .find_map(|cause| cause.downcast_ref::<io::Error>());
    let last = causes.last().map(ToString::to_string).unwrap_or_default();
    match io.map(io::Error::kind) {
        Some(io::ErrorKind::ConnectionRefused) => "connection refused".to_owned(),
        Some(io::ErrorKind::ConnectionReset) => "connection reset".to_owned(),
        _ => last,
    }
}
