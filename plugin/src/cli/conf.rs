//! Our entry in the node's CNI configuration.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::cni::NetworkConfig;

/// Our entry, and the file that it stands in.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) file: PathBuf,
    pub(super) config: NetworkConfig,
}

/// Our entry in the first configuration of a directory that has one, in the order in which
/// runtimes read them.
///
/// # Errors
/// There is none; a sentence that says what to do.
pub(super) fn find(directory: &Path) -> Result<Entry, String> {
    let entries = fs::read_dir(directory)
        .map_err(|error| format!("{} cannot be read: {error}", directory.display()))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| is_configuration(file));
    files.sort();
    let mut found = files.into_iter().filter_map(|file| read(&file).ok());
    found.next().ok_or_else(|| {
        format!(
            "no configuration in {} has an entry of linkerd-cni; linkerd-cni-installer adds it, is \
             its pod running on this node?",
            directory.display()
        )
    })
}

/// Our entry in a file: a list with an entry of ours, or a configuration of its own.
///
/// # Errors
/// There is none; a sentence that says why.
pub(super) fn read(file: &Path) -> Result<Entry, String> {
    let failed = |why: String| format!("{}: {why}", file.display());
    let text = fs::read(file).map_err(|error| failed(error.to_string()))?;
    let conf: Value =
        serde_json::from_slice(&text).map_err(|error| failed(format!("not JSON: {error}")))?;
    let entry = entry(&conf).ok_or_else(|| {
        failed("no entry of type linkerd-cni and no linkerd object in it".to_owned())
    })?;
    let config = NetworkConfig::parse(entry.to_string().as_bytes());
    Ok(Entry {
        file: file.to_owned(),
        config: config.map_err(|error| failed(error.to_string()))?,
    })
}

fn entry(conf: &Value) -> Option<&Value> {
    let entries = conf["plugins"].as_array().into_iter().flatten();
    let ours = entries.filter(|entry| entry["type"] == "linkerd-cni");
    ours.chain([conf])
        .find(|entry| entry.get("linkerd").is_some())
}

/// The names that libcni looks at.
fn is_configuration(file: &Path) -> bool {
    let extension = file.extension().and_then(|extension| extension.to_str());
    matches!(extension, Some("conf" | "conflist" | "json")) && file.is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINKERD: &str = r#""linkerd":{"incoming-proxy-port":4143,"outgoing-proxy-port":4140}"#;

    fn write(directory: &Path, name: &str, text: &str) {
        fs::write(directory.join(name), text).unwrap();
    }

    #[test]
    fn the_first_configuration_with_an_entry_of_ours_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        assert!(
            find(path)
                .unwrap_err()
                .contains("has an entry of linkerd-cni")
        );
        write(path, "05-broken.conflist", "{");
        write(
            path,
            "06-other.conflist",
            r#"{"plugins":[{"type":"bridge"}]}"#,
        );
        write(path, "00-kubeconfig", "{}");
        let list = format!(r#"{{"plugins":[{{"type":"x"}},{{"type":"linkerd-cni",{LINKERD}}}]}}"#);
        write(path, "10-net.conflist", &list);
        write(
            path,
            "20-own.conf",
            &format!(r#"{{"type":"linkerd-cni",{LINKERD}}}"#),
        );
        let found = find(path).unwrap();
        assert!(found.file.ends_with("10-net.conflist"));
        assert!(found.config.linkerd().is_ok());
        assert!(
            find(&path.join("none"))
                .unwrap_err()
                .contains("cannot be read")
        );
    }
}
