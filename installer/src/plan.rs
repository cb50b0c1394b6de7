//! Decides what to do with the configurations: what is there and what should
//! be in, a list of changes out. Pure, so that any state of a node and any
//! interleaving with other writers can be tried in a test.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::{OsStr, OsString},
    path::Path,
};

mod chaining;
mod ignored;
mod removal;

#[cfg(test)]
mod tests;

pub use chaining::{chaining, first_loadable};
pub use ignored::{DEFAULT as IGNORED, Ignored};
pub use removal::removal;

/// Where the original of a converted `.conf` waits to be put back: an
/// extension that no runtime reads (installer.md 3).
pub const ORIGINAL: &str = ".linkerd-cni-original";

/// What the dropped interface mode left behind.
///
/// That mode wrote a configuration of its own, which gave pods a network that
/// was not whole. A node that was upgraded while its installer was killed
/// uncleanly still has it, so it is removed at every start. Once no supported
/// upgrade path begins at a release that had the mode, this can go.
pub const INTERFACE_MODE: &str = "01-linkerd-cni.conf";

/// The files of the configuration directory by name, in the order in which
/// libcni sorts them.
pub type Files = BTreeMap<OsString, Found>;

/// What a file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Its bytes.
    Text(Vec<u8>),
    /// Why there are none.
    Unreadable(String),
}

/// One step; files are named within the configuration directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Give a file that is there another text.
    Rewrite {
        /// The file.
        file: OsString,
        /// Its new text.
        text: Vec<u8>,
    },
    /// Give a list its text without us.
    TakeOut {
        /// The file.
        file: OsString,
        /// Its new text.
        text: Vec<u8>,
    },
    /// Make a list from a single configuration; it is not there yet.
    Create {
        /// The list.
        file: OsString,
        /// Its text.
        text: Vec<u8>,
        /// The file whose mode, owner and label it takes.
        like: OsString,
    },
    /// Move a single configuration aside, over the copy that is there.
    SetAside {
        /// The single configuration.
        single: OsString,
        /// Where it is kept.
        original: OsString,
    },
    /// Give a single configuration its name back. It keeps the other one too,
    /// by which its list is known until that is gone.
    PutBack {
        /// Where it was kept.
        original: OsString,
        /// The single configuration.
        single: OsString,
    },
    /// Remove a file of ours.
    Delete {
        /// The file.
        file: OsString,
    },
}

/// Something about a file that people should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file.
    pub file: OsString,
    /// What about it, and how to mend it.
    pub what: String,
    /// Whether it is a fault, or just how things are.
    pub fault: bool,
}

/// What to do and what to say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Steps, each of which can be taken without the others.
    pub changes: Vec<Change>,
    /// Said once for each content.
    pub findings: Vec<Finding>,
    /// The configurations that are chained as they should be.
    pub already: BTreeSet<OsString>,
    /// How many configurations are chained once the plan is carried out.
    pub chained: usize,
}

/// What our entry is checked against before it is appended.
#[derive(Clone, Debug, Default)]
pub struct Executables {
    /// Their directory, for the message.
    pub dir: String,
    /// The names in it.
    pub names: BTreeSet<String>,
}

// === impl Change ===

impl Change {
    /// The file whose network the change is about.
    #[must_use]
    pub fn subject(&self) -> &OsStr {
        match self {
            Self::Rewrite { file, .. }
            | Self::TakeOut { file, .. }
            | Self::Create { file, .. }
            | Self::Delete { file } => file,
            Self::SetAside { single, .. } => single,
            Self::PutBack { original, .. } => original,
        }
    }

    /// What becomes of the directory by this change.
    pub fn apply_to(&self, files: &mut Files) {
        match self.clone() {
            // A file that vanished is not brought back.
            Self::Rewrite { file, text } | Self::TakeOut { file, text } => {
                files
                    .entry(file)
                    .and_modify(|found| *found = Found::Text(text));
            }
            Self::Create { file, text, .. } => {
                files.entry(file).or_insert(Found::Text(text));
            }
            Self::SetAside { single, original } => {
                let moved = files.remove(&single);
                files.extend(moved.map(|found| (original, found)));
            }
            Self::PutBack { original, single } => {
                if let Some(found) = files.get(&original).cloned() {
                    files.entry(single).or_insert(found);
                }
            }
            Self::Delete { file } => {
                files.remove(&file);
            }
        }
    }
}

// === impl Found ===

impl Found {
    /// The bytes, if there are any.
    #[must_use]
    pub fn text(&self) -> Option<&[u8]> {
        match self {
            Self::Text(text) => Some(text),
            Self::Unreadable(_) => None,
        }
    }
}

/// Whether libcni looks at a file of this name.
#[must_use]
pub fn is_configuration(name: &OsStr) -> bool {
    let extension = Path::new(name).extension().and_then(OsStr::to_str);
    matches!(extension, Some("conf" | "conflist" | "json"))
}

/// Whether a file of this name has to hold a list to be loaded.
#[must_use]
pub fn is_list(name: &OsStr) -> bool {
    Path::new(name).extension().is_some_and(|e| e == "conflist")
}

/// Whether a file of this name is the original of a converted one.
#[must_use]
pub fn is_original(name: &OsStr) -> bool {
    single_of(name).is_some()
}

/// The list that a single configuration becomes, unless one that no runtime loads
/// is in its place.
fn list_of(single: &OsStr) -> OsString {
    Path::new(single)
        .with_extension("conflist")
        .into_os_string()
}

/// The list that it becomes then. Like the single one it is sorted before the other:
/// the runtime goes on taking the same network.
fn list_before(single: &OsStr) -> OsString {
    let mut name = single.to_owned();
    name.push(".conflist");
    name
}

/// Where the original of a single configuration is kept.
fn original_of(single: &OsStr) -> OsString {
    let mut name = single.to_owned();
    name.push(ORIGINAL);
    name
}

/// The single configuration that an original was.
fn single_of(original: &OsStr) -> Option<OsString> {
    let name = original.to_str()?.strip_suffix(ORIGINAL)?;
    (!is_list(OsStr::new(name)) && is_configuration(OsStr::new(name))).then(|| name.into())
}

fn text<'a>(files: &'a Files, name: &OsStr) -> Option<&'a [u8]> {
    files.get(name).and_then(Found::text)
}
