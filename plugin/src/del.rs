//! DEL: removes what ADD left, if anything is left. Never fails, never asks the API server.

use proxy_init_rules::Family;

use crate::{
    cni::Attachment,
    firewall::{BackendKind, Withdrawal, withdraw, withdraw_any},
    interfaces,
    netns::{Namespace, NetnsError},
    record::{Decision, Records},
};

/// Runs DEL.
pub(crate) fn del(attachment: &Attachment, records: &Records) {
    if let Some(where_they_are) = left_behind(attachment, records) {
        match withdraw_from(attachment, &where_they_are) {
            Ok(done) => report(attachment, &done),
            // Usually: the namespace is gone, and the rules with it.
            Err(error) => tracing::info!(%error, "No rules to remove"),
        }
    }
    if let Err(error) = records.remove(&attachment.container_id, &attachment.ifname) {
        tracing::warn!(%error, "The record of this attachment could not be removed");
    }
}

/// Where rules of ours may be.
enum Whereabouts {
    /// As recorded.
    Recorded(BackendKind, Vec<Family>),
    /// Nobody knows.
    Anywhere,
}

/// `None`: nowhere, or they are not this attachment's to remove. The rules belong to the namespace,
/// which all attachments of the container share.
fn left_behind(attachment: &Attachment, records: &Records) -> Option<Whereabouts> {
    attachment.netns.as_ref()?;
    if records.others_of(attachment) {
        return None;
    }
    let record = records.read(&attachment.container_id, &attachment.ifname);
    match record.map(|record| record.decision) {
        Some(Decision::Pass { .. }) => None,
        Some(Decision::Redirect { backend, rules, .. }) => Some(Whereabouts::Recorded(
            backend,
            rules.iter().map(|of| of.family).collect(),
        )),
        None => Some(Whereabouts::Anywhere),
    }
}

fn withdraw_from(
    attachment: &Attachment,
    whereabouts: &Whereabouts,
) -> Result<Withdrawal, NetnsError> {
    let Some(path) = &attachment.netns else {
        return Ok(Withdrawal::default());
    };
    let namespace = Namespace::open(path)?;
    let lock = namespace.lock();
    if let Err(error) = &lock {
        tracing::warn!(%error, "Removing the rules without the lock");
    }
    namespace.enter(|| match whereabouts {
        Whereabouts::Recorded(backend, families) => withdraw(*backend, families),
        // Without a record another interface is the only sign of another attachment. Removing
        // the rules of a pod that goes on running would let its traffic out in the clear.
        Whereabouts::Anywhere if interfaces::has_other(&attachment.ifname) => {
            tracing::info!("No record, and other interfaces are up: the rules stay");
            Withdrawal::default()
        }
        Whereabouts::Anywhere => withdraw_any(),
    })
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
