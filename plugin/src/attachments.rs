//! The attachments of this node, for people: from our records, from what the runtime remembers of
//! those that another plugin made, and from the network namespaces that are there (plugin.md 5).

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

use crate::{netns::Identity, record::Records};

mod cache;
mod known;
mod namespaces;

pub(crate) use known::Known;
pub(crate) use namespaces::identity_of;

/// Where attachments are looked for.
#[derive(Debug)]
pub(crate) struct Sources {
    /// Our own records.
    pub records: Records,
    /// Where libcni remembers results.
    pub cache: PathBuf,
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
