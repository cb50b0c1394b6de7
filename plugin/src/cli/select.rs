//! The attachments that a command is about.

use std::path::Path;

use proxy_init_rules::annotation::distance;

use super::Which;
use crate::{
    attachments::{self, Known, Sources},
    cni::in_words,
    netns::Namespace,
    record::{DIRECTORY, Records},
};

/// Where libcni keeps its results, below a directory of their own or not.
const CACHE: &str = "/var/lib/cni";

/// Those of one pod or namespace; of neither: all on this node.
///
/// # Errors
/// There is no such pod or namespace here; a sentence that says what to do.
pub(super) fn select(which: &Which) -> Result<Vec<Known>, String> {
    let sources = Sources {
        records: Records::in_directory(DIRECTORY),
        cache: CACHE.into(),
    };
    match (&which.pod, &which.netns) {
        (Some((namespace, name)), _) => of_pod(&sources, namespace, name),
        (None, Some(path)) => of_namespace(&sources, path),
        (None, None) => Ok(attachments::all(&sources)),
    }
}

fn of_pod(sources: &Sources, namespace: &str, name: &str) -> Result<Vec<Known>, String> {
    let found = attachments::of_pod(sources, namespace, name);
    if !found.is_empty() {
        return Ok(found);
    }
    let wanted = format!("{namespace}/{name}");
    let pods = attachments::pods(sources);
    let meant = nearest(&wanted, &pods).map(|pod| format!("; did you mean {pod}?"));
    let meant = meant.unwrap_or_default();
    Err(format!(
        "no pod {wanted} is known on this node: neither {DIRECTORY} nor {CACHE} names it{meant}"
    ))
}

/// A name that may have been meant: a third of it is otherwise at most.
fn nearest<'a>(wanted: &str, pods: &'a [String]) -> Option<&'a String> {
    let nearest = pods.iter().min_by_key(|pod| distance(wanted, pod))?;
    (distance(wanted, nearest) * 3 <= wanted.len()).then_some(nearest)
}

fn of_namespace(sources: &Sources, path: &Path) -> Result<Vec<Known>, String> {
    let namespace = Namespace::open(path).map_err(|error| in_words(&error))?;
    let identity = namespace.identity().map_err(|error| in_words(&error))?;
    Ok(attachments::of_namespace(sources, path, identity))
}
