//! Carries out one change in the configuration directory.

use std::{
    ffi::OsStr,
    fs,
    io::{self, Write as _},
    os::unix::fs::MetadataExt as _,
    path::Path,
};

use rustix::{
    fs::{CWD, RenameFlags, renameat_with},
    io::Errno,
};
use tempfile::TempPath;

use super::{
    FileError, closed, error::Context as _, remove, sync_directory, take_after, temporary,
};
use crate::{
    plan::{Change, Found},
    snapshot::{Seen, Signature, Snapshot, resolve},
};

/// Carries a change out, provided that the file is as it was in the snapshot.
///
/// # Errors
///
/// [`FileError::Changed`] if it is not, and otherwise the step that failed.
/// In both cases the file is as its last other writer left it.
pub fn apply(
    dir: &Path,
    prefix: &Path,
    snapshot: &Snapshot,
    change: &Change,
) -> Result<(), FileError> {
    match change {
        Change::Rewrite { file, text } | Change::TakeOut { file, text } => {
            let seen = unchanged(dir, prefix, snapshot, file)?;
            let before = snapshot
                .files
                .get(file)
                .and_then(Found::text)
                .unwrap_or_default();
            rewrite(seen, before, text)
        }
        Change::Create { file, text, like } => {
            let seen = unchanged(dir, prefix, snapshot, like)?;
            create(&dir.join(file), text, &seen.target)
        }
        Change::SetAside { single, original } => {
            let seen = unchanged(dir, prefix, snapshot, single)?;
            set_aside(&dir.join(single), &dir.join(original), seen)
        }
        Change::PutBack { original, single } => {
            let seen = unchanged(dir, prefix, snapshot, original)?;
            let text = snapshot
                .files
                .get(original)
                .and_then(Found::text)
                .unwrap_or_default();
            put_back(&dir.join(original), &dir.join(single), text, seen)
        }
        Change::Delete { file } => {
            unchanged(dir, prefix, snapshot, file)?;
            remove(&dir.join(file)).map(|_| ())
        }
    }
}

/// The file as it was seen, if it still leads to the same file in the same
/// state.
fn unchanged<'a>(
    dir: &Path,
    prefix: &Path,
    snapshot: &'a Snapshot,
    file: &OsStr,
) -> Result<&'a Seen, FileError> {
    let path = dir.join(file);
    let now =
        resolve(&path, prefix).and_then(|target| Ok((fs::symlink_metadata(&target)?, target)));
    match (snapshot.seen(file), now) {
        (Some(seen), Ok((metadata, target)))
            if seen.target == target && seen.signature == Signature::of(&metadata) =>
        {
            Ok(seen)
        }
        (_, Err(e)) if e.kind() != io::ErrorKind::NotFound => Err(e).doing("looking at", &path),
        _ => Err(FileError::Changed(path)),
    }
}

/// Gives a file another text. A link stays, the file behind it is replaced: a
/// link that is swapped (`..data`) must not become a file.
fn rewrite(seen: &Seen, before: &[u8], text: &[u8]) -> Result<(), FileError> {
    let path = &seen.target;
    let mut new = temporary(path)?;
    new.as_file_mut().write_all(text).doing("writing", path)?;
    take_after(new.as_file(), path).doing("copying mode and owner of", path)?;
    let ours = new.as_file().metadata().doing("looking at", path)?.ino();
    let new = closed(new, path)?;
    match exchange(&new, path) {
        Ok(()) => keep_or_return(&new, ours, seen, before)?,
        Err(Errno::NOENT) => return Err(FileError::Changed(path.clone())),
        // NFS and some FUSE file systems cannot exchange two names.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => replace(&new, seen)?,
        Err(e) => return Err(e).doing("replacing", path),
    }
    // The former file, which now bears the temporary name, goes.
    drop(new);
    sync_directory(path)
}

/// Unlike a plain rename, an exchange fails if the file has vanished, and what
/// it replaced can still be looked at.
fn exchange(a: &Path, b: &Path) -> Result<(), Errno> {
    renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE)
}

/// If what was replaced is not what was read, another writer came in between:
/// theirs goes back to its place.
fn keep_or_return(
    replaced: &TempPath,
    ours: u64,
    seen: &Seen,
    before: &[u8],
) -> Result<(), FileError> {
    let unchanged = fs::symlink_metadata(replaced)
        .is_ok_and(|m| seen.signature.same_content(&Signature::of(&m)))
        && fs::read(replaced).is_ok_and(|text| text == before);
    if unchanged {
        return Ok(());
    }
    give_back(replaced, ours, &seen.target)?;
    Err(FileError::Changed(seen.target.clone()))
}

/// Puts the newest file of others in its place. Each exchange may bring out
/// one that is newer still, until it brings out what we put there ourselves.
fn give_back(newest: &TempPath, ours: u64, path: &Path) -> Result<(), FileError> {
    let number = || fs::symlink_metadata(newest).map(|m| m.ino());
    let mut placed = ours;
    loop {
        let next = number().doing("looking at", newest)?;
        match exchange(newest, path) {
            // Removed meanwhile, and so was what they had written.
            Err(Errno::NOENT) => return Ok(()),
            result => result.doing("putting back", path)?,
        }
        if number().doing("looking at", newest)? == placed {
            return Ok(());
        }
        placed = next;
    }
}

fn replace(new: &TempPath, seen: &Seen) -> Result<(), FileError> {
    let path = &seen.target;
    match fs::symlink_metadata(path) {
        Ok(metadata) if seen.signature == Signature::of(&metadata) => {
            fs::rename(new, path).doing("replacing", path)
        }
        _ => Err(FileError::Changed(path.clone())),
    }
}

fn create(path: &Path, text: &[u8], like: &Path) -> Result<(), FileError> {
    let mut new = temporary(path)?;
    new.as_file_mut().write_all(text).doing("writing", path)?;
    take_after(new.as_file(), like).doing("copying mode and owner of", like)?;
    match closed(new, path)?.persist_noclobber(path) {
        Ok(()) => sync_directory(path),
        Err(e) if e.error.kind() == io::ErrorKind::AlreadyExists => {
            Err(FileError::Changed(path.to_owned()))
        }
        Err(e) => Err(e.error).doing("making", path),
    }
}

/// Moves a file aside. If what was moved turns out to be newer than what was
/// read, it goes back to its place, and the older one aside is still there.
fn set_aside(from: &Path, to: &Path, seen: &Seen) -> Result<(), FileError> {
    let between = temporary(to)?.into_temp_path();
    fs::rename(from, &between).doing("moving aside", from)?;
    if !is_seen(&between, seen) {
        return match renameat_with(CWD, &*between, CWD, from, RenameFlags::NOREPLACE) {
            // There is one that is newer still.
            Ok(()) | Err(Errno::EXIST) => Err(FileError::Changed(from.to_owned())),
            Err(e) => Err(e).doing("putting back", from),
        };
    }
    fs::rename(&between, to).doing("moving aside", from)?;
    sync_directory(to)
}

/// Of a link it is the link that moved; the file behind it stays.
fn is_seen(moved: &Path, seen: &Seen) -> bool {
    let metadata = fs::symlink_metadata(moved).and_then(|m| match m.is_symlink() {
        true => fs::symlink_metadata(&seen.target),
        false => Ok(m),
    });
    metadata.is_ok_and(|m| seen.signature.same_content(&Signature::of(&m)))
}

fn put_back(original: &Path, single: &Path, text: &[u8], seen: &Seen) -> Result<(), FileError> {
    match fs::hard_link(original, single) {
        Ok(()) => sync_directory(single),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            Err(FileError::Changed(single.to_owned()))
        }
        // A file system without links.
        Err(e)
            if matches!(
                e.raw_os_error().map(Errno::from_raw_os_error),
                Some(Errno::PERM | Errno::NOTSUP | Errno::MLINK)
            ) =>
        {
            create(single, text, &seen.target)
        }
        Err(e) => Err(e).doing("putting back", single),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    const BEFORE: &str = "before";

    /// A directory with one file, as it was read, and a change of it.
    fn directory() -> (tempfile::TempDir, Snapshot, Change) {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a"), BEFORE).unwrap();
        let snapshot = Snapshot::read(dir.path(), Path::new("/"), |_| true).unwrap();
        let change = Change::Rewrite {
            file: OsString::from("a"),
            text: b"after".to_vec(),
        };
        (dir, snapshot, change)
    }

    fn names(dir: &Path) -> Vec<OsString> {
        fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect()
    }

    #[test]
    fn what_is_as_it_was_read_is_rewritten() {
        let (dir, snapshot, change) = directory();
        apply(dir.path(), Path::new("/"), &snapshot, &change).unwrap();
        assert_eq!(fs::read_to_string(dir.path().join("a")).unwrap(), "after");
        assert_eq!(names(dir.path()), ["a"]);
    }

    #[test]
    fn what_changed_or_vanished_since_is_left() {
        let (dir, snapshot, change) = directory();
        fs::write(dir.path().join("a"), "theirs").unwrap();
        assert!(
            apply(dir.path(), Path::new("/"), &snapshot, &change)
                .unwrap_err()
                .is_change()
        );
        assert_eq!(fs::read_to_string(dir.path().join("a")).unwrap(), "theirs");
        fs::remove_file(dir.path().join("a")).unwrap();
        assert!(
            apply(dir.path(), Path::new("/"), &snapshot, &change)
                .unwrap_err()
                .is_change()
        );
        assert!(names(dir.path()).is_empty());
    }

    /// The same, but in the moment between the look and the exchange.
    #[test]
    fn what_changes_in_the_last_moment_goes_back_to_its_place() {
        let (dir, snapshot, _) = directory();
        let seen = snapshot.seen(OsStr::new("a")).unwrap();
        fs::write(&seen.target, "theirs").unwrap();
        assert!(
            rewrite(seen, BEFORE.as_bytes(), b"after")
                .unwrap_err()
                .is_change()
        );
        assert_eq!(fs::read_to_string(&seen.target).unwrap(), "theirs");
        fs::remove_file(&seen.target).unwrap();
        fs::write(dir.path().join("b"), BEFORE).unwrap();
        assert!(
            set_aside(&dir.path().join("b"), &dir.path().join("c"), seen)
                .unwrap_err()
                .is_change()
        );
        assert_eq!(names(dir.path()), ["b"]);
    }
}
