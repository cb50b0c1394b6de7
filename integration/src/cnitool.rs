//! libcni itself, as `cnitool` drives it, on a node of the test's own.
//!
//! `bridge` works on the network namespace that it runs in, so the node is one;
//! what libcni and the plugin remember lies in directories that only its
//! processes see.

use std::env;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::api_server::ApiServer;
use crate::kubeconfig::Kubeconfig;
use crate::netns::Netns;
use crate::plugin::{DEADLINE, PATH};
use crate::tool::Said;
use crate::{binaries, fixtures, process};

/// The network's name.
const NETWORK: &str = "libcni-network";

/// A node with one network, and an API server that knows the pod `web-meshed`.
#[derive(Debug)]
pub struct Cnitool {
    /// The network namespace that plays the node.
    pub node: Netns,
    /// Leads to the API server.
    pub kubeconfig: Kubeconfig,
    root: TempDir,
    path: String,
    _api: ApiServer,
}

/// Where `integration/go-tools` puts cnitool and the plugins that it builds:
/// `LINKERD_CNI_GO_TOOLS`.
///
/// # Panics
///
/// If they are not there, with the command that builds them.
pub fn tools() -> PathBuf {
    let directory = env::var_os("LINKERD_CNI_GO_TOOLS").map(PathBuf::from);
    let found = directory.filter(|directory| directory.join("cnitool").is_file());
    found.expect("no cnitool: set LINKERD_CNI_GO_TOOLS to what ./integration/go-tools prints")
}

// === impl Cnitool ===

impl Cnitool {
    /// A node whose network is a list of this version: `bridge` with
    /// `host-local` out of `plugins`, and linkerd-cni behind it.
    ///
    /// # Panics
    ///
    /// If the machine does not let us.
    pub fn new(version: &str, plugins: &Path) -> Self {
        let node = Netns::new();
        let api = node.enter(ApiServer::start);
        api.put(fixtures::pod("meshed"));
        api.put(fixtures::pod("namespace"));
        let kubeconfig = Kubeconfig::of(&api);
        let root = TempDir::with_prefix("lct-cnitool-").expect("a temporary directory");
        for directory in ["conf", "lib", "records", "leases"] {
            fs::create_dir(root.path().join(directory)).expect("a directory");
        }
        let ours = binaries::plugin();
        let ours = ours.parent().expect("an executable lies in a directory");
        let path = format!("{}:{}", plugins.display(), ours.display());
        let tool = Self {
            node,
            kubeconfig,
            root,
            path,
            _api: api,
        };
        tool.write(version);
        tool
    }

    /// Runs a verb for this pod's namespace.
    ///
    /// # Panics
    ///
    /// If it cannot be started, or hangs.
    pub fn run(&self, verb: &str, pod: &Netns) -> Said {
        let root = self.root.path().display();
        let script = format!(
            "set -e; mkdir -p /run/linkerd-cni\n\
             mount --bind {root}/lib /var/lib\n\
             mount --bind {root}/records /run/linkerd-cni\n\
             exec nsenter --net={} -- {} {verb} {NETWORK} {}",
            self.node.path().display(),
            tools().join("cnitool").display(),
            pod.path().display(),
        );
        let mut command = process::command("/usr/bin/unshare");
        command
            .args(["-m", "/bin/sh", "-c", &script])
            .env_clear()
            .env("PATH", PATH)
            .env("CNI_PATH", &self.path)
            .env("NETCONFPATH", self.directory("conf"))
            .env(
                "CNI_ARGS",
                "IgnoreUnknown=1;K8S_POD_NAMESPACE=emojivoto;K8S_POD_NAME=web-meshed",
            );
        let finished = process::finish(&mut command, b"", DEADLINE).expect("unshare is there");
        Said {
            exit: finished.status.expect("cnitool ends").code(),
            stdout: String::from_utf8_lossy(&finished.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&finished.stderr).into_owned(),
        }
    }

    /// Runs a verb and expects it to succeed.
    ///
    /// # Panics
    ///
    /// As [`Cnitool::run`], or if it fails; with what it said.
    #[track_caller]
    pub fn succeed(&self, verb: &str, pod: &Netns) -> Said {
        let said = self.run(verb, pod);
        assert_eq!(said.exit, Some(0), "{verb}: {said:#?}");
        said
    }

    /// ADD: the result, the pod's address and the node's.
    ///
    /// # Panics
    ///
    /// As [`Cnitool::succeed`], or if the result is none.
    #[track_caller]
    pub fn add(&self, pod: &Netns) -> (Value, IpAddr, IpAddr) {
        let said = self.succeed("add", pod);
        let result: Value = serde_json::from_str(&said.stdout).expect("the result is JSON");
        let text = |key: &str| result["ips"][0][key].as_str().unwrap_or_default();
        let address = text("address").split('/').next().map(str::parse);
        let address = address.expect("a word").expect("an address");
        let gateway = text("gateway").parse().expect("an address");
        (result, address, gateway)
    }

    /// The plugin's records.
    ///
    /// # Panics
    ///
    /// If they cannot be read.
    pub fn records(&self) -> Vec<PathBuf> {
        files(&self.directory("records"))
    }

    /// The addresses that `host-local` has given away.
    ///
    /// # Panics
    ///
    /// If they cannot be read.
    pub fn leases(&self) -> Vec<PathBuf> {
        let mut leases = files(&self.directory("leases").join(NETWORK));
        leases.retain(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("10."))
        });
        leases
    }

    /// Puts one more plugin at the end of the list.
    ///
    /// # Panics
    ///
    /// If the list cannot be read or written.
    pub fn append(&self, plugin: Value) {
        let file = self.directory("conf").join("10-libcni.conflist");
        let text = fs::read(&file).expect("a list can be read");
        let mut list: Value = serde_json::from_slice(&text).expect("a list is JSON");
        let plugins = list["plugins"].as_array_mut();
        plugins.expect("a list has plugins").push(plugin);
        fs::write(file, list.to_string()).expect("a list can be written");
    }

    fn directory(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn write(&self, version: &str) {
        let list = json!({
            "cniVersion": version,
            "name": NETWORK,
            "plugins": [
                {
                    "type": "bridge",
                    "bridge": "cni0",
                    "isGateway": true,
                    "ipam": {
                        "type": "host-local",
                        "dataDir": self.directory("leases"),
                        "ranges": [[{"subnet": "10.88.0.0/24"}]],
                        "routes": [{"dst": "0.0.0.0/0"}],
                    },
                },
                fixtures::template("template-chart", &self.kubeconfig.path()),
            ],
        });
        let file = self.directory("conf").join("10-libcni.conflist");
        fs::write(file, list.to_string()).expect("a list can be written");
    }
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory);
    let entries = entries.unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    entries
        .map(|entry| entry.expect("an entry").path())
        .collect()
}
