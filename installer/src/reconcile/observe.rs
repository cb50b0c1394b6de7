//! What is on the node, and what is to be done about it; nothing is written.

use std::{ffi::OsStr, fs, path::Path};

use crate::{
    conflist::{Entry, OUR_TYPE},
    files::FileError,
    plan::{self, Executables, Files, Plan},
    settings::Settings,
    snapshot::Snapshot,
};

/// Whether a pass reads a file of this name.
#[must_use]
pub fn is_read(name: &OsStr) -> bool {
    plan::is_configuration(name) || plan::is_original(name)
}

/// What is in the configuration directory, and what is to be done about it.
///
/// # Errors
///
/// A directory that cannot be listed.
pub fn observe(settings: &Settings, entry: &Entry) -> Result<(Snapshot, Plan), FileError> {
    let snapshot = read(settings)?;
    let plan = plan(settings, entry, &snapshot.files)?;
    Ok((snapshot, plan))
}

/// What is to be done about these files.
///
/// # Errors
///
/// The directory of executables cannot be listed.
pub fn plan(settings: &Settings, entry: &Entry, files: &Files) -> Result<Plan, FileError> {
    let executables = if settings.verify_bin_dir {
        Some(executables(settings)?)
    } else {
        None
    };
    let ignored = &settings.ignored;
    Ok(plan::chaining(files, entry, executables.as_ref(), ignored))
}

/// Whether Cilium has moved a list with our entry out of its way.
pub(super) fn cilium_renames(dir: &Path) -> bool {
    let is_bak = |name: &OsStr| name.to_string_lossy().ends_with(".cilium_bak");
    Snapshot::read(dir, dir, is_bak).is_ok_and(|snapshot| {
        snapshot
            .files
            .values()
            .filter_map(plan::Found::text)
            .any(|text| String::from_utf8_lossy(text).contains(OUR_TYPE))
    })
}

fn read(settings: &Settings) -> Result<Snapshot, FileError> {
    let dir = &settings.net_dir;
    Snapshot::read(dir, &settings.prefix, is_read).map_err(|source| FileError::Io {
        doing: "listing",
        path: dir.clone(),
        source,
    })
}

fn executables(settings: &Settings) -> Result<Executables, FileError> {
    let dir = &settings.bin_dir;
    let entries = fs::read_dir(dir).map_err(|source| FileError::Io {
        doing: "listing",
        path: dir.clone(),
        source,
    })?;
    Ok(Executables {
        dir: dir.display().to_string(),
        names: entries
            .flatten()
            .map(|e| e.file_name().to_string_lossy().into_owned())
            .collect(),
    })
}
