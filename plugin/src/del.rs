//! DEL: removes what ADD left, if anything is left. Never fails, never asks the API server.

use nix::{ifaddrs::getifaddrs, net::if_::InterfaceFlags};
use proxy_init_rules::Family;

use crate::{
    cni::Attachment,
    firewall::{BackendKind, Withdrawal, withdraw},
    netns::{Namespace, NetnsError},
    record::{Decision, Records},
};

/// Runs DEL.
pub(crate) fn del(attachment: &Attachment, records: &Records) {
    if let Some((backends, families)) = left_behind(attachment, records) {
        match withdraw_from(attachment, &backends, &families) {
            Ok(done) => report(attachment, &done),
            // Usually: the namespace is gone, and the rules with it.
            Err(error) => tracing::info!(%error, "No rules to remove"),
        }
    }
    if let Err(error) = records.remove(&attachment.container_id, &attachment.ifname) {
        tracing::warn!(%error, "The record of this attachment could not be removed");
    }
}

/// Where rules of ours may be; `None`: nowhere, or they are not this attachment's to remove. The
/// rules belong to the namespace, which all attachments of the container share.
fn left_behind(
    attachment: &Attachment,
    records: &Records,
) -> Option<(Vec<BackendKind>, Vec<Family>)> {
    attachment.netns.as_ref()?;
    if records.others_of(attachment) {
        return None;
    }
    let record = records.read(&attachment.container_id, &attachment.ifname);
    match record.map(|record| record.decision) {
        Some(Decision::Pass { .. }) => None,
        Some(Decision::Redirect { backend, rules, .. }) => {
            Some((vec![backend], rules.iter().map(|of| of.family).collect()))
        }
        None => Some((BackendKind::REAL.to_vec(), Family::ALL.to_vec())),
    }
}

fn withdraw_from(
    attachment: &Attachment,
    backends: &[BackendKind],
    families: &[Family],
) -> Result<Withdrawal, NetnsError> {
    let Some(path) = &attachment.netns else {
        return Ok(Withdrawal::default());
    };
    let namespace = Namespace::open(path)?;
    let lock = namespace.lock();
    if let Err(error) = &lock {
        tracing::warn!(%error, "Removing the rules without the lock");
    }
    let is_without_record = backends.len() > 1;
    namespace.enter(|| {
        // Without a record another interface is the only sign of another attachment. Removing
        // the rules of a pod that goes on running would let its traffic out in the clear.
        if is_without_record && has_other_interface(&attachment.ifname) {
            tracing::info!("No record, and other interfaces are up: the rules stay");
            return Withdrawal::default();
        }
        withdraw(backends, families)
    })
}

/// Whether an interface besides loopback and `ifname` is up in the namespace of this thread.
/// Devices that the kernel makes in every namespace (`tunl0`, `sit0`) are down.
fn has_other_interface(ifname: &str) -> bool {
    let interfaces = getifaddrs().into_iter().flatten();
    interfaces
        .filter(|interface| !interface.flags.contains(InterfaceFlags::IFF_LOOPBACK))
        .filter(|interface| interface.flags.contains(InterfaceFlags::IFF_UP))
        .any(|interface| interface.interface_name != ifname)
}

fn report(attachment: &Attachment, done: &Withdrawal) {
    for (backend, family) in &done.removed {
        let container = &attachment.container_id;
        tracing::info!(container, %backend, %family, "Removed the rules");
    }
    for failure in &done.failures {
        tracing::warn!(%failure, "Some rules may be left; they go with the namespace");
    }
}
