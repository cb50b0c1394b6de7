//! From a pod to what a runtime is told. What is not known here is refused, so that
//! nothing of a rendered pod is left out unnoticed.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use k8s_cri::v1::security_profile::ProfileType;
use k8s_cri::v1::{
    Capability, ContainerConfig, ContainerMetadata, ImageSpec, Int64Value, KeyValue,
    LinuxContainerConfig, LinuxContainerResources, LinuxContainerSecurityContext, Mount,
    NamespaceMode, NamespaceOption, PodSandboxConfig, SecurityProfile,
};
use linkerd_cni_integration::node::NAME;
use serde_json::Value;

use super::Manifest;
use crate::machine::{ADDRESS, Machine};
use crate::pod::Pod;

const SPEC: &[&str] = &[
    "containers",
    "hostNetwork",
    "nodeSelector",
    "priorityClassName",
    "securityContext",
    "serviceAccountName",
    "terminationGracePeriodSeconds",
    "tolerations",
    "volumes",
];
const CONTAINER: &[&str] = &[
    "env",
    "image",
    "imagePullPolicy",
    "lifecycle",
    "livenessProbe",
    "name",
    "ports",
    "readinessProbe",
    "resources",
    "securityContext",
    "volumeMounts",
];
const CONTEXT: &[&str] = &[
    "allowPrivilegeEscalation",
    "capabilities",
    "privileged",
    "readOnlyRootFilesystem",
    "runAsGroup",
    "runAsUser",
];

/// Where kubelet mounts an account's token.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// What kubelet hides of /proc, and what it makes read-only, in a container that is
/// not privileged.
const MASKED: [&str; 10] = [
    "/proc/asound",
    "/proc/acpi",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
];
const READ_ONLY: [&str; 5] = [
    "/proc/bus",
    "/proc/fs",
    "/proc/irq",
    "/proc/sys",
    "/proc/sysrq-trigger",
];

/// The pod's sandbox.
pub(super) fn sandbox(
    manifest: &Manifest,
    name: &str,
    machine: &Machine,
    directory: &Path,
) -> PodSandboxConfig {
    known(manifest.spec(), SPEC);
    let mut pod = Pod::named(manifest.namespace(), name);
    if is_on_host_network(manifest) {
        pod = pod.host_network();
    }
    let mut config = pod.config(&machine.cgroup());
    config.log_directory = directory.join("log").display().to_string();
    if !is_on_host_network(manifest) {
        name.clone_into(&mut config.hostname);
    }
    let linux = config.linux.as_mut().expect("it is for Linux");
    let context = linux.security_context.as_mut().expect("there is one");
    // Kubelet gives this to every sandbox.
    context.seccomp = Some(profile(ProfileType::RuntimeDefault));
    config
}

/// The pod's container.
pub(super) fn container(
    manifest: &Manifest,
    name: &str,
    machine: &Machine,
    directory: &Path,
) -> ContainerConfig {
    let container = manifest.container();
    known(&container, CONTAINER);
    let text = |key: &str| container[key].as_str().expect("a text").to_owned();
    ContainerConfig {
        metadata: Some(ContainerMetadata {
            name: text("name"),
            attempt: 0,
        }),
        image: Some(ImageSpec {
            image: text("image"),
            ..ImageSpec::default()
        }),
        envs: environment(manifest, name, machine),
        mounts: mounts(manifest, machine, directory),
        log_path: "0.log".to_owned(),
        linux: Some(LinuxContainerConfig {
            resources: Some(resources(manifest)),
            security_context: Some(security_context(manifest)),
        }),
        ..ContainerConfig::default()
    }
}

/// What every container is told of the API server's service, and what the pod says.
fn environment(manifest: &Manifest, name: &str, machine: &Machine) -> Vec<KeyValue> {
    let pair = |key: &str, value: &str| KeyValue {
        key: key.to_owned(),
        value: value.to_owned(),
    };
    let port = machine.api.address().port().to_string();
    let mut pairs = vec![
        pair("KUBERNETES_SERVICE_HOST", ADDRESS),
        pair("KUBERNETES_SERVICE_PORT", &port),
    ];
    let container = manifest.container();
    for variable in list(&container["env"]) {
        let key = variable["name"].as_str().expect("a name");
        pairs.push(pair(key, value(variable, manifest, name)));
    }
    pairs
}

fn value<'a>(variable: &'a Value, manifest: &'a Manifest, name: &'a str) -> &'a str {
    if let Some(value) = variable["value"].as_str() {
        return value;
    }
    let from = &variable["valueFrom"];
    if let Some(key) = from["configMapKeyRef"]["key"].as_str() {
        return manifest.setting(key);
    }
    match from["fieldRef"]["fieldPath"].as_str() {
        Some("metadata.name") => name,
        Some("metadata.namespace") => manifest.namespace(),
        Some("spec.nodeName") => NAME,
        _ => panic!("where does it come from? {variable}"),
    }
}

/// The pod's volumes, and its account's token.
fn mounts(manifest: &Manifest, machine: &Machine, directory: &Path) -> Vec<Mount> {
    let container = manifest.container();
    let mount = |mount: &Value| {
        known(mount, &["mountPath", "name"]);
        let mut volumes = list(&manifest.spec()["volumes"]);
        let volume = volumes.find(|volume| volume["name"] == mount["name"]);
        Mount {
            container_path: mount["mountPath"].as_str().expect("a path").to_owned(),
            host_path: source(volume.expect("it is there"), machine, directory),
            ..Mount::default()
        }
    };
    let account = Mount {
        container_path: ACCOUNT.to_owned(),
        host_path: machine.node.service_account().display().to_string(),
        readonly: true,
        ..Mount::default()
    };
    let volumes = list(&container["volumeMounts"]).map(mount);
    volumes.chain([account]).collect()
}

/// A volume's directory on the node, made if kubelet makes it.
fn source(volume: &Value, machine: &Machine, directory: &Path) -> String {
    if let Some(path) = volume["hostPath"]["path"].as_str() {
        match volume["hostPath"]["type"].as_str() {
            Some("DirectoryOrCreate") => {
                fs::create_dir_all(machine.namespaces.path(path)).unwrap();
            }
            None => {}
            kind => panic!("which is it? {kind:?}"),
        }
        return path.to_owned();
    }
    assert!(volume["emptyDir"].is_object(), "which is it? {volume}");
    let empty = directory.join(volume["name"].as_str().expect("a name"));
    fs::create_dir_all(&empty).unwrap();
    fs::set_permissions(&empty, Permissions::from_mode(0o777)).unwrap();
    empty.display().to_string()
}

fn security_context(manifest: &Manifest) -> LinuxContainerSecurityContext {
    let context = &manifest.container()["securityContext"];
    known(context, CONTEXT);
    let is = |key: &str| context[key] == true;
    let id = |key: &str| context[key].as_i64().map(|value| Int64Value { value });
    let names = |key: &str| {
        let names = list(&context["capabilities"][key]);
        names.map(|name| name.as_str().expect("a name").to_owned())
    };
    let privileged = is("privileged");
    let owned = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect();
    LinuxContainerSecurityContext {
        capabilities: Some(Capability {
            add_capabilities: names("add").collect(),
            drop_capabilities: names("drop").collect(),
            ..Capability::default()
        }),
        privileged,
        namespace_options: Some(namespaces(manifest)),
        run_as_user: id("runAsUser"),
        run_as_group: id("runAsGroup"),
        readonly_rootfs: is("readOnlyRootFilesystem"),
        no_new_privs: context["allowPrivilegeEscalation"] == false,
        masked_paths: if privileged { vec![] } else { owned(&MASKED) },
        readonly_paths: if privileged {
            vec![]
        } else {
            owned(&READ_ONLY)
        },
        seccomp: Some(profile(seccomp(manifest))),
        ..LinuxContainerSecurityContext::default()
    }
}

fn namespaces(manifest: &Manifest) -> NamespaceOption {
    let network = if is_on_host_network(manifest) {
        NamespaceMode::Node
    } else {
        NamespaceMode::Pod
    };
    NamespaceOption {
        network: network.into(),
        pid: NamespaceMode::Container.into(),
        ..NamespaceOption::default()
    }
}

/// The profile that the pod asks for; kubelet gives none by itself.
fn seccomp(manifest: &Manifest) -> ProfileType {
    let context = &manifest.spec()["securityContext"];
    match context["seccompProfile"]["type"].as_str() {
        Some("RuntimeDefault") => ProfileType::RuntimeDefault,
        None => ProfileType::Unconfined,
        kind => panic!("which is it? {kind:?}"),
    }
}

fn profile(kind: ProfileType) -> SecurityProfile {
    SecurityProfile {
        profile_type: kind.into(),
        ..SecurityProfile::default()
    }
}

/// As kubelet reckons: a thousandth of a processor is 100 of a period of 100000.
fn resources(manifest: &Manifest) -> LinuxContainerResources {
    let container = manifest.container();
    let quantity = |kind: &str, name: &str, unit: &str| {
        let text = container["resources"][kind][name].as_str()?;
        let number = text.strip_suffix(unit).and_then(|n| n.parse::<i64>().ok());
        Some(number.unwrap_or_else(|| panic!("how much is {text}?")))
    };
    let critical = manifest.spec()["priorityClassName"] == "system-node-critical";
    LinuxContainerResources {
        cpu_period: 100_000,
        cpu_quota: quantity("limits", "cpu", "m").map_or(0, |cpu| cpu * 100),
        cpu_shares: quantity("requests", "cpu", "m").map_or(2, |cpu| cpu * 1024 / 1000),
        memory_limit_in_bytes: quantity("limits", "memory", "Mi").map_or(0, |size| size << 20),
        oom_score_adj: if critical { -997 } else { 1000 },
        ..LinuxContainerResources::default()
    }
}

fn is_on_host_network(manifest: &Manifest) -> bool {
    manifest.spec()["hostNetwork"] == true
}

fn known(object: &Value, keys: &[&str]) {
    for key in object.as_object().expect("an object").keys() {
        assert!(keys.contains(&key.as_str()), "what is {key}? {object}");
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}
