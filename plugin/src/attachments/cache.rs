//! What libcni remembers of the attachments that it made: `/var/lib/cni/results/` and its like,
//! a JSON file each (libcni/api.go, `cachedInfo`).

use std::{
    fs,
    net::IpAddr,
    path::{Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Deserialize;
use serde_json::Value;

use crate::cni::PodRef;

/// Larger files are something else.
const MOST_BYTES: u64 = 1 << 20;

/// An attachment that libcni remembers.
#[derive(Debug)]
pub(super) struct Cached {
    pub(super) container_id: String,
    pub(super) ifname: String,
    pub(super) pod: Option<PodRef>,
    /// Whether the runtime's arguments say that it is no pod of Kubernetes.
    pub(super) is_no_pod: bool,
    pub(super) netns: Option<PathBuf>,
    pub(super) addresses: Vec<IpAddr>,
    pub(super) was_chained: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    kind: String,
    container_id: String,
    if_name: String,
    #[serde(default)]
    config: String,
    #[serde(default)]
    cni_args: Option<Vec<(String, String)>>,
    /// Since libcni 1.2.
    #[serde(default)]
    netns: Option<PathBuf>,
    #[serde(default)]
    result: Value,
}

/// Everything that is remembered below a directory. Files of others, and those that cannot be
/// read, are passed over.
pub(super) fn read(directory: &Path) -> Vec<Cached> {
    let mut files = Vec::new();
    for path in entries(directory) {
        if path.is_dir() {
            files.extend(entries(&path));
        } else {
            files.push(path);
        }
    }
    files.sort();
    files.iter().filter_map(|file| cached(file)).collect()
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

fn cached(path: &Path) -> Option<Cached> {
    let metadata = path.metadata().ok()?;
    if !metadata.is_file() || metadata.len() > MOST_BYTES {
        return None;
    }
    let file: File = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    (file.kind == "cniCacheV1").then(|| Cached::from(file))
}

impl From<File> for Cached {
    fn from(file: File) -> Self {
        let sandbox = || sandbox(&file.result);
        let args = file.cni_args.unwrap_or_default();
        let pairs = args.iter().map(|(key, value)| (&**key, &**value));
        let pod = PodRef::read(pairs).unwrap_or_default();
        Self {
            is_no_pod: pod.is_none() && !args.is_empty(),
            pod,
            netns: file.netns.clone().or_else(sandbox),
            addresses: addresses(&file.result),
            was_chained: was_chained(&file.config),
            container_id: file.container_id,
            ifname: file.if_name,
        }
    }
}

/// The namespace of the interface inside the container, if the plugin told it.
fn sandbox(result: &Value) -> Option<PathBuf> {
    let interfaces = result["interfaces"].as_array()?;
    let sandboxes = interfaces.iter().filter_map(|one| one["sandbox"].as_str());
    sandboxes
        .filter(|path| path.starts_with('/'))
        .map(PathBuf::from)
        .next()
}

fn addresses(result: &Value) -> Vec<IpAddr> {
    let ips = result["ips"].as_array().into_iter().flatten();
    let addresses = ips.filter_map(|ip| ip["address"].as_str());
    addresses
        .filter_map(|address| address.split('/').next()?.parse().ok())
        .collect()
}

/// Whether linkerd-cni was in the list of plugins.
fn was_chained(config: &str) -> Option<bool> {
    let text = STANDARD.decode(config).ok()?;
    let list: Value = serde_json::from_slice(&text).ok()?;
    let plugins = list["plugins"].as_array()?;
    Some(plugins.iter().any(|plugin| plugin["type"] == "linkerd-cni"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn written(file: &Value) -> Vec<Cached> {
        let directory = tempfile::tempdir().unwrap();
        let results = directory.path().join("results");
        fs::create_dir(&results).unwrap();
        fs::write(results.join("net-c1-eth0"), file.to_string()).unwrap();
        fs::write(directory.path().join("lock"), "").unwrap();
        fs::write(results.join("other"), "[1]").unwrap();
        read(directory.path())
    }

    fn file() -> Value {
        json!({
            "kind": "cniCacheV1", "containerId": "c1", "ifName": "eth0", "networkName": "net",
            "config": STANDARD.encode(r#"{"plugins":[{"type":"bridge"},{"type":"linkerd-cni"}]}"#),
            "cniArgs": [["IgnoreUnknown", "1"], ["K8S_POD_NAMESPACE", "ns"], ["K8S_POD_NAME", "web"]],
            "result": {"ips": [{"address": "10.0.0.2/24"}, {"address": "fd00::2/64"}],
                       "interfaces": [{"name": "veth1"}, {"name": "eth0", "sandbox": "/run/netns/a"}]},
        })
    }

    #[test]
    fn an_attachment_is_read_as_libcni_writes_it() {
        let found = written(&file());
        let [cached] = found.as_slice() else {
            panic!("{found:?}");
        };
        let pod = cached.pod.as_ref().map(ToString::to_string);
        assert_eq!(pod.as_deref(), Some("ns/web"));
        assert_eq!(cached.netns.as_deref(), Some(Path::new("/run/netns/a")));
        assert_eq!(cached.was_chained, Some(true));
        assert_eq!(cached.addresses.len(), 2);
    }

    #[test]
    fn a_container_of_podman_is_known_for_no_pod() {
        for args in [
            json!([
                ["K8S_POD_NAMESPACE", "nifty_pasteur"],
                ["K8S_POD_NAME", "nifty_pasteur"]
            ]),
            json!([["IgnoreUnknown", "1"], ["K8S_POD_NAME", "web"]]),
        ] {
            let mut file = file();
            file["cniArgs"] = args;
            let found = written(&file);
            assert!(found[0].pod.is_none() && found[0].is_no_pod, "{found:?}");
        }
        assert!(!written(&file())[0].is_no_pod);
    }

    #[test]
    fn what_is_missing_is_unknown() {
        let mut file = file();
        for key in ["cniArgs", "result", "config"] {
            file.as_object_mut().unwrap().remove(key);
        }
        file["netns"] = json!("/run/netns/b");
        let found = written(&file);
        assert!(found[0].pod.is_none() && found[0].was_chained.is_none());
        assert!(!found[0].is_no_pod);
        assert_eq!(found[0].netns.as_deref(), Some(Path::new("/run/netns/b")));
        file["kind"] = json!("other");
        assert!(written(&file).is_empty());
    }
}
