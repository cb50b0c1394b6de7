//! What is to be seen on a node: bytes, metadata, and what must hold of them.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{DEADLINE, KUBECONFIG, Node};
use crate::exposition::Exposition;
use crate::http;

/// What a file is, apart from its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Permissions.
    pub mode: u32,
    /// User and group.
    pub owner: (u32, u32),
}

impl Node {
    /// Where the installer serves `/live`, `/ready` and `/metrics`; waits until it does.
    ///
    /// # Panics
    ///
    /// If it does not come to that.
    pub fn admin(&self) -> SocketAddr {
        const SERVING: &str = "Serving /live, /ready and /metrics on ";
        self.wait("the address", |node| node.logged(SERVING) > 0);
        let log = self.log();
        let (_, rest) = log.rsplit_once(SERVING).expect("it was logged");
        // In a JSON log the text is in quotes.
        let address = rest.split(['\n', '"']).next().unwrap_or_default();
        address.parse().expect("an address")
    }

    /// The metrics as they are now, asked for as Prometheus does.
    ///
    /// # Panics
    ///
    /// If they are not served, or not as they should be.
    pub fn metrics(&self) -> Exposition {
        let accept =
            "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3";
        let answer = http::get_as(self.admin(), "/metrics", accept);
        assert!(
            answer
                .head
                .contains("application/openmetrics-text; version=1.0.0")
        );
        Exposition::parse(&answer.body)
    }

    /// Waits until something holds.
    ///
    /// # Panics
    ///
    /// If it does not come to hold, with the log and the directory.
    pub fn wait(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let until = Instant::now() + DEADLINE;
        while !holds(self) {
            if Instant::now() > until {
                panic!(
                    "{what} was waited for in vain; there is {:?}; the log:\n{}",
                    self.names(),
                    self.log()
                );
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits until a configuration is chained.
    ///
    /// # Panics
    ///
    /// If it does not come to be.
    pub fn wait_chained(&self, name: &str) {
        self.wait(&format!("{name} chained"), |node| node.is_chained(name));
    }

    /// Whether a file is a list that ends with the one entry of ours.
    pub fn is_chained(&self, name: &str) -> bool {
        fs::read(self.conf(name)).is_ok_and(|bytes| is_chained(&bytes))
    }

    /// Each regular file of the configuration directory but the kubeconfig.
    ///
    /// # Panics
    ///
    /// If the directory cannot be read.
    pub fn files(&self) -> BTreeMap<String, State> {
        let mut files = BTreeMap::new();
        for name in self.names().into_iter().filter(|name| name != KUBECONFIG) {
            let path = self.conf(&name);
            // A FIFO would be waited for.
            let regular = fs::metadata(&path).is_ok_and(|m| m.is_file());
            if regular && let Ok(state) = State::of(&path) {
                files.insert(name, state);
            }
        }
        files
    }

    /// The names in the configuration directory.
    ///
    /// # Panics
    ///
    /// If the directory cannot be read.
    pub fn names(&self) -> Vec<String> {
        names(&self.net_dir())
    }

    /// Checks what must hold at every instant, whatever was interrupted: no
    /// configuration without the executable it names, none that is not JSON
    /// unless it was left that way, and no kubeconfig that others can read.
    ///
    /// # Panics
    ///
    /// If it does not hold.
    pub fn assert_sound(&self, when: &str) {
        let chained = self.names().iter().any(|name| {
            is_configuration(name)
                && fs::read_to_string(self.conf(name)).is_ok_and(|t| t.contains("linkerd-cni"))
        });
        if chained {
            let metadata = fs::metadata(self.executable());
            let whole = metadata.is_ok_and(|m| m.mode() & 0o111 != 0);
            assert!(
                whole && same(&self.executable(), &self.image().join("linkerd-cni")),
                "{when}: no executable"
            );
            assert!(self.kubeconfig().exists(), "{when}: no kubeconfig");
        }
        for name in self.names().iter().filter(|name| is_configuration(name)) {
            let bytes = fs::read(self.conf(name)).unwrap_or_default();
            let json: Result<Value, _> = serde_json::from_slice(&bytes);
            assert!(
                json.is_ok(),
                "{when}: {name} is not JSON: {:?}",
                String::from_utf8_lossy(&bytes)
            );
        }
    }
}

// === impl State ===

impl State {
    /// The state of a file.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub fn of(path: &Path) -> std::io::Result<Self> {
        let metadata = fs::metadata(path)?;
        Ok(Self {
            bytes: fs::read(path)?,
            mode: metadata.mode() & 0o7777,
            owner: (metadata.uid(), metadata.gid()),
        })
    }
}

/// Whether a text is a list whose last plugin, and only that, is ours.
pub fn is_chained(bytes: &[u8]) -> bool {
    let list: Value = serde_json::from_slice(bytes).unwrap_or_default();
    let types: Vec<_> = list["plugins"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|p| p["type"].as_str())
        .collect();
    types.len() > 1
        && types.last() == Some(&Some("linkerd-cni"))
        && types.iter().filter(|t| **t == Some("linkerd-cni")).count() == 1
}

/// Whether libcni would look at a file of this name.
pub fn is_configuration(name: &str) -> bool {
    [".conf", ".conflist", ".json"]
        .iter()
        .any(|extension| name.ends_with(extension))
}

pub(super) fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let mut names: Vec<_> = entries
        .flatten()
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn same(a: &Path, b: &Path) -> bool {
    matches!((fs::read(a), fs::read(b)), (Ok(a), Ok(b)) if a == b)
}
