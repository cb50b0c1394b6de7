//! What is on the node: read, with enough kept to notice a change later.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fs::{self, File, Metadata},
    io::{self, Read as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use crate::plan::{Files, Found};

/// No CNI configuration comes near this; what is larger is not read.
const LARGEST: u64 = 1 << 20;

/// As many links as Linux follows.
const LINKS: usize = 40;

/// The identity and the state of a file. What is written or replaced in
/// between has another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// A directory's files as they were at one time.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// What they hold.
    pub files: Files,
    seen: BTreeMap<OsString, Seen>,
}

/// Where a file really is, and its state when it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The file itself, links followed.
    pub target: PathBuf,
    /// Its state.
    pub signature: Signature,
}

// === impl Signature ===

impl Signature {
    /// The state that a file's metadata tells.
    #[must_use]
    pub fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// The same file with the same content, perhaps under another name:
    /// renaming sets the time of the last change of status.
    #[must_use]
    pub fn same_content(&self, other: &Self) -> bool {
        Self {
            changed: other.changed,
            ..*self
        } == *other
    }
}

// === impl Snapshot ===

impl Snapshot {
    /// Reads the wanted files of a directory. A link is followed as the host
    /// would follow it: an absolute one begins at the prefix.
    ///
    /// # Errors
    ///
    /// The directory cannot be listed. What keeps one file from being read is
    /// noted as its content.
    pub fn read(dir: &Path, prefix: &Path, wanted: impl Fn(&OsStr) -> bool) -> io::Result<Self> {
        let mut snapshot = Self::default();
        for entry in fs::read_dir(dir)? {
            let name = entry?.file_name();
            if wanted(&name) {
                snapshot.add(dir, prefix, name);
            }
        }
        Ok(snapshot)
    }

    /// Where a file was, and its state, when the snapshot was taken.
    #[must_use]
    pub fn seen(&self, name: &OsStr) -> Option<&Seen> {
        self.seen.get(name)
    }

    /// The state of every file that could be read.
    pub fn signatures(&self) -> impl Iterator<Item = (&OsString, Signature)> {
        self.seen.iter().map(|(name, seen)| (name, seen.signature))
    }

    fn add(&mut self, dir: &Path, prefix: &Path, name: OsString) {
        let found = match resolve(&dir.join(&name), prefix).and_then(|target| read(&target)) {
            Ok(Some((text, seen))) => {
                self.seen.insert(name.clone(), seen);
                text
            }
            Ok(None) => return,
            // Gone between listing and reading.
            Err(e) if e.kind() == io::ErrorKind::NotFound && !is_link(&dir.join(&name)) => return,
            Err(e) => Found::Unreadable(e.to_string()),
        };
        self.files.insert(name, found);
    }
}

/// The file that a path leads to; links are followed within the prefix.
///
/// # Errors
///
/// The path leads nowhere, or round in a circle.
pub fn resolve(path: &Path, prefix: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        if !fs::symlink_metadata(&path)?.is_symlink() {
            return Ok(path);
        }
        let to = fs::read_link(&path)?;
        path = match to.strip_prefix("/") {
            Ok(inside) if !to.starts_with(prefix) => prefix.join(inside),
            Ok(_) => to,
            Err(_) => path.parent().unwrap_or(Path::new("/")).join(to),
        };
    }
    Err(io::Error::other("too many links"))
}

fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|m| m.is_symlink())
}

/// A regular file's content and state; `None` for anything else, which is
/// never opened: a FIFO would block.
fn read(path: &Path) -> io::Result<Option<(Found, Seen)>> {
    if !fs::symlink_metadata(path)?.is_file() {
        return Ok(None);
    }
    let file = File::open(path)?;
    let signature = Signature::of(&file.metadata()?);
    let seen = Seen {
        target: path.to_owned(),
        signature,
    };
    if signature.size > LARGEST {
        return Ok(Some((
            Found::Unreadable("larger than 1 MiB".to_owned()),
            seen,
        )));
    }
    let mut text = Vec::new();
    file.take(LARGEST).read_to_end(&mut text)?;
    Ok(Some((Found::Text(text), seen)))
}
