//! The only writer.
//!
//! Everything that changes the node goes through here, each file in the same
//! way: a temporary one in the same directory, content, mode, owner and label,
//! fsync, rename, fsync of the directory (installer.md 3). So a reader never
//! sees half a file, and a power cut never leaves an empty one.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{self, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown},
    path::{Path, PathBuf},
};

use tempfile::{NamedTempFile, TempPath};

mod apply;
mod error;
mod executable;
mod leftovers;
mod socket;

pub use apply::apply;
pub use error::FileError;
pub use executable::{Intact, install_executable, is_intact, make_directory};
pub use leftovers::remove_leftovers;
pub use socket::{Bound, bind, is_listened_to};

use error::Context as _;

/// The extension of our temporary files, which no runtime reads.
pub const TEMPORARY: &str = ".linkerd-cni-tmp";

/// Whether a file of this name is a temporary one of ours.
#[must_use]
pub fn is_temporary(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| name.ends_with(TEMPORARY))
}

/// A host path as we see it. `Path::join` would drop the prefix, because host
/// paths are absolute.
#[must_use]
pub fn under(prefix: &Path, path: &Path) -> PathBuf {
    prefix.join(path.strip_prefix("/").unwrap_or(path))
}

/// Writes a file that is ours alone, such as the kubeconfig; the mode holds
/// whatever the umask.
///
/// # Errors
///
/// The step that failed; the file is then as it was.
pub fn write(path: &Path, text: &[u8], mode: u32) -> Result<(), FileError> {
    let mut new = temporary(path)?;
    new.as_file_mut().write_all(text).doing("writing", path)?;
    copy_label(new.as_file(), path);
    set_mode(new.as_file(), mode).doing("setting the mode of", path)?;
    put(closed(new, path)?, path)
}

/// Whether a file is a regular one with just this text and mode.
#[must_use]
pub fn holds(path: &Path, text: &[u8], mode: u32) -> bool {
    let regular = fs::symlink_metadata(path)
        .is_ok_and(|m| m.is_file() && m.mode() & 0o7777 == mode && m.len() == text.len() as u64);
    regular && fs::read(path).is_ok_and(|there| there == text)
}

/// Removes a file; one that is not there is no error. Says whether it was.
///
/// # Errors
///
/// The step that failed.
pub fn remove(path: &Path) -> Result<bool, FileError> {
    match fs::remove_file(path) {
        Ok(()) => sync_directory(path).map(|()| true),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e).doing("removing", path),
    }
}

/// Writes what `status` reads. It is for this container alone and need not
/// outlive it, so it is neither synced nor worth an error.
pub fn note(path: &Path, text: &str) -> io::Result<()> {
    if text.is_empty() {
        return fs::remove_file(path).or_else(|e| match e.kind() {
            io::ErrorKind::NotFound => Ok(()),
            _ => Err(e),
        });
    }
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    fs::write(path, text)
}

fn temporary(path: &Path) -> Result<NamedTempFile, FileError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    tempfile::Builder::new()
        .prefix(&format!(".{name}."))
        .suffix(TEMPORARY)
        // Not `tempfile_in`, whose errors have a random path in the place of
        // the errno: each would be a new one to say.
        .make_in(directory(path), |path| {
            File::options()
                .read(true)
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(path)
        })
        .doing("making a temporary file for", path)
}

/// Syncs and closes: a file that is open for writing cannot be executed
/// (ETXTBSY), not even under its new name.
fn closed(new: NamedTempFile, path: &Path) -> Result<TempPath, FileError> {
    new.as_file().sync_all().doing("syncing", path)?;
    Ok(new.into_temp_path())
}

fn put(new: TempPath, path: &Path) -> Result<(), FileError> {
    fs::rename(&new, path).doing("replacing", path)?;
    // The name is taken: there is nothing left to clean up.
    let _ = new.keep();
    sync_directory(path)
}

/// Makes a rename last.
fn sync_directory(path: &Path) -> Result<(), FileError> {
    let dir = directory(path);
    File::open(dir)
        .and_then(|dir| dir.sync_all())
        .doing("syncing the directory", dir)
}

fn directory(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}

fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    file.set_permissions(fs::Permissions::from_mode(mode & 0o7777))
}

/// Owner, mode and label of another file. Owner first: a change of owner
/// clears set-id bits.
fn take_after(new: &File, old: &Path) -> io::Result<()> {
    let metadata = fs::metadata(old)?;
    fchown(new, Some(metadata.uid()), Some(metadata.gid()))?;
    set_mode(new, metadata.mode())?;
    copy_label(new, old);
    Ok(())
}

/// A directory's default label is not always that of the file in it. Without
/// SELinux there is none, and a refusal leaves the default: neither keeps the
/// file from being written.
fn copy_label(new: &File, old: &Path) {
    const LABEL: &str = "security.selinux";
    let mut label = [0_u8; 256];
    if let Ok(length) = rustix::fs::getxattr(old, LABEL, &mut label[..]) {
        let _ = rustix::fs::fsetxattr(
            new,
            LABEL,
            &label[..length],
            rustix::fs::XattrFlags::empty(),
        );
    }
}

/// Whether two directories are one.
#[must_use]
pub fn same_directory(a: &Path, b: &Path) -> bool {
    let identity = |path: &Path| fs::metadata(path).map(|m| (m.dev(), m.ino())).ok();
    identity(a).is_some() && identity(a) == identity(b)
}

/// Whether we may write into a directory that is there, without trying.
///
/// # Errors
///
/// What the system says, with the likely cause.
pub fn may_write(dir: &Path) -> Result<(), FileError> {
    use rustix::fs::Access;
    rustix::fs::access(dir, Access::WRITE_OK | Access::EXEC_OK)
        .map_err(io::Error::from)
        .doing("writing into", dir)
}

/// The names of the regular files of a directory.
///
/// # Errors
///
/// The directory cannot be listed.
pub fn regular_files(dir: &Path) -> Result<Vec<PathBuf>, FileError> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).doing("listing", dir)? {
        let path = entry.doing("listing", dir)?.path();
        if fs::metadata(&path).is_ok_and(|m| m.is_file()) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
