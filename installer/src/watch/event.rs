//! What inotify tells, in the words of the log.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use notify::{
    Event, EventKind,
    event::{AccessKind, AccessMode, ModifyKind, RenameMode},
};

use super::Change;
use crate::files;

/// What in an event is worth a pass: not reading (ours would wake us for
/// ever), not our own temporaries, not the neighbours of a missing directory.
pub(super) fn changes(event: &Event, wanted: &[PathBuf]) -> Vec<Change> {
    let kind = match event.kind {
        _ if event.need_rescan() => "OVERFLOW",
        EventKind::Create(_) => "CREATE",
        EventKind::Remove(_) => "DELETE",
        EventKind::Modify(ModifyKind::Name(RenameMode::To)) => "MOVED_TO",
        EventKind::Modify(ModifyKind::Name(RenameMode::From)) => "MOVED_FROM",
        // Comes after the two halves.
        EventKind::Modify(ModifyKind::Name(RenameMode::Both)) => return Vec::new(),
        EventKind::Modify(ModifyKind::Metadata(_)) => "ATTRIB",
        EventKind::Modify(_) | EventKind::Access(AccessKind::Close(AccessMode::Write)) => "MODIFY",
        EventKind::Access(_) => return Vec::new(),
        EventKind::Any | EventKind::Other => "CHANGE",
    };
    if event.paths.is_empty() {
        return vec![Change {
            kind,
            dir: PathBuf::new(),
            name: OsString::new(),
        }];
    }
    event
        .paths
        .iter()
        .filter_map(|path| change(kind, path, wanted))
        .collect()
}

fn change(kind: &'static str, path: &Path, wanted: &[PathBuf]) -> Option<Change> {
    let name = path.file_name().unwrap_or_default();
    let parent = path.parent().unwrap_or(path);
    if wanted.iter().any(|dir| dir == parent) && !files::is_temporary(name) {
        return Some(Change {
            kind,
            dir: parent.to_owned(),
            name: name.to_owned(),
        });
    }
    let leads = wanted.iter().any(|dir| dir.starts_with(path));
    leads.then(|| Change {
        kind,
        dir: path.to_owned(),
        name: OsString::new(),
    })
}
