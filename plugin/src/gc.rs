//! GC: drops records of attachments that are no longer valid.

use crate::{
    cni::{Error, NetworkConfig},
    record::Records,
};

/// Runs GC. Only records of this network are looked at: a list of another network's attachments
/// says nothing of them. An error on one does not stop the rest.
///
/// # Errors
/// The list of valid attachments cannot be read.
pub(crate) fn gc(config: &NetworkConfig, records: &Records) -> Result<(), Error> {
    let Some(valid) = config.valid_attachments()? else {
        tracing::warn!("cni.dev/valid-attachments is missing; no record is removed");
        return Ok(());
    };
    let is_valid = |container_id: &str, ifname: &str| {
        valid
            .iter()
            .any(|one| one.container_id == container_id && one.ifname == ifname)
    };
    let of_network = records
        .all()
        .into_iter()
        .filter(|record| record.network == config.network);
    for stale in of_network.filter(|record| !is_valid(&record.container_id, &record.ifname)) {
        let (container, ifname) = (&stale.container_id, &stale.ifname);
        match records.remove(container, ifname) {
            Ok(()) => tracing::info!(container, ifname, "Removed the record"),
            Err(error) => tracing::warn!(container, ifname, %error, "The record stays"),
        }
    }
    Ok(())
}
