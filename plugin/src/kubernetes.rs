//! Asking the API server (plugin.md 2), behind a narrow trait.

use proxy_init_rules::PortRange;

use crate::cni::PodRef;

mod client;
mod error;
mod kubeconfig;
mod objects;
mod token;

pub(crate) use client::ApiServer;
pub(crate) use error::ApiError;
pub(crate) use kubeconfig::{KubeconfigError, inspect};
pub(crate) use objects::{Container, EnvVar, Namespace, Pod, PodSpec};
pub(crate) use token::{Lifetime, written};

/// What ADD and CHECK need to know of the cluster.
pub(crate) trait Cluster {
    /// The pod by its name. If the runtime gave a uid and the first answer, which may come from a
    /// cache, is of another pod, the API server is asked again for the latest.
    ///
    /// # Errors
    /// The question was not answered, or there is no such pod (yet).
    fn pod(&mut self, pod: &PodRef) -> Result<Pod, ApiError>;

    /// The namespace by its name.
    ///
    /// # Errors
    /// The question was not answered, or there is no such namespace.
    fn namespace(&mut self, name: &str) -> Result<Namespace, ApiError>;

    /// The ports and numeric target ports of service `default/kubernetes`.
    ///
    /// # Errors
    /// The question was not answered.
    fn api_server_ports(&mut self) -> Result<Vec<PortRange>, ApiError>;

    /// How many requests have been sent so far.
    fn requests(&self) -> u32;
}
