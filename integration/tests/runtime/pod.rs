//! A pod: what the API server knows of it, and its sandbox.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use k8s_cri::v1::{
    LinuxPodSandboxConfig, LinuxSandboxSecurityContext, NamespaceMode, NamespaceOption,
    PodSandboxConfig, PodSandboxMetadata, PortMapping,
};
use linkerd_cni_integration::netns::Netns;
use linkerd_cni_integration::rules::Family;
use linkerd_cni_integration::traffic::{As, Landed, Listener, connect, connect_as};
use serde_json::Value;

use crate::cri::Answer;
use crate::machine::Machine;

/// The node's address on the bridge.
pub(crate) const GATEWAY: [u8; 4] = [10, 88, 0, 1];

/// The proxy's ports, and the application's.
pub(crate) const INBOUND: u16 = 4143;
pub(crate) const OUTBOUND: u16 = 4140;
pub(crate) const WEB: u16 = 8080;

/// The user that the proxy runs as.
pub(crate) const PROXY: As = As {
    uid: 2102,
    gid: 2102,
};

static ATTEMPTS: AtomicU32 = AtomicU32::new(0);

/// A pod that is to start.
#[derive(Clone, Debug)]
pub(crate) struct Pod {
    namespace: String,
    name: String,
    host_port: Option<u16>,
    host_network: bool,
}

/// A pod's sandbox that runs.
pub(crate) struct Sandbox {
    pub(crate) id: String,
    pub(crate) netns: Netns,
    /// The namespace's file as the runtime knows it.
    pub(crate) path: String,
    pub(crate) ip: IpAddr,
    /// Of the other family, in a network that has both.
    pub(crate) other_ip: Option<IpAddr>,
}

/// A sandbox in which application and proxy listen.
pub(crate) struct Serving {
    pub(crate) sandbox: Sandbox,
    _listeners: Vec<Listener>,
}

// === impl Pod ===

impl Pod {
    /// A pod of this name, of which the API server knows nothing.
    pub(crate) fn named(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            host_port: None,
            host_network: false,
        }
    }

    /// A pod that the API server is told of.
    pub(crate) fn of(machine: &Machine, object: Value) -> Self {
        let text = |key: &str| object["metadata"][key].as_str().unwrap().to_owned();
        let pod = Self::named(&text("namespace"), &text("name"));
        machine.api.put(object);
        pod
    }

    /// Maps a port of the node to the application's; 0 maps none.
    pub(crate) fn host_port(mut self, port: u16) -> Self {
        self.host_port = Some(port).filter(|port| *port != 0);
        self
    }

    /// Has the node's network.
    pub(crate) fn host_network(mut self) -> Self {
        self.host_network = true;
        self
    }

    /// Starts it through the runtime.
    pub(crate) fn start(&self, machine: &Machine) -> Answer<Sandbox> {
        let id = machine.cri.run(&self.config(&machine.cgroup()))?;
        Ok(Sandbox::of(machine, id))
    }

    /// Its configuration, as kubelet gives it to a runtime.
    pub(crate) fn config(&self, cgroup: &str) -> PodSandboxConfig {
        let mapping = self.host_port.map(|port| PortMapping {
            container_port: WEB.into(),
            host_port: port.into(),
            ..PortMapping::default()
        });
        PodSandboxConfig {
            metadata: Some(PodSandboxMetadata {
                name: self.name.clone(),
                namespace: self.namespace.clone(),
                uid: format!("uid-{}", self.name),
                // As kubelet counts, since a sandbox that failed may still be there.
                attempt: ATTEMPTS.fetch_add(1, Ordering::Relaxed),
            }),
            port_mappings: mapping.into_iter().collect(),
            linux: Some(self.linux(cgroup)),
            ..PodSandboxConfig::default()
        }
    }

    fn linux(&self, cgroup: &str) -> LinuxPodSandboxConfig {
        let network = if self.host_network {
            NamespaceMode::Node
        } else {
            NamespaceMode::Pod
        };
        LinuxPodSandboxConfig {
            cgroup_parent: cgroup.to_owned(),
            security_context: Some(LinuxSandboxSecurityContext {
                namespace_options: Some(NamespaceOption {
                    network: network.into(),
                    ..NamespaceOption::default()
                }),
                ..LinuxSandboxSecurityContext::default()
            }),
            ..LinuxPodSandboxConfig::default()
        }
    }
}

// === impl Sandbox ===

impl Sandbox {
    /// What the runtime tells of a sandbox.
    pub(crate) fn of(machine: &Machine, id: String) -> Self {
        let answer = machine.cri.status(&id);
        let info: Value = serde_json::from_str(&answer.info["info"]).unwrap();
        let namespaces = info["runtimeSpec"]["linux"]["namespaces"].as_array();
        let mut namespaces = namespaces.unwrap().iter();
        let network = namespaces.find(|namespace| namespace["type"] == "network");
        let path = network.and_then(|network| network["path"].as_str());
        let netns = match path {
            Some(path) => machine.namespaces.path(path),
            None => machine.namespaces.netns(),
        };
        let addresses = answer.status.unwrap().network.unwrap();
        let mut others = addresses.additional_ips.iter();
        Self {
            id,
            netns: Netns::at(&netns),
            path: path.unwrap_or_default().to_owned(),
            ip: addresses.ip.parse().unwrap_or([127, 0, 0, 1].into()),
            other_ip: others.next().map(|other| other.ip.parse().unwrap()),
        }
    }

    /// Where the plugin keeps its record.
    pub(crate) fn record(&self, machine: &Machine) -> PathBuf {
        let record = format!("/run/linkerd-cni/{}-eth0.json", self.id);
        machine.namespaces.path(record)
    }

    /// Its application and its proxy start to listen.
    pub(crate) fn serve(self) -> Serving {
        let ports = [INBOUND, OUTBOUND, WEB];
        let families = [Family::V4, Family::V6].into_iter();
        let _listeners = families
            .flat_map(|family| Listener::all(&self.netns, family, &ports))
            .collect();
        Serving {
            sandbox: self,
            _listeners,
        }
    }

    /// Takes it away through the runtime.
    pub(crate) fn end(&self, machine: &Machine) -> Answer<()> {
        machine.cri.stop(&self.id)?;
        machine.cri.remove(&self.id)
    }
}

// === impl Serving ===

impl Serving {
    /// Where its application is reached.
    pub(crate) fn web(&self) -> SocketAddr {
        SocketAddr::new(self.sandbox.ip, WEB)
    }

    /// From the node to its application.
    pub(crate) fn inbound(&self, machine: &Machine) -> Landed {
        machine.namespaces.enter(|| connect(self.web())).unwrap()
    }

    /// From a process in it.
    pub(crate) fn out(&self, who: As, to: SocketAddr) -> Landed {
        connect_as(&self.sandbox.netns, who, to).unwrap()
    }

    /// Whether real connections land on the proxy, inbound and outbound.
    pub(crate) fn redirected(&self, machine: &Machine) -> (bool, bool) {
        let inbound = self.inbound(machine);
        let elsewhere = SocketAddr::from((GATEWAY, WEB));
        let outbound = connect_as(&self.sandbox.netns, As::APP, elsewhere);
        (
            inbound.port == INBOUND && inbound.original == Some(self.web()),
            outbound.is_ok_and(|landed| landed.port == OUTBOUND),
        )
    }
}
