//! Which pods, and with which configuration (plugin.md 2, rules.md 2). Pure.

use std::fmt;

use proxy_init_rules::{
    Annotated, AnnotationError, Config, Id, Overrides, PortRange, annotation, suggestions,
};
use serde::{Deserialize, Serialize};

use crate::{
    cni::{KubernetesConfig, PodRef},
    kubernetes::{Container, Namespace, Pod},
};

mod identity;
mod listening;
mod sandbox;

/// The proxy's container, sidecar or native.
const PROXY: &str = "linkerd-proxy";
/// The init container that sets the same rules itself.
const INIT: &str = "linkerd-init";
/// Marks the pods of linkerd's own control plane.
const CONTROL_PLANE: &str = "linkerd.io/control-plane-component";
/// The API server's ports, if nobody tells better ones.
const API_SERVER: [u16; 2] = [443, 6443];
/// What the DaemonSet controller appends to a pod's name, after a dash.
const SUFFIX_LENGTH: usize = 5;

/// Why a pod is passed on without rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Pass {
    /// The runtime named no pod.
    NotKubernetes,
    /// The pod keeps this node in order; it must start whatever the state of the node.
    Installer,
    /// Its namespace is on `kubernetes.exclude-namespaces`.
    ExcludedNamespace,
    /// It has no proxy.
    NoProxy,
    /// Its init container sets the rules.
    InitContainer,
}

/// A meshed pod's rules, and what to warn of.
#[derive(Debug, Clone)]
pub(crate) struct Meshed {
    /// The configuration with everything that the pod and its namespace change.
    pub config: Config,
    /// What to warn of.
    pub warnings: Vec<String>,
}

/// Why a meshed pod must not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    /// An annotation does not parse.
    #[error(transparent)]
    Annotation(#[from] AnnotationError),
    /// Nothing would let the proxy's own connections pass, and nothing else.
    #[error(
        "its proxy cannot be told from container {container:?}: there is no rule for the proxy's \
         user, and both may run with group {gid}; give the proxy a user of its own \
         (config.linkerd.io/proxy-uid)"
    )]
    Indistinct {
        /// The other container.
        container: String,
        /// The group of both.
        gid: Id,
    },
}

/// What the ports of the API server are.
pub(crate) type ApiServerPorts = Result<Vec<PortRange>, String>;

/// Whether the pod is passed on without asking anybody.
#[must_use]
pub(crate) fn exempt(pod: &PodRef, kubernetes: &KubernetesConfig) -> Option<Pass> {
    if is_installer(pod, kubernetes) {
        return Some(Pass::Installer);
    }
    let excluded = kubernetes.exclude_namespaces.contains(&pod.namespace);
    excluded.then_some(Pass::ExcludedNamespace)
}

/// Only the installer's own pods, not its namespace: people do put the control plane beside it,
/// and that is meshed.
fn is_installer(pod: &PodRef, kubernetes: &KubernetesConfig) -> bool {
    let installer = &kubernetes.installer;
    let suffix = pod
        .name
        .strip_prefix(&installer.daemonset)
        .and_then(|rest| rest.strip_prefix('-'));
    let is_suffix = |text: &str| {
        text.len() == SUFFIX_LENGTH
            && text
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    };
    pod.namespace == installer.namespace && suffix.is_some_and(is_suffix)
}

/// Whether the pod is meshed, or why not.
///
/// # Errors
/// Never for a pod with a proxy that has no init container of ours.
pub(crate) fn is_meshed(pod: &Pod) -> Result<(), Pass> {
    let init = &pod.spec.init_containers;
    if init.iter().any(|container| container.name == INIT) {
        return Err(Pass::InitContainer);
    }
    if proxy(pod).is_some() {
        return Ok(());
    }
    Err(Pass::NoProxy)
}

/// Whether the namespace has to be asked for: only if the pod leaves an annotation open that
/// matters. Where the proxy's container says on which port it listens, no annotation does.
#[must_use]
pub(crate) fn needs_namespace(pod: &Pod) -> bool {
    let mut matter = annotation::ALL.into_iter().chain(listening::untold(pod));
    matter.any(|annotation| !pod.metadata.annotations.contains_key(annotation))
}

/// The proxy's container, if there is one.
fn proxy(pod: &Pod) -> Option<&Container> {
    let all = pod.spec.containers.iter().chain(&pod.spec.init_containers);
    all.into_iter().find(|container| container.name == PROXY)
}

/// Whether the pod talks to the API server as part of its work for the mesh.
#[must_use]
pub(crate) fn is_control_plane(pod: &Pod) -> bool {
    pod.metadata.labels.contains_key(CONTROL_PLANE)
}

/// The configuration that holds for a meshed pod. `namespace` is `None` where it was not needed,
/// `api_server` where the pod is not of the control plane.
///
/// # Errors
/// An annotation does not parse, or nothing tells the proxy's connections from others.
pub(crate) fn meshed(
    name: &PodRef,
    pod: &Pod,
    namespace: Option<&Namespace>,
    api_server: Option<ApiServerPorts>,
    base: &Config,
) -> Result<Meshed, Refusal> {
    let pod_name = format!("pod {name}");
    let namespace_name = format!("namespace {}", name.namespace);
    let mut objects = vec![Annotated {
        object: &pod_name,
        annotations: &pod.metadata.annotations,
    }];
    objects.extend(namespace.map(|namespace| Annotated {
        object: &namespace_name,
        annotations: &namespace.metadata.annotations,
    }));
    let mut config = Overrides::read(&objects)?.apply(base.clone());
    let misspelt = objects.iter().flat_map(|object| suggestions(*object));
    let mut warnings: Vec<String> = misspelt.map(|found| found.to_string()).collect();
    warnings.extend(listening::listen(pod, &objects, &mut config)?);
    warnings.extend(identity::identify(pod, &objects, &mut config)?);
    warnings.extend(sandbox::warning(pod));
    warnings.extend(api_server.and_then(|ports| skip_api_server(ports, &mut config)));
    Ok(Meshed { config, warnings })
}

/// What to say of a pod whose interface of this name is left alone: it is meshed, and is not.
#[must_use]
pub(crate) fn left_alone(config: &Config, ifname: &str) -> Option<String> {
    let mut interfaces = config.interfaces_to_ignore.iter();
    let ignored = interfaces.find(|interface| interface.is_about(ifname))?;
    Some(format!(
        "interface {ifname} of this attachment is left alone ({ignored} is among the interfaces to \
         ignore); all traffic over it bypasses the proxy"
    ))
}

/// The control plane must reach the API server before its own proxies can.
fn skip_api_server(ports: ApiServerPorts, config: &mut Config) -> Option<String> {
    let (ports, warning) = match ports {
        Ok(ports) if !ports.is_empty() => (ports, None),
        Ok(_) => (
            Vec::new(),
            Some("service default/kubernetes names no port".to_owned()),
        ),
        Err(reason) => (Vec::new(), Some(reason)),
    };
    match warning {
        None => config.also_ignore_outbound(ports),
        Some(_) => config.also_ignore_outbound(API_SERVER.map(PortRange::single)),
    }
    warning.map(|reason| format!("the ports 443 and 6443 are taken for the API server's: {reason}"))
}

// === impl Pass ===

impl fmt::Display for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotKubernetes => "not a pod of Kubernetes",
            Self::Installer => "pod of the installer",
            Self::ExcludedNamespace => "namespace excluded",
            Self::NoProxy => "no linkerd-proxy container",
            Self::InitContainer => "linkerd-init container sets the rules",
        })
    }
}

#[cfg(test)]
mod tests;
