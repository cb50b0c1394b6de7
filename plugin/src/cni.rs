//! Speaking CNI: environment, standard input, standard output, error codes (plugin.md 1).
//!
//! The only place that names the CNI types' crate.

mod args;
mod attachment;
mod config;
mod error;
mod members;
mod result;
mod version;

pub use args::PodRef;
pub use attachment::{Attachment, Environment, command};
pub use config::{InstallerRef, KubernetesConfig, NetworkConfig, ValidAttachment};
pub use error::{Code, Error, chain_of_causes};
pub use result::PreviousResult;
pub use rscni_types::types::Cmd as Command;
pub use version::{Version, supported, version_document};
