//! The one question to the API server: does our DaemonSet stay on this node?
//!
//! Asked only on leaving. The runtime and the TLS stack are made then and not
//! before, so that they cost nothing while the node is idle. The same holds for
//! the one change, a taint that is removed or set.

use std::{error::Error, future::Future, time::Duration};

use api_server_trust::{Bundle, ClientError, Refusal};
use k8s_openapi::api::{apps::v1::DaemonSet, core::v1::Node};
use kube::{Api, Client, Config, config::AuthInfo};

use crate::{desired, kubeconfig, settings::Settings};

mod placement;
mod taint;

pub use placement::is_meant;
pub use taint::{Freshness, TaintError, Tainted, Wanted, taint};

/// How long the answer may take (installer.md 5).
const PATIENCE: Duration = Duration::from_secs(3);

/// What the API server says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Answer {
    /// It stays, and so will the next pod of it here.
    #[error("Our DaemonSet stays: this is an upgrade, a restart or a reboot.")]
    Stays,
    /// It has a deletion timestamp.
    #[error("Our DaemonSet is being deleted.")]
    BeingDeleted,
    /// 404.
    #[error("Our DaemonSet is gone.")]
    Gone,
    /// Node selector, affinity or taints keep it off this node.
    #[error("Our DaemonSet is no longer meant for this node.")]
    NotMeant,
    /// 401 or 403.
    #[error("The API server refuses us ({0}): our rights are gone with the release.")]
    Refused(u16),
    /// No answer, or one that says nothing about us.
    #[error("The API server cannot be asked for our DaemonSet: {0}")]
    Unknown(String),
}

#[derive(Debug, thiserror::Error)]
enum AskError {
    #[error(transparent)]
    Missing(#[from] kubeconfig::Missing),
    #[error(transparent)]
    Url(#[from] http::uri::InvalidUri),
    #[error("{0} holds no certificate")]
    NoAuthority(String),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Kube(#[from] kube::Error),
}

/// Asks for our DaemonSet, for three seconds at most.
#[must_use]
pub fn ask(settings: &Settings) -> Answer {
    match wait(PATIENCE, question(settings)) {
        Ok(Ok(answer)) => answer,
        Ok(Err(e)) => Answer::Unknown(with_causes(&e, settings)),
        Err(why) => Answer::Unknown(why),
    }
}

/// Waits for something on a runtime of its own.
fn wait<T>(patience: Duration, work: impl Future<Output = T>) -> Result<T, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| e.to_string())?;
    let done = runtime.block_on(async { tokio::time::timeout(patience, work).await });
    // A name that is still being looked up would block an orderly shutdown.
    runtime.shutdown_background();
    done.map_err(|_| format!("no answer within {} s", patience.as_secs()))
}

async fn question(settings: &Settings) -> Result<Answer, AskError> {
    let namespace = desired::namespace(settings)?;
    let client = client(settings)?;
    let daemonsets = Api::<DaemonSet>::namespaced(client.clone(), &namespace);
    let daemonset = match daemonsets.get(&settings.daemonset).await {
        Ok(daemonset) => daemonset,
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(Answer::Gone),
        Err(kube::Error::Api(status)) if matches!(status.code, 401 | 403) => {
            return Ok(Answer::Refused(status.code));
        }
        Err(e) => return Err(e.into()),
    };
    if daemonset.metadata.deletion_timestamp.is_some() {
        return Ok(Answer::BeingDeleted);
    }
    // A node that cannot be read is one that the DaemonSet is meant for.
    match Api::<Node>::all(client).get(&settings.node_name).await {
        Ok(node) if !is_meant(&daemonset, &node, settings.startup_taint.as_deref()) => {
            Ok(Answer::NotMeant)
        }
        _ => Ok(Answer::Stays),
    }
}

fn client(settings: &Settings) -> Result<Client, AskError> {
    let server = &settings.api_server;
    let mut config = Config::new(kubeconfig::url(server)?.parse::<http::Uri>()?);
    config.accept_invalid_certs = server.skip_verify;
    config.auth_info = AuthInfo {
        token: Some(desired::token(settings)?.into()),
        ..AuthInfo::default()
    };
    Ok(api_server_trust::client(config, trusted(settings)?)?)
}

/// Whom to trust: what the CA's file says, and nobody whom the system trusts.
fn trusted(settings: &Settings) -> Result<Option<Bundle>, AskError> {
    let server = &settings.api_server;
    if server.skip_verify {
        return Ok(None);
    }
    let bundle = Bundle::read(&desired::ca(server)?);
    if bundle.is_empty() {
        let file = server.ca_file.display();
        return Err(AskError::NoAuthority(file.to_string()));
    }
    Ok(Some(bundle))
}

/// An error and its causes; some errors have theirs in their own words already.
fn with_causes(error: &AskError, settings: &Settings) -> String {
    if let Some(refusal) = Refusal::behind(error) {
        let bundle = settings.api_server.ca_file.display().to_string();
        return format!("{refusal}; {}", refusal.hint(&bundle));
    }
    let causes = std::iter::successors(error.source(), |e: &&dyn Error| (*e).source());
    causes
        .map(ToString::to_string)
        .fold(error.to_string(), |text, cause| {
            if text.contains(&cause) {
                text
            } else {
                format!("{text}: {cause}")
            }
        })
}
