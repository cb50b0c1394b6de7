//! A socket of ours on the host.

use std::{
    fs::{self, Permissions},
    io,
    os::unix::{
        fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _},
        net::UnixDatagram,
    },
    path::{Path, PathBuf},
};

use super::{FileError, TEMPORARY, error::Context as _};

/// A datagram socket under its name; the name goes with it.
#[derive(Debug)]
pub struct Bound {
    /// What is received from.
    pub socket: UnixDatagram,
    path: PathBuf,
    identity: (u64, u64),
}

/// Binds a socket for root alone, in place of a stale one. It is bound under another name and
/// renamed, so that nobody finds none, or one with a wider mode.
///
/// # Errors
///
/// The directory is not there, or the name is taken by something that is no socket.
pub fn bind(path: &Path) -> Result<Bound, FileError> {
    let dir = super::directory(path);
    make_private(dir)?;
    if fs::symlink_metadata(path).is_ok_and(|m| !m.file_type().is_socket()) {
        let other = io::Error::other("something is there that is no socket; remove it");
        return Err(other).doing("replacing", path);
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = dir.join(format!(".{name}{TEMPORARY}"));
    // Left by an installer that was killed just then.
    let _ = fs::remove_file(&temporary);
    let socket = UnixDatagram::bind(&temporary).doing("making the socket", path)?;
    let placed = fs::set_permissions(&temporary, Permissions::from_mode(0o600))
        .and_then(|()| fs::rename(&temporary, path))
        .and_then(|()| identity(path));
    if placed.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    Ok(Bound {
        socket,
        path: path.to_owned(),
        identity: placed.doing("making the socket", path)?,
    })
}

/// Whether somebody listens on a socket.
#[must_use]
pub fn is_listened_to(path: &Path) -> bool {
    UnixDatagram::unbound().is_ok_and(|socket| socket.connect(path).is_ok())
}

/// Kubelet makes a missing hostPath directory with mode 0755.
fn make_private(dir: &Path) -> Result<(), FileError> {
    let metadata = fs::symlink_metadata(dir).doing("looking at", dir)?;
    if !metadata.is_dir() {
        return Err(io::Error::from(io::ErrorKind::NotADirectory)).doing("looking at", dir);
    }
    if metadata.mode() & 0o777 == 0o700 {
        return Ok(());
    }
    fs::set_permissions(dir, Permissions::from_mode(0o700)).doing("setting the mode of", dir)
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|m| (m.dev(), m.ino()))
}

// === impl Bound ===

impl Bound {
    /// Whether it still has its name.
    #[must_use]
    pub fn is_in_place(&self) -> bool {
        identity(&self.path).is_ok_and(|found| found == self.identity)
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        // The next installer may have taken the name over.
        if self.is_in_place() {
            let _ = fs::remove_file(&self.path);
        }
    }
}
