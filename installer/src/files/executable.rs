//! Our executables on the host.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs::{self, DirBuilder, File, Metadata},
    io::{self, Read},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _},
    path::Path,
};

use super::{FileError, closed, copy_label, error::Context as _, put, set_mode, temporary};
use crate::snapshot::Signature;

/// Pairs that were compared, so that a pass does not read megabytes again: the
/// state of both files when they were the same.
#[derive(Debug, Default)]
pub struct Intact(BTreeMap<OsString, (Signature, Signature)>);

/// Whether the host's executable has the content and the mode of ours.
///
/// # Errors
///
/// Ours cannot be read.
pub fn is_intact(source: &Path, target: &Path, known: &mut Intact) -> Result<bool, FileError> {
    let ours = fs::metadata(source).doing("reading", source)?;
    let Ok(theirs) = fs::symlink_metadata(target) else {
        return Ok(false);
    };
    let pair = (Signature::of(&ours), Signature::of(&theirs));
    let name = target.as_os_str().to_owned();
    if known.0.get(&name) == Some(&pair) {
        return Ok(true);
    }
    let same = alike(&ours, &theirs) && same_bytes(source, target).doing("comparing", target)?;
    if same {
        known.0.insert(name, pair);
    }
    Ok(same)
}

/// Installs an executable by rename: one that is running just then goes on,
/// and there is no moment without one.
///
/// # Errors
///
/// The step that failed; the former executable is then in its place.
pub fn install_executable(source: &Path, target: &Path) -> Result<(), FileError> {
    let mut from = File::open(source).doing("reading", source)?;
    let metadata = from.metadata().doing("reading", source)?;
    let mut new = temporary(target)?;
    io::copy(&mut from, new.as_file_mut()).doing("writing", target)?;
    copy_label(new.as_file(), target);
    set_mode(new.as_file(), metadata.mode()).doing("setting the mode of", target)?;
    put(closed(new, target)?, target)
}

/// Makes a directory that was there before and was removed.
///
/// # Errors
///
/// What the system says.
pub fn make_directory(dir: &Path) -> Result<(), FileError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(dir)
        .doing("making", dir)
}

fn alike(ours: &Metadata, theirs: &Metadata) -> bool {
    theirs.is_file() && ours.len() == theirs.len() && (ours.mode() ^ theirs.mode()) & 0o7777 == 0
}

fn same_bytes(a: &Path, b: &Path) -> io::Result<bool> {
    let (mut a, mut b) = (File::open(a)?, File::open(b)?);
    let (mut left, mut right) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    loop {
        let (n, m) = (fill(&mut a, &mut left)?, fill(&mut b, &mut right)?);
        if left[..n] != right[..m] || n == 0 {
            return Ok(n == m && n == 0);
        }
    }
}

fn fill(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..])? {
            0 => break,
            n => filled += n,
        }
    }
    Ok(filled)
}
