//! The network namespaces that are there: those with a name, and those of processes.

use std::{
    cell::OnceCell,
    collections::HashSet,
    fs,
    net::IpAddr,
    path::{Path, PathBuf},
};

use crate::{
    interfaces::{self, Address},
    netns::{self, Identity, Namespace},
};

/// Where namespaces have names; the second is often a link to the first.
const NAMED: [&str; 2] = ["/run/netns", "/var/run/netns"];

/// The namespace of the host itself, as far as we may look.
const HOST: &str = "/proc/1/ns/net";

/// A namespace that is there.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) path: PathBuf,
    pub(super) identity: Identity,
    addresses: OnceCell<Vec<Address>>,
}

/// All network namespaces besides ours and the host's, each once.
pub(super) fn live() -> Vec<Found> {
    let mut seen: HashSet<Identity> = [netns::own().ok(), identity_of(Path::new(HOST))]
        .into_iter()
        .flatten()
        .collect();
    let named = NAMED
        .iter()
        .flat_map(|directory| entries(Path::new(directory)));
    let named = named.filter(|path| Namespace::open(path).is_ok());
    let candidates: Vec<PathBuf> = named.chain(of_processes()).collect();
    let found = candidates.into_iter().filter_map(|path| {
        let identity = identity_of(&path)?;
        let addresses = OnceCell::new();
        Some(Found {
            path,
            identity,
            addresses,
        })
    });
    found.filter(|found| seen.insert(found.identity)).collect()
}

/// What tells the namespace at a path from others; `None`: there is nothing.
#[must_use]
pub(crate) fn identity_of(path: &Path) -> Option<Identity> {
    fs::metadata(path)
        .ok()
        .map(|metadata| Identity::of(&metadata))
}

fn of_processes() -> impl Iterator<Item = PathBuf> {
    let is_process = |path: &PathBuf| {
        path.file_name()
            .and_then(|name| name.to_str())
            .is_some_and(|name| name.bytes().all(|b| b.is_ascii_digit()))
    };
    let processes = entries(Path::new("/proc")).into_iter().filter(is_process);
    processes.map(|process| process.join("ns/net"))
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

impl Found {
    /// Whether an interface of the namespace has one of these addresses.
    pub(super) fn has_one_of(&self, wanted: &[IpAddr]) -> bool {
        !wanted.is_empty()
            && self
                .addresses()
                .iter()
                .any(|address| wanted.contains(&address.ip))
    }

    /// Looked up once, and only if somebody asks.
    fn addresses(&self) -> &[Address] {
        self.addresses.get_or_init(|| {
            let inside =
                Namespace::open(&self.path).and_then(|open| open.enter(interfaces::addresses));
            inside.unwrap_or_default()
        })
    }
}
