//! The attachments of this node, for people: from our records, from what the runtime remembers of
//! those that another plugin made, and from the network namespaces that are there (plugin.md 5).

use std::{
    collections::HashSet,
    net::IpAddr,
    path::{Path, PathBuf},
};

use crate::{
    cni::PodRef,
    netns::Identity,
    record::{Record, RecordedPod, Records},
};

mod cache;
mod namespaces;

pub(crate) use namespaces::identity_of;

use cache::Cached;

/// Where attachments are looked for.
#[derive(Debug)]
pub(crate) struct Sources {
    /// Our own records.
    pub records: Records,
    /// Where libcni remembers results.
    pub cache: PathBuf,
}

/// An attachment, as far as anybody knows of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    pub container_id: Option<String>,
    pub ifname: Option<String>,
    pub pod: Option<PodRef>,
    pub netns: Option<PathBuf>,
    pub record: Option<Record>,
    /// The file of a record that cannot be read.
    pub broken: Option<PathBuf>,
    /// Whether linkerd-cni was in the list of plugins that made it.
    pub was_chained: Option<bool>,
    /// Those that the result of ADD named.
    pub addresses: Vec<IpAddr>,
}

/// All attachments: those with a record first, then those that the runtime remembers, then
/// namespaces of which nobody says anything. Each namespace that is known is not listed again.
#[must_use]
pub(crate) fn all(sources: &Sources) -> Vec<Known> {
    let mut known = recorded_or_cached(sources);
    let mut live = namespaces::live();
    let claimed = identities(&known);
    live.retain(|found| !claimed.contains(&found.identity));
    for lost in known.iter_mut().filter(|known| known.netns.is_none()) {
        let owner = live
            .iter()
            .position(|found| found.has_one_of(&lost.addresses));
        lost.netns = owner.map(|index| live.remove(index).path);
    }
    known.extend(live.into_iter().map(|found| Known {
        netns: Some(found.path),
        ..Known::default()
    }));
    known
}

/// The attachments of one pod.
#[must_use]
pub(crate) fn of_pod(sources: &Sources, namespace: &str, name: &str) -> Vec<Known> {
    let is_wanted = |known: &Known| {
        let pod = known.pod.as_ref();
        pod.is_some_and(|pod| pod.namespace == namespace && pod.name == name)
    };
    let known = recorded_or_cached(sources);
    if known
        .iter()
        .all(|known| !is_wanted(known) || known.netns.is_some())
    {
        return known.into_iter().filter(is_wanted).collect();
    }
    // Only a look at all namespaces tells which one is the pod's.
    all(sources).into_iter().filter(is_wanted).collect()
}

/// What is known of the namespace at a path, by whatever other path.
#[must_use]
pub(crate) fn of_namespace(sources: &Sources, path: &Path, identity: Identity) -> Vec<Known> {
    let mut known = recorded_or_cached(sources);
    known.retain(|known| known.netns.as_deref().and_then(identity_of) == Some(identity));
    if known.is_empty() {
        known.push(Known {
            netns: Some(path.to_owned()),
            ..Known::default()
        });
    }
    known
}

/// The names of all pods that are known, as `NAMESPACE/NAME`.
#[must_use]
pub(crate) fn pods(sources: &Sources) -> Vec<String> {
    let known = recorded_or_cached(sources);
    let pods = known.iter().filter_map(|known| known.pod.as_ref());
    pods.map(ToString::to_string).collect()
}

fn recorded_or_cached(sources: &Sources) -> Vec<Known> {
    let mut known: Vec<Known> = sources.records.all().into_iter().map(Known::from).collect();
    for cached in cache::read(&sources.cache) {
        match known.iter_mut().find(|known| known.is_same_as(&cached)) {
            Some(known) => known.complete(cached),
            None => known.push(Known::from(cached)),
        }
    }
    for file in sources.records.broken() {
        match known.iter_mut().find(|known| known.has_record_at(&file)) {
            Some(known) => known.broken = Some(file),
            None => known.push(Known {
                broken: Some(file),
                ..Known::default()
            }),
        }
    }
    known
}

fn identities(known: &[Known]) -> HashSet<Identity> {
    let paths = known.iter().filter_map(|known| known.netns.as_deref());
    paths.filter_map(identity_of).collect()
}

// === impl Known ===

impl Known {
    fn is_same_as(&self, cached: &Cached) -> bool {
        self.container_id.as_ref() == Some(&cached.container_id)
            && self.ifname.as_ref() == Some(&cached.ifname)
    }

    fn complete(&mut self, cached: Cached) {
        self.was_chained = cached.was_chained;
        self.pod = self.pod.take().or(cached.pod);
    }

    fn has_record_at(&self, file: &Path) -> bool {
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
