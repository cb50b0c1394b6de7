//! The cgroup that a node's pods are put under.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::netns::unique_name;

/// How often a cgroup is tried to be removed: its processes have been killed, but
/// the kernel takes a moment to see them off.
const ATTEMPTS: u32 = 200;

/// A name under the root of every hierarchy; removed when dropped.
#[derive(Debug)]
pub struct Cgroup {
    name: String,
}

// === impl Cgroup ===

impl Cgroup {
    /// A name that no other test on this machine uses. The runtime makes it.
    pub fn new() -> Self {
        Self {
            name: unique_name(),
        }
    }

    /// Those that a process has left behind.
    pub fn left_by(pid: u32) -> Vec<Self> {
        let prefix = format!("lct-{pid}-");
        let entries = hierarchies()
            .into_iter()
            .filter_map(|path| fs::read_dir(path).ok());
        let names = entries.flatten().flatten().map(|entry| entry.file_name());
        let names = names.map(|name| name.to_string_lossy().into_owned());
        let ours = names.filter(|name| name.starts_with(&prefix));
        ours.map(|name| Self { name }).collect()
    }

    /// As the `cgroup_parent` of a sandbox.
    pub fn path(&self) -> String {
        format!("/{}", self.name)
    }
}

impl Default for Cgroup {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        for hierarchy in hierarchies() {
            let ours = hierarchy.join(&self.name);
            for _ in 0..ATTEMPTS {
                if !ours.exists() || remove(&ours) {
                    break;
                }
                thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

/// Version 2 has one, mounted at the top; version 1 has one per controller below.
fn hierarchies() -> Vec<PathBuf> {
    let top = Path::new("/sys/fs/cgroup");
    let below = fs::read_dir(top).into_iter().flatten().flatten();
    let below = below.map(|entry| entry.path()).filter(|path| path.is_dir());
    below.chain([top.to_owned()]).collect()
}

fn remove(cgroup: &Path) -> bool {
    let inner = fs::read_dir(cgroup).into_iter().flatten().flatten();
    for entry in inner.filter(|entry| entry.path().is_dir()) {
        remove(&entry.path());
    }
    fs::remove_dir(cgroup).is_ok()
}
