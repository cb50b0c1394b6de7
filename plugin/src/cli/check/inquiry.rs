//! What only the API server knows: whether a pod without a record is meshed, and how.

use std::{path::PathBuf, time::Duration};

use proxy_init_rules::Config;

use crate::{
    cli::{
        arguments::Node,
        conf::{self, Entry},
    },
    cni::{Code, Error, KubernetesConfig, PodRef},
    decision::{self, Pass},
    kubernetes::{ApiError, ApiServer, Cluster as _},
    resolve::{Resolution, resolve},
};

/// A person waits no longer than this for all answers together.
const PATIENCE: Duration = Duration::from_secs(3);

/// Asks the API server, until it turns out that it does not answer.
pub(super) struct Inquiry {
    entry: Result<Entry, String>,
    cluster: Result<ApiServer, String>,
}

// === impl Inquiry ===

impl Inquiry {
    pub(super) fn new(node: &Node) -> Self {
        let entry = conf::find(&node.conf_dir);
        let cluster =
            kubeconfig(node, &entry).map(|kubeconfig| ApiServer::new(kubeconfig).within(PATIENCE));
        Self { entry, cluster }
    }

    /// Whether the pod is passed on without asking anybody.
    pub(super) fn exempt(&self, pod: &PodRef) -> Option<Pass> {
        let entry = self.entry.as_ref().ok()?;
        let kubernetes: KubernetesConfig = entry.config.kubernetes().ok()?;
        decision::exempt(pod, &kubernetes)
    }

    /// Whether the pod is meshed, or why not.
    ///
    /// # Errors
    /// Nobody tells; a sentence that says why.
    pub(super) fn is_meshed(&mut self, pod: &PodRef) -> Result<Result<(), Pass>, String> {
        let cluster = self.cluster.as_mut().map_err(|why| why.clone())?;
        match cluster.pod(pod) {
            Ok(pod) => Ok(decision::is_meshed(&pod)),
            Err(error @ ApiError::NotFound { .. }) => Err(error.to_string()),
            Err(error) => Err(self.give_up(error.to_string())),
        }
    }

    /// What becomes of the pod, with the rules that it should have.
    ///
    /// # Errors
    /// Nobody tells; a sentence that says why.
    pub(super) fn resolve(&mut self, pod: &PodRef) -> Result<Resolution, String> {
        let base = self.base()?;
        let cluster = self.cluster.as_mut().map_err(|why| why.clone())?;
        resolve(pod, &base, cluster).map_err(|error: Error| match error.code() {
            // The API server has answered; it is the pod that is not as it should be.
            Code::Annotation | Code::InvalidConfig => error.to_string(),
            _ => self.give_up(error.to_string()),
        })
    }

    fn base(&self) -> Result<Config, String> {
        let entry = self.entry.as_ref().map_err(Clone::clone)?;
        let base = entry.config.linkerd();
        base.map_err(|error| format!("{}: {error}", entry.file.display()))
    }

    /// One answer that does not come is waited for, not one for each pod.
    fn give_up(&mut self, why: String) -> String {
        self.cluster = Err(why.clone());
        why
    }
}

fn kubeconfig(node: &Node, entry: &Result<Entry, String>) -> Result<PathBuf, String> {
    if let Some(kubeconfig) = &node.kubeconfig {
        return Ok(kubeconfig.clone());
    }
    let entry = entry
        .as_ref()
        .map_err(|why| format!("the API server is not asked, as no kubeconfig is known: {why}"))?;
    let kubernetes = entry.config.kubernetes().unwrap_or_default();
    Ok(kubernetes.kubeconfig.into())
}
