//! What earlier versions, and earlier runs that were killed, left behind.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

use super::{FileError, error::Context as _, is_temporary, remove};

/// The head of every kubeconfig that this installer or its predecessor wrote.
const KUBECONFIG_HEAD: &[u8] = b"# Kubeconfig file for linkerd CNI plugin.";

/// Removes our temporaries, `.install` temporaries of earlier versions, and
/// kubeconfigs of ours under a name that is no longer used. Returns what went.
///
/// # Errors
///
/// The first that could not be removed.
pub fn remove_leftovers(dir: &Path, kubeconfig: &Path) -> Result<Vec<PathBuf>, FileError> {
    let mut removed = Vec::new();
    for entry in fs::read_dir(dir).doing("listing", dir)? {
        let entry = entry.doing("listing", dir)?;
        let path = entry.path();
        let file = entry.file_type().is_ok_and(|kind| kind.is_file());
        if file && path != kubeconfig && is_leftover(&entry.file_name(), &path) && remove(&path)? {
            removed.push(path);
        }
    }
    Ok(removed)
}

fn is_leftover(name: &OsStr, path: &Path) -> bool {
    let text = name.to_string_lossy();
    is_temporary(name)
        || text.ends_with(".install") && (text.contains("linkerd-cni") || mentions_us(path))
        || text.ends_with("kubeconfig") && starts_as_ours(path)
}

fn starts_as_ours(path: &Path) -> bool {
    fs::read(path).is_ok_and(|text| text.starts_with(KUBECONFIG_HEAD))
}

fn mentions_us(path: &Path) -> bool {
    const NAME: &[u8] = b"\"linkerd-cni\"";
    let small = fs::metadata(path).is_ok_and(|m| m.len() < 1 << 20);
    small && fs::read(path).is_ok_and(|text| text.windows(NAME.len()).any(|w| w == NAME))
}
