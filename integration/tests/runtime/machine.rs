//! A node with a runtime, an installer and an API server.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use linkerd_cni_integration::api_server::{ApiServer, TOKEN};
use linkerd_cni_integration::chain::reference_plugins;
use linkerd_cni_integration::netns::Netns;
use linkerd_cni_integration::node::{DEADLINE, Node};
use linkerd_cni_integration::runtime::{Cgroup, Containerd, Namespaces};
use linkerd_cni_integration::{binaries, fixtures, rules};
use serde_json::{Value, json};

use crate::cri::Cri;

/// The other plugin's list.
pub(crate) const LIST: &str = "10-net.conflist";

/// The node's own address, to which ports are mapped.
pub(crate) const ADDRESS: &str = "192.0.2.7";

/// The namespace whose pods are passed on unseen.
pub(crate) const EXCLUDED: &str = "kube-system";

/// Everything; dropped in this order.
pub(crate) struct Machine {
    pub(crate) cri: Cri,
    pub(crate) containerd: Containerd,
    pub(crate) namespaces: Namespaces,
    pub(crate) api: ApiServer,
    pub(crate) node: Node,
    cgroup: Cgroup,
}

// === impl Machine ===

impl Machine {
    /// A node without a network: the runtime runs, the API server serves the pods
    /// of the fixtures, the installer is not started yet.
    pub(crate) fn new() -> Self {
        let mut node = Node::new();
        fs::create_dir(node.path("var-lib-cni")).unwrap();
        let namespaces = Namespaces::new(&node.path("var-lib-cni")).unwrap();
        give_address(&namespaces);
        let api = namespaces.enter(ApiServer::start);
        api.put(daemonset());
        for name in ["namespace", "service-kubernetes"] {
            api.put(fixtures::pod(name));
        }
        equip(&mut node, &api);
        let containerd = start(&namespaces, &node);
        Self {
            cri: Cri::connect(&containerd.socket()),
            containerd,
            namespaces,
            api,
            node,
            cgroup: Cgroup::new(),
        }
    }

    /// The same, with the network, and chained.
    pub(crate) fn chained() -> Self {
        Self::chained_to(&list())
    }

    /// The same, with a list of the test's own.
    pub(crate) fn chained_to(list: &str) -> Self {
        let mut machine = Self::new();
        machine.install();
        machine.drop_list(list);
        machine.wait_chained();
        machine
    }

    /// Starts the installer.
    pub(crate) fn install(&mut self) {
        let before = self.namespaces.beside();
        let before: Vec<&str> = before.iter().map(String::as_str).collect();
        self.node.start_behind(&before);
    }

    /// The other plugin renames its list into place, out of the same directory:
    /// containerd 1.6 does not notice what comes from another.
    pub(crate) fn drop_list(&self, text: &str) {
        let new = self.node.conf(&format!(".{LIST}.new"));
        fs::write(&new, text).unwrap();
        fs::rename(new, self.node.conf(LIST)).unwrap();
    }

    /// Waits until the file is chained and the runtime has seen it.
    pub(crate) fn wait_chained(&self) {
        self.node.wait_chained(LIST);
        self.wait_loaded("linkerd-cni");
    }

    /// Waits until the last plugin of the list that the runtime has loaded is
    /// this one.
    pub(crate) fn wait_loaded(&self, last: &str) {
        let until = Instant::now() + DEADLINE;
        while self.cri.loaded().last().is_none_or(|plugin| plugin != last) {
            let log = self.node.log();
            assert!(Instant::now() < until, "{:?}: {log}", self.cri.loaded());
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until the kubeconfig on the node has this token.
    pub(crate) fn wait_token(&self, token: &str) {
        self.node.wait("the token", |node| {
            fs::read_to_string(node.kubeconfig()).is_ok_and(|text| text.contains(token))
        });
    }

    /// The cgroup of this node's pods.
    pub(crate) fn cgroup(&self) -> String {
        self.cgroup.path()
    }

    /// The node's own network.
    pub(crate) fn netns(&self) -> Netns {
        Netns::at(&self.namespaces.netns())
    }

    /// Our DaemonSet is deleted.
    pub(crate) fn forget_daemonset(&self) {
        let mut deleted = daemonset();
        deleted["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        self.api.put(deleted);
    }

    /// Our DaemonSet is there, and stays.
    pub(crate) fn remember_daemonset(&self) {
        self.api.put(daemonset());
    }

    /// The power goes, and comes back: `/run`, processes and networks are gone,
    /// what lies on the disk stays. Only the runtime is started.
    pub(crate) fn reboot(&mut self) {
        self.namespaces = Namespaces::new(&self.node.path("var-lib-cni")).unwrap();
        give_address(&self.namespaces);
        self.namespaces.enter(|| self.api.listen_here_too());
        self.containerd = start(&self.namespaces, &self.node);
        self.cri = Cri::connect(&self.containerd.socket());
    }

    /// The runtime is killed and started again; pods go on.
    pub(crate) fn restart_runtime(&mut self) {
        self.containerd.restart(&self.namespaces).unwrap();
        self.cri = Cri::connect(&self.containerd.socket());
    }

    /// What the runtime complained of.
    pub(crate) fn complaints(&self) -> String {
        let log = self.containerd.log();
        let lines = log.lines().filter(|line| line.contains("level=error"));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Everything that pods leave on a node, by name; empty when all are gone.
    pub(crate) fn left(&self) -> Vec<String> {
        let mut left = names(&self.namespaces.path("/run/netns"));
        left.extend(names(&self.namespaces.path("/var/lib/cni/results")));
        let records = names(&self.namespaces.path("/run/linkerd-cni"));
        left.extend(records.into_iter().filter(|name| name.ends_with(".json")));
        let leases = names(&self.namespaces.path("/var/lib/cni/networks/net"));
        // host-local's own, which it keeps.
        let kept = |name: &String| name.ends_with("/lock") || name.contains("/last_reserved_ip.");
        left.extend(leases.into_iter().filter(|name| !kept(name)));
        let netns = self.netns();
        let links = netns.run("ip", &["-o", "link"]).unwrap();
        left.extend(lines_with(&links, "veth"));
        // Chains of bridge and portmap carry a hash of the container's id.
        left.extend(lines_with(&rules::everything(&netns), "CNI-DN-"));
        left.extend(lines_with(&rules::everything(&netns), " id: "));
        left.extend(self.cri.list());
        left
    }
}

/// The other plugin's list: bridge, host-local and portmap.
pub(crate) fn list() -> String {
    let list = json!({
        "cniVersion": "1.0.0",
        "name": "net",
        "plugins": [
            {
                "type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true,
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{"subnet": "10.88.0.0/24"}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": true}},
        ],
    });
    format!("{list:#}\n")
}

/// The same list for pods with an IPv6 address too.
pub(crate) fn dual_stack_list() -> String {
    let mut list: Value = serde_json::from_str(&list()).unwrap();
    let ipam = &mut list["plugins"][0]["ipam"];
    let second = json!([{"subnet": "fd00:88::/64"}]);
    ipam["ranges"].as_array_mut().unwrap().push(second);
    let second = json!({"dst": "::/0"});
    ipam["routes"].as_array_mut().unwrap().push(second);
    format!("{list:#}\n")
}

fn start(namespaces: &Namespaces, node: &Node) -> Containerd {
    let directory = node.path("containerd");
    Containerd::start(namespaces, &directory, &node.net_dir(), &node.bin_dir()).unwrap()
}

fn give_address(namespaces: &Namespaces) {
    let netns = Netns::at(&namespaces.netns());
    let address = [&format!("{ADDRESS}/32"), "dev", "lo"];
    let words = [&["addr", "add"], &address[..]].concat();
    netns.run("ip", &words).unwrap();
}

/// Real plugins, and an installer whose host is this node.
fn equip(node: &mut Node, api: &ApiServer) {
    for plugin in ["bridge", "host-local", "loopback", "portmap"] {
        let from = reference_plugins().join(plugin);
        fs::copy(&from, node.bin_dir().join(plugin)).unwrap();
    }
    fs::copy(binaries::plugin(), node.image().join("linkerd-cni")).unwrap();
    node.trust(&api.ca());
    node.rotate_token(TOKEN);
    // Paths are the same on the node as in the installer's container.
    symlink("/", node.path("slash")).unwrap();
    let port = api.address().port().to_string();
    let paths = [
        ("CONTAINER_MOUNT_PREFIX", node.path("slash")),
        ("DEST_CNI_NET_DIR", node.net_dir()),
        ("DEST_CNI_BIN_DIR", node.bin_dir()),
    ];
    for (name, path) in paths {
        node.set(name, &path.to_string_lossy());
    }
    node.set("KUBERNETES_SERVICE_HOST", "127.0.0.1");
    node.set("KUBERNETES_SERVICE_PORT", &port);
    node.set("CNI_NETWORK_CONFIG", &template().to_string());
}

fn template() -> Value {
    let mut template: Value = fixtures::json("linkerd/template-chart.json");
    template["kubernetes"]["exclude-namespaces"] = json!([EXCLUDED]);
    template
}

/// Ours, as the API server knows it: it stays.
fn daemonset() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": "linkerd-cni", "namespace": "linkerd-cni"},
        "spec": {"selector": {}, "template": {"metadata": {}, "spec": {"containers": []}}},
    })
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths
        .map(|path: PathBuf| path.display().to_string())
        .collect()
}

fn lines_with(text: &str, part: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| line.contains(part));
    lines.map(str::to_owned).collect()
}
