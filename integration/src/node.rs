//! A node in a temporary directory, and the installer on it.
//!
//! The host's directories, the image's and the service account's are real
//! directories; the installer is the real process. What it did is read back as
//! bytes, metadata and its log.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Child;
use std::time::Duration;

use tempfile::TempDir;

use crate::fixtures;
use crate::netns::unique_name;

mod agents;
mod installer;
mod look;

pub use agents::{fixture_bytes, fixture_names};
pub use installer::send;
pub use look::{State, is_chained, is_configuration};

/// How long anything that must happen is waited for. Nothing is late before.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// The kubeconfig's name on the node.
pub const KUBECONFIG: &str = "ZZZ-linkerd-cni-kubeconfig";

/// The node's name.
pub const NAME: &str = "node-7";

/// The plugins whose executables a node of the fixtures has.
const PLUGINS: [&str; 14] = [
    "aws-cni",
    "azure-vnet",
    "bandwidth",
    "bridge",
    "calico",
    "cilium-cni",
    "egress-cni",
    "firewall",
    "flannel",
    "multus",
    "openshift-sdn",
    "ovn-k8s-cni-overlay",
    "portmap",
    "ptp",
];

/// A node; its installer is killed and its files go when it is dropped.
pub struct Node {
    root: TempDir,
    env: BTreeMap<String, String>,
    running: Option<Child>,
}

// === impl Node ===

impl Node {
    /// An empty node: directories, the other plugins' executables, a service
    /// account, and the seed's template in the environment.
    ///
    /// # Panics
    ///
    /// If the directories cannot be made.
    pub fn new() -> Self {
        let node = Self {
            // A name that tells whose it is, should the test be killed.
            root: TempDir::with_prefix(format!("{}.", unique_name()))
                .expect("a temporary directory"),
            env: BTreeMap::new(),
            running: None,
        };
        for dir in [
            node.net_dir(),
            node.bin_dir(),
            node.image(),
            node.path("run"),
        ] {
            fs::create_dir_all(dir).expect("a directory");
        }
        for plugin in PLUGINS {
            fs::copy("/bin/true", node.bin_dir().join(plugin)).expect("a plugin");
        }
        fs::copy("/bin/true", node.image().join("linkerd-cni")).expect("our plugin");
        node.rotate_token("e30.e30.first");
        node.with_defaults()
    }

    fn with_defaults(mut self) -> Self {
        let template = fixtures::text("linkerd/template-seed.json");
        let paths = [
            ("CONTAINER_MOUNT_PREFIX", self.path("host")),
            ("CONTAINER_CNI_BIN_DIR", self.image()),
            ("SERVICE_ACCOUNT_DIR", self.service_account()),
            ("STATE_DIR", self.path("run/state")),
        ];
        for (name, path) in paths {
            self.set(name, &path.to_string_lossy());
        }
        self.set("CNI_NETWORK_CONFIG", &template);
        self.set("KUBERNETES_SERVICE_HOST", "10.60.0.1");
        self.set("KUBERNETES_SERVICE_PORT", "443");
        self.set("KUBERNETES_NODE_NAME", NAME);
        self
    }

    /// Sets a variable of the installer's environment.
    pub fn set(&mut self, name: &str, value: &str) {
        self.env.insert(name.to_owned(), value.to_owned());
    }

    /// Takes a variable out of the installer's environment.
    pub fn unset(&mut self, name: &str) {
        self.env.remove(name);
    }

    /// A path in the node's temporary directory.
    pub fn path(&self, relative: &str) -> PathBuf {
        self.root.path().join(relative)
    }

    /// The host's configuration directory.
    pub fn net_dir(&self) -> PathBuf {
        self.path("host/etc/cni/net.d")
    }

    /// The host's executables.
    pub fn bin_dir(&self) -> PathBuf {
        self.path("host/opt/cni/bin")
    }

    /// Our executables in the image.
    pub fn image(&self) -> PathBuf {
        self.path("image")
    }

    /// The service account's directory.
    pub fn service_account(&self) -> PathBuf {
        self.path("account")
    }

    /// What is the plugin's `/run/linkerd-cni` on this node; not there at first.
    pub fn run_dir(&self) -> PathBuf {
        self.path("host/run/linkerd-cni")
    }

    /// A file in the configuration directory.
    pub fn conf(&self, name: &str) -> PathBuf {
        self.net_dir().join(name)
    }

    /// Our executable on the host.
    pub fn executable(&self) -> PathBuf {
        self.bin_dir().join("linkerd-cni")
    }

    /// The kubeconfig on the host.
    pub fn kubeconfig(&self) -> PathBuf {
        self.conf(KUBECONFIG)
    }
}

impl Default for Node {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(child) = &mut self.running {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
