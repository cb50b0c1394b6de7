//! `plan`: what would `run` change?

use std::{ffi::OsStr, path::Path};

use crate::{
    conflist::Entry,
    desired::{self, Source},
    diff,
    files::{self, Intact},
    plan::{self, Change, Files, Found, INTERFACE_MODE},
    reconcile,
    settings::Settings,
    status,
};

/// What `run` would change, as a diff; empty if nothing.
///
/// # Errors
///
/// Why it cannot be found out.
pub fn preview(settings: &Settings) -> Result<String, String> {
    let source = Source::read(settings).map_err(|e| e.to_string())?;
    let namespace = desired::namespace(settings).map_err(|e| e.to_string())?;
    let template = source
        .fill(settings, &namespace)
        .map_err(|e| e.to_string())?;
    let (snapshot, plan) =
        reconcile::observe(settings, &template.entry).map_err(|e| e.to_string())?;
    let mut out =
        interface_mode(settings) + &differing_executables(settings).map_err(|e| e.to_string())?;
    out += &kubeconfig_change(settings);
    out += &changes(settings, &template.entry, snapshot.files);
    for finding in &plan.findings {
        out += &format!(
            "# {}: {}\n",
            settings.net_dir.join(&finding.file).display(),
            finding.what
        );
    }
    Ok(out)
}

fn differing_executables(settings: &Settings) -> Result<String, files::FileError> {
    let line = |name: String| {
        format!(
            "# {} would be written\n",
            settings.bin_dir.join(name).display()
        )
    };
    Ok(status::differing(settings, &mut Intact::default())?
        .into_iter()
        .map(line)
        .collect())
}

fn interface_mode(settings: &Settings) -> String {
    let path = settings.net_dir.join(INTERFACE_MODE);
    if path.exists() {
        format!("# {} would be removed\n", path.display())
    } else {
        String::new()
    }
}

/// Only that it would change: it holds a token.
fn kubeconfig_change(settings: &Settings) -> String {
    let path = &settings.kubeconfig;
    match desired::kubeconfig(settings) {
        Err(e) => format!("# {} would not be written: {e}\n", path.display()),
        Ok(wanted) if files::holds(path, wanted.text.as_bytes(), settings.kubeconfig_mode) => {
            String::new()
        }
        Ok(_) => format!("# {} would be written\n", path.display()),
    }
}

/// Every change, also those that only come up once others are made.
fn changes(settings: &Settings, entry: &Entry, mut files: Files) -> String {
    let mut out = String::new();
    // A file takes three steps at the most.
    for _ in 0..3 * files.len() {
        let plan = reconcile::plan(settings, entry, &files).unwrap_or_default();
        let Some(change) = plan.changes.first() else {
            break;
        };
        out += &show(&settings.net_dir, &files, change);
        change.apply_to(&mut files);
    }
    out
}

fn show(dir: &Path, files: &Files, change: &Change) -> String {
    let path = |name: &OsStr| dir.join(name).display().to_string();
    let before = |name: &OsStr| {
        String::from_utf8_lossy(files.get(name).and_then(Found::text).unwrap_or_default())
            .into_owned()
    };
    match change {
        Change::Rewrite { file, text } | Change::TakeOut { file, text } => diff::unified(
            &path(file),
            &path(file),
            &before(file),
            &String::from_utf8_lossy(text),
        ),
        Change::Create { file, .. } if plan::is_original(file) => String::new(),
        Change::Create { file, text, .. } => {
            diff::unified("/dev/null", &path(file), "", &String::from_utf8_lossy(text))
        }
        Change::SetAside {
            single: from,
            original: to,
        }
        | Change::PutBack {
            original: from,
            single: to,
        } => {
            format!("# {} would be moved to {}\n", path(from), path(to))
        }
        Change::Delete { file } => format!("# {} would be removed\n", path(file)),
    }
}
