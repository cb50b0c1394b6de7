//! STATUS: could this node serve an ADD now? Only faults that are local and certain count, since
//! a failing STATUS takes the whole node out of service.

use std::path::Path;

use proxy_init_rules::Family;

use crate::{
    cni::{Code, Error, NetworkConfig},
    firewall::{BackendKind, is_installed},
    kubernetes::{KubeconfigError, read_kubeconfig},
};

/// Runs STATUS, without asking the API server and without starting a program.
///
/// # Errors
/// An ADD of a meshed pod could not succeed (50), or the configuration is invalid (7).
pub(crate) fn status(config: &NetworkConfig) -> Result<(), Error> {
    let linkerd = config.linkerd()?;
    let kubernetes = config.kubernetes()?;
    let works = |kind: &BackendKind| is_installed(*kind, Family::Ipv4);
    if !linkerd.simulate && !BackendKind::REAL.iter().any(works) {
        let mend = "install iptables on this node";
        return Err(Error::new(
            Code::NotAvailable,
            format!("none of the iptables-restore programs is installed; {mend}"),
        ));
    }
    match read_kubeconfig(Path::new(&kubernetes.kubeconfig)) {
        Err(error @ KubeconfigError::Unusable { .. }) => {
            Err(Error::from_source(Code::NotAvailable, &error))
        }
        // The installer is about to write it.
        Err(error) => {
            tracing::warn!(%error, "Not yet");
            Ok(())
        }
        Ok(_) => Ok(()),
    }
}
