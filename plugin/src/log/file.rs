//! A log file that does not grow without end, written by many processes at once.
//!
//! Nothing here may hold up a pod: the file is opened anew for each line, no lock is waited for,
//! and a failure is one line on standard error.

use std::{
    fs::{self, File, Metadata, OpenOptions, TryLockError},
    io::{self, ErrorKind, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::PathBuf,
};

use nix::libc::{O_NOCTTY, O_NOFOLLOW, O_NONBLOCK};
use proxy_init_rules::LogFile;

/// Appends a line. The file that is full becomes `PATH.1`, in place of an earlier one.
///
/// # Errors
/// The line is not in the file, or not whole.
pub(super) fn append(to: &LogFile, line: &[u8]) -> io::Result<()> {
    let mut file = open(to)?;
    if is_full(to, &file.metadata()?, line) && rotate(to, &file)? {
        file = open(to)?;
    }
    // One call: the kernel appends it as a whole, beside what other processes append.
    let written = file.write(line)?;
    if written < line.len() {
        return Err(ErrorKind::StorageFull.into());
    }
    Ok(())
}

/// Never waits, whatever is there: a FIFO without a reader, a terminal.
fn open(to: &LogFile) -> io::Result<File> {
    let file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(O_NOFOLLOW | O_NONBLOCK | O_NOCTTY)
        .open(&to.path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    Ok(file)
}

fn is_full(to: &LogFile, file: &Metadata, line: &[u8]) -> bool {
    let length = u64::try_from(line.len()).unwrap_or(u64::MAX);
    file.len() > 0 && file.len().saturating_add(length) > to.max_bytes
}

/// Whether there is another file now, made by this process or by another one. If another one is
/// at it, the line goes into the old file: none is lost.
fn rotate(to: &LogFile, file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(false),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let ours = file.metadata()?;
    let is_ours = |there: Metadata| (there.dev(), there.ino()) == (ours.dev(), ours.ino());
    if fs::symlink_metadata(&to.path).is_ok_and(is_ours) {
        fs::rename(&to.path, former(to))?;
    }
    Ok(true)
}

fn former(to: &LogFile) -> PathBuf {
    let mut path = to.path.clone().into_os_string();
    path.push(".1");
    path.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_file_becomes_the_former_one() {
        let directory = tempfile::tempdir().unwrap();
        let to = LogFile {
            path: directory.path().join("cni.log"),
            max_bytes: 10,
        };
        let held = || {
            let read = |path: PathBuf| fs::read_to_string(path).unwrap_or_default();
            (read(to.path.clone()), read(former(&to)))
        };
        for line in ["12345\n", "678\n", "a line of its own\n", "9\n"] {
            append(&to, line.as_bytes()).unwrap();
        }
        assert_eq!(held(), ("9\n".into(), "a line of its own\n".into()));
        // Somebody is at it: nothing is waited for, and the line is not lost.
        let other = File::open(&to.path).unwrap();
        other.lock().unwrap();
        append(&to, b"while it is locked\n").unwrap();
        assert_eq!(held().0, "9\nwhile it is locked\n");
        drop(other);
        append(&to, b"x\n").unwrap();
        assert_eq!(held(), ("x\n".into(), "9\nwhile it is locked\n".into()));
    }

    #[test]
    fn who_opened_the_file_before_it_was_renamed_does_not_rename_the_next_one() {
        let directory = tempfile::tempdir().unwrap();
        let to = LogFile {
            path: directory.path().join("cni.log"),
            max_bytes: 10,
        };
        append(&to, b"old\n").unwrap();
        let opened = open(&to).unwrap();
        assert!(rotate(&to, &opened).unwrap());
        append(&to, b"new\n").unwrap();
        assert!(rotate(&to, &opened).unwrap());
        assert_eq!(fs::read_to_string(&to.path).unwrap(), "new\n");
        assert_eq!(fs::read_to_string(former(&to)).unwrap(), "old\n");
    }

    #[test]
    fn what_is_no_file_is_refused_without_a_wait() {
        let directory = tempfile::tempdir().unwrap();
        let fifo = directory.path().join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let link = directory.path().join("link");
        std::os::unix::fs::symlink("/dev/null", &link).unwrap();
        let missing = directory.path().join("a/b");
        for path in [fifo, link, missing, "/dev/null".into(), "/".into()] {
            let to = LogFile {
                path,
                max_bytes: 10,
            };
            assert!(append(&to, b"x\n").is_err(), "{to:?}");
        }
    }
}
