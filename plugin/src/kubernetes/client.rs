//! The client: deadlines, retries and a count of requests around `kube`'s.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use proxy_init_rules::PortRange;
use serde::de::DeserializeOwned;
use time::OffsetDateTime;

use super::{ApiError, Cluster, Namespace, Pod, error::about_token, objects::Service, token};
use crate::cni::PodRef;

mod answer;
mod connection;

use answer::Trouble;
use connection::Connection;

/// For how long one request may go unanswered.
const REQUEST: Duration = Duration::from_secs(2);

/// For how long all requests of one run may go on, retries and pauses included.
const BUDGET: Duration = Duration::from_secs(10);

/// The first pause before a retry; each further one is twice as long.
const PAUSE: Duration = Duration::from_millis(100);

/// The API server that a kubeconfig names. Nothing happens before the first question.
pub(crate) struct ApiServer {
    kubeconfig: PathBuf,
    connection: Option<Connection>,
    started: Option<Instant>,
    budget: Duration,
    requests: u32,
}

/// What is asked for.
#[derive(Clone, Copy)]
struct Question<'a> {
    kind: &'static str,
    resource: &'static str,
    path: &'a str,
}

/// Whether a cached answer will do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Freshness {
    /// From the API server's memory, which may lag behind.
    Cached,
    /// The latest state, read through to the store.
    Latest,
}

// === impl Freshness ===

impl Freshness {
    fn path(self, question: Question<'_>) -> String {
        match self {
            Self::Cached => format!("{}?resourceVersion=0", question.path),
            Self::Latest => question.path.to_owned(),
        }
    }
}

// === impl ApiServer ===

impl ApiServer {
    /// The API server of this kubeconfig.
    #[must_use]
    pub(crate) fn new(kubeconfig: impl Into<PathBuf>) -> Self {
        Self {
            kubeconfig: kubeconfig.into(),
            connection: None,
            started: None,
            budget: BUDGET,
            requests: 0,
        }
    }

    /// The same, for somebody who waits no longer than this for all answers together.
    #[must_use]
    pub(crate) fn within(mut self, budget: Duration) -> Self {
        self.budget = budget;
        self
    }

    fn get<T: DeserializeOwned>(&mut self, question: Question<'_>) -> Result<T, ApiError> {
        match self.ask(question, Freshness::Cached) {
            // The cache may lag behind the pod that has just been made.
            Err(ApiError::NotFound { .. }) => self.ask(question, Freshness::Latest),
            answered => answered,
        }
    }

    /// Asks, and on a 401 asks once more if the token on disk has changed since it was read.
    fn ask<T: DeserializeOwned>(
        &mut self,
        question: Question<'_>,
        freshness: Freshness,
    ) -> Result<T, ApiError> {
        let refused = match self.ask_patiently(question, freshness) {
            Err(refused @ ApiError::Unauthorized { .. }) => refused,
            answered => return answered,
        };
        let used = self
            .connection
            .take()
            .and_then(|connection| connection.token);
        if self.connection()?.token == used {
            return Err(refused);
        }
        tracing::info!("Token re-read after a 401");
        self.ask_patiently(question, freshness)
    }

    /// Asks until there is an answer, for as long as the budget lasts.
    fn ask_patiently<T: DeserializeOwned>(
        &mut self,
        question: Question<'_>,
        freshness: Freshness,
    ) -> Result<T, ApiError> {
        let started = *self.started.get_or_insert_with(Instant::now);
        let budget = self.budget;
        let asked = Instant::now();
        let mut pause = PAUSE;
        for attempts in 1.. {
            let deadline = budget.saturating_sub(started.elapsed()).min(REQUEST);
            let trouble = match self.attempt(question, freshness, deadline)? {
                Ok(object) => return Ok(object),
                Err(trouble) => trouble,
            };
            let connection = self.connection()?;
            let url = format!("{}{}", connection.server, freshness.path(question));
            let left = budget.saturating_sub(started.elapsed());
            if !trouble.is_transient() || left <= pause {
                let token = connection.token.as_deref();
                return Err(trouble.into_error(question, url, attempts, asked.elapsed(), token));
            }
            tracing::debug!(url, trouble = %trouble.reason(), attempts, "Asking again");
            // `sleep` would panic where a filter refuses its system call.
            std::thread::park_timeout(pause);
            pause *= 2;
        }
        unreachable!("the loop ends with an answer or the budget")
    }

    /// Asks once.
    fn attempt<T: DeserializeOwned>(
        &mut self,
        question: Question<'_>,
        freshness: Freshness,
        deadline: Duration,
    ) -> Result<Result<T, Trouble>, ApiError> {
        let connection = self.connection()?;
        let answer = connection.once(&freshness.path(question), deadline);
        self.requests += 1;
        Ok(answer.and_then(|answer| answer.read(question.kind)))
    }

    fn connection(&mut self) -> Result<&mut Connection, ApiError> {
        if self.connection.is_none() {
            self.connection = Some(Connection::new(&self.kubeconfig)?);
        }
        self.connection
            .as_mut()
            .ok_or_else(|| ApiError::Client("there is none".to_owned()))
    }
}

impl Cluster for ApiServer {
    fn pod(&mut self, pod: &PodRef) -> Result<Pod, ApiError> {
        let path = format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name);
        let question = Question {
            kind: "pod",
            resource: "pods",
            path: &path,
        };
        let found: Pod = self.get(question).map_err(|error| error.about(pod))?;
        let other = |found: &Pod| {
            pod.uid
                .as_ref()
                .is_some_and(|uid| *uid != found.metadata.uid)
        };
        if !other(&found) || is_mirror_of(&found, pod) {
            return Ok(found);
        }
        // A pod of the same name that is gone already: the cache lags behind.
        let latest: Pod = self.ask(question, Freshness::Latest)?;
        if other(&latest) {
            tracing::warn!(
                pod = %pod,
                runtime = pod.uid.as_deref().unwrap_or_default(),
                api_server = latest.metadata.uid,
                "The runtime and the API server give the pod different uids",
            );
        }
        Ok(latest)
    }

    fn namespace(&mut self, name: &str) -> Result<Namespace, ApiError> {
        let path = format!("/api/v1/namespaces/{name}");
        self.get(Question {
            kind: "namespace",
            resource: "namespaces",
            path: &path,
        })
    }

    fn api_server_ports(&mut self) -> Result<Vec<PortRange>, ApiError> {
        let path = "/api/v1/namespaces/default/services/kubernetes";
        let service: Service = self.get(Question {
            kind: "service",
            resource: "services",
            path,
        })?;
        Ok(service.ports())
    }

    fn requests(&self) -> u32 {
        self.requests
    }
}

/// A static pod's object in the API server has a uid of its own; the runtime knows the pod by the
/// hash of its manifest.
fn is_mirror_of(found: &Pod, pod: &PodRef) -> bool {
    found.metadata.annotations.get("kubernetes.io/config.hash") == pod.uid.as_ref()
}

// === impl Trouble ===

impl Trouble {
    fn into_error(
        self,
        question: Question<'_>,
        url: String,
        attempts: u32,
        waited: Duration,
        token: Option<&str>,
    ) -> ApiError {
        let Question { kind, resource, .. } = question;
        match self {
            Self::Status { status: 401, .. } => {
                let why = about_token(
                    token.map(token::lifetime).unwrap_or_default(),
                    OffsetDateTime::now_utc(),
                );
                ApiError::Unauthorized { url, why }
            }
            Self::Status {
                status: 403,
                message,
            } => ApiError::Forbidden {
                url,
                resource,
                message,
            },
            Self::Status { status: 404, .. } => {
                let hint = "";
                ApiError::NotFound { url, kind, hint }
            }
            Self::Status { status, message } => ApiError::Status {
                url,
                status,
                message,
                attempts,
                waited,
            },
            other => {
                let (reason, hint) = (other.reason(), other.hint());
                ApiError::Unreachable {
                    url,
                    reason,
                    hint,
                    attempts,
                    waited,
                }
            }
        }
    }
}
