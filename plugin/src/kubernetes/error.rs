//! What became of a question to the API server.

use std::time::Duration;

use time::OffsetDateTime;

use super::{kubeconfig::KubeconfigError, token::Lifetime};
use crate::cni::{Code, Error, PodRef};

/// Why the API server did not answer the question. Every message names the URL, the status, and
/// what to look at.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// We do not know whom to ask.
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    /// The client could not be made or run.
    #[error("the API client could not be started: {0}")]
    Client(String),
    /// No answer at all, or none that could be read.
    #[error("GET {url}: {reason} ({tries} in {waited:.1?}); {hint}", tries = tries(.attempts))]
    Unreachable {
        /// What was asked for.
        url: String,
        /// What went wrong the last time.
        reason: String,
        /// What to look at.
        hint: String,
        /// How often it was tried.
        attempts: u32,
        /// For how long.
        waited: Duration,
    },
    /// The API server said that it cannot answer now.
    #[error("GET {url}: the API server answered {status}{message} ({tries} in {waited:.1?})", tries = tries(.attempts))]
    Status {
        /// What was asked for.
        url: String,
        /// The HTTP status.
        status: u16,
        /// What it said, after a colon.
        message: String,
        /// How often it was tried.
        attempts: u32,
        /// For how long.
        waited: Duration,
    },
    /// 401.
    #[error("GET {url}: 401, the API server does not accept our token: {why}")]
    Unauthorized {
        /// What was asked for.
        url: String,
        /// What is wrong with the token, and what to look at.
        why: String,
    },
    /// 403.
    #[error(
        "GET {url}: 403, RBAC: linkerd-cni may not get {resource}; see ClusterRole and ClusterRoleBinding linkerd-cni{message}"
    )]
    Forbidden {
        /// What was asked for.
        url: String,
        /// `pods`, `namespaces` or `services`.
        resource: &'static str,
        /// What it said, after a colon.
        message: String,
    },
    /// 404.
    #[error("GET {url}: 404, there is no such {kind} (yet){hint}")]
    NotFound {
        /// What was asked for.
        url: String,
        /// `pod`, `namespace` or `service`.
        kind: &'static str,
        /// What else it may be, after a semicolon; mostly empty.
        hint: &'static str,
    },
}

/// Of a container that podman called like a pod. Podman 4 and newer do not.
const IS_IT_PODMAN: &str = "; is it a container of podman 3 or older, which calls plugins as if it \
     were a pod? Then give it a network without linkerd-cni (podman run --network, or \
     network_config_dir in containers.conf for all)";

impl ApiError {
    /// The same about this pod: whether it may be none.
    pub(super) fn about(self, pod: &PodRef) -> Self {
        match self {
            Self::NotFound { url, kind, .. } if pod.may_be_a_container() => Self::NotFound {
                url,
                kind,
                hint: IS_IT_PODMAN,
            },
            other => other,
        }
    }

    /// The CNI error: refused for good, or worth another try.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::Unauthorized { .. } | Self::Forbidden { .. } => Code::Refused,
            Self::Kubeconfig(KubeconfigError::Unnamed) => Code::InvalidConfig,
            _ => Code::TryAgainLater,
        }
    }
}

impl From<ApiError> for Error {
    fn from(error: ApiError) -> Self {
        Self::from_source(error.code(), &error)
    }
}

/// What is wrong with a token that was not accepted.
pub(super) fn about_token(lifetime: Lifetime, now: OffsetDateTime) -> String {
    let look = "linkerd-cni-installer keeps it fresh, is its pod running on this node?";
    match lifetime.trouble(now) {
        Some(trouble) => format!("token {trouble}; is that right? If it is, {look}"),
        None => format!("it may be of a deleted service account or another cluster; {look}"),
    }
}

fn tries(attempts: &u32) -> String {
    match attempts {
        1 => "1 attempt".to_owned(),
        more => format!("{more} attempts"),
    }
}
