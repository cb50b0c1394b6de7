//! What can go wrong in writing, and what is the likely cause.

use std::{
    io,
    path::{Path, PathBuf},
};

use nix::errno::Errno;

/// A step that failed, or that had to be given up.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The system refused.
    #[error("{doing} {}: {source}{}", .path.display(), hint(.source))]
    Io {
        /// Which step.
        doing: &'static str,
        /// On which file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another writer was there between reading and writing: read again.
    #[error("{} changed or vanished while it was edited", .0.display())]
    Changed(PathBuf),
}

// === impl FileError ===

impl FileError {
    /// Whether something is simply not there.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// Whether reading again is all that is needed.
    #[must_use]
    pub fn is_change(&self) -> bool {
        matches!(self, Self::Changed(_))
    }
}

pub(super) trait Context<T> {
    fn doing(self, doing: &'static str, path: &Path) -> Result<T, FileError>;
}

impl<T> Context<T> for io::Result<T> {
    fn doing(self, doing: &'static str, path: &Path) -> Result<T, FileError> {
        self.map_err(|source| FileError::Io {
            doing,
            path: path.to_owned(),
            source,
        })
    }
}

impl<T> Context<T> for rustix::io::Result<T> {
    fn doing(self, doing: &'static str, path: &Path) -> Result<T, FileError> {
        self.map_err(io::Error::from).doing(doing, path)
    }
}

fn hint(error: &io::Error) -> &'static str {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EROFS) => {
            "; the file system is read-only: is the volume mounted with readOnly, or the host's disk in error?"
        }
        Some(Errno::EACCES) => {
            "; probably SELinux or missing privileges: look for `avc: denied` on the host, and at the container's securityContext"
        }
        Some(Errno::EPERM) => {
            "; probably missing capabilities, a user namespace, or an immutable file (lsattr)"
        }
        Some(Errno::ENOENT | Errno::ENOTDIR) => {
            "; probably a missing mount: is the hostPath volume there?"
        }
        Some(Errno::EBUSY) => {
            "; probably a mount point itself, which cannot be replaced: unmount it, and mount or link the directory it lies in instead of this one file"
        }
        Some(Errno::ENOSPC | Errno::EDQUOT) => "; the disk is full",
        Some(Errno::EMFILE | Errno::ENFILE) => "; too many open files",
        _ => "",
    }
}
