//! What is known of one attachment.

use std::{
    net::IpAddr,
    path::{Path, PathBuf},
};

use super::cache::Cached;
use crate::{
    cni::PodRef,
    record::{Record, RecordedPod},
};

/// An attachment, as far as anybody knows of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    pub container_id: Option<String>,
    pub ifname: Option<String>,
    pub pod: Option<PodRef>,
    /// Whether the runtime said that it is no pod of Kubernetes.
    pub is_no_pod: bool,
    pub netns: Option<PathBuf>,
    pub record: Option<Record>,
    /// The file of a record that cannot be read.
    pub broken: Option<PathBuf>,
    /// Whether linkerd-cni was in the list of plugins that made it.
    pub was_chained: Option<bool>,
    /// Those that the result of ADD named.
    pub addresses: Vec<IpAddr>,
}

// === impl Known ===

impl Known {
    pub(super) fn is_same_as(&self, cached: &Cached) -> bool {
        self.container_id.as_ref() == Some(&cached.container_id)
            && self.ifname.as_ref() == Some(&cached.ifname)
    }

    pub(super) fn complete(&mut self, cached: Cached) {
        self.was_chained = cached.was_chained;
        self.pod = self.pod.take().or(cached.pod);
    }

    pub(super) fn has_record_at(&self, file: &Path) -> bool {
        let (Some(container), Some(ifname)) = (&self.container_id, &self.ifname) else {
            return false;
        };
        file.file_name()
            .is_some_and(|name| *name == *format!("{container}-{ifname}.json"))
    }
}

impl From<Record> for Known {
    fn from(record: Record) -> Self {
        Self {
            container_id: Some(record.container_id.clone()),
            ifname: Some(record.ifname.clone()),
            pod: record.pod.clone().map(PodRef::from),
            netns: Some(record.netns.clone()).filter(|path| !path.as_os_str().is_empty()),
            record: Some(record),
            ..Self::default()
        }
    }
}

impl From<Cached> for Known {
    fn from(cached: Cached) -> Self {
        Self {
            container_id: Some(cached.container_id),
            ifname: Some(cached.ifname),
            pod: cached.pod,
            is_no_pod: cached.is_no_pod,
            netns: cached.netns,
            was_chained: cached.was_chained,
            addresses: cached.addresses,
            ..Self::default()
        }
    }
}

impl From<RecordedPod> for PodRef {
    fn from(pod: RecordedPod) -> Self {
        Self {
            namespace: pod.namespace,
            name: pod.name,
            uid: pod.uid,
        }
    }
}
