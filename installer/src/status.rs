//! `status`: is this node chained? `plan`: what would `run` change?

use std::{ffi::OsStr, fs, path::Path};

use crate::{
    conflist::Entry,
    desired::{self, Source},
    diff,
    files::{self, Intact},
    plan::{self, Change, Files, Found, INTERFACE_MODE},
    reconcile::{self, stale},
    settings::Settings,
};

/// A line of `status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Nothing to mend.
    pub good: bool,
    /// What was looked at.
    pub what: &'static str,
    /// How it is.
    pub how: String,
}

/// Looks at everything that a pod on this node needs (installer.md 1).
#[must_use]
pub fn status(settings: &Settings) -> Vec<Check> {
    let mut checks = vec![
        executables(settings),
        kubeconfig(settings),
        configuration(settings),
    ];
    let notes = fs::read_to_string(settings.state_dir.join("not-ready")).unwrap_or_default();
    checks.extend(
        notes
            .lines()
            .map(|line| fault("installer", line.to_owned())),
    );
    checks
}

/// What `run` would change, as a diff; empty if nothing.
///
/// # Errors
///
/// Why it cannot be found out.
pub fn plan(settings: &Settings) -> Result<String, String> {
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

fn executables(settings: &Settings) -> Check {
    const WHAT: &str = "executable";
    let bin_dir = settings.bin_dir.display();
    match files::regular_files(&settings.source_dir) {
        Err(e) => fault(WHAT, e.to_string()),
        Ok(sources) if sources.is_empty() => {
            fault(WHAT, format!("none in {}", settings.source_dir.display()))
        }
        Ok(_) => match differing(settings) {
            Err(e) => fault(WHAT, e.to_string()),
            Ok(names) if names.is_empty() => good(WHAT, format!("intact in {bin_dir}")),
            Ok(names) => fault(
                WHAT,
                format!("missing or different in {bin_dir}: {}", names.join(", ")),
            ),
        },
    }
}

fn kubeconfig(settings: &Settings) -> Check {
    const WHAT: &str = "kubeconfig";
    let path = &settings.kubeconfig;
    match desired::kubeconfig(settings) {
        Err(e) => fault(WHAT, e.to_string()),
        Ok(wanted) if !files::holds(path, wanted.text.as_bytes(), settings.kubeconfig_mode) => {
            fault(
                WHAT,
                format!(
                    "{} is missing or not what token, CA and environment say",
                    path.display()
                ),
            )
        }
        Ok(wanted) => match stale(wanted.freshness) {
            Some(what) => fault(WHAT, what),
            None => good(WHAT, format!("{} is fresh", path.display())),
        },
    }
}

fn configuration(settings: &Settings) -> Check {
    const WHAT: &str = "configuration";
    let first = entry(settings).and_then(|entry| {
        let (snapshot, plan) = reconcile::observe(settings, &entry).map_err(|e| e.to_string())?;
        Ok((plan::first_loadable(&snapshot.files, &entry), plan))
    });
    match first {
        Err(e) => fault(WHAT, e),
        Ok((None, _)) => fault(
            WHAT,
            format!(
                "none in {} yet: waiting for another CNI plugin",
                settings.net_dir.display()
            ),
        ),
        Ok((Some((name, true)), _)) => good(
            WHAT,
            format!("{} is chained", settings.net_dir.join(name).display()),
        ),
        Ok((Some((name, false)), plan)) => {
            let why = plan
                .findings
                .iter()
                .find(|f| f.file == name)
                .map_or("", |f| &f.what);
            let path = settings.net_dir.join(name);
            fault(
                WHAT,
                format!("{} comes first and is not chained {why}", path.display())
                    .trim_end()
                    .to_owned(),
            )
        }
    }
}

fn entry(settings: &Settings) -> Result<Entry, String> {
    let source = Source::read(settings).map_err(|e| e.to_string())?;
    let namespace = desired::namespace(settings).map_err(|e| e.to_string())?;
    source
        .fill(settings, &namespace)
        .map(|t| t.entry)
        .map_err(|e| e.to_string())
}

fn differing(settings: &Settings) -> Result<Vec<String>, files::FileError> {
    let mut names = Vec::new();
    for source in files::regular_files(&settings.source_dir)? {
        let name = source.file_name().unwrap_or_default();
        if !files::is_intact(
            &source,
            &settings.bin_dir.join(name),
            &mut Intact::default(),
        )? {
            names.push(name.to_string_lossy().into_owned());
        }
    }
    Ok(names)
}

fn differing_executables(settings: &Settings) -> Result<String, files::FileError> {
    let line = |name: String| {
        format!(
            "# {} would be written\n",
            settings.bin_dir.join(name).display()
        )
    };
    Ok(differing(settings)?.into_iter().map(line).collect())
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
        Change::Rewrite { file, text } => diff::unified(
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

fn good(what: &'static str, how: String) -> Check {
    Check {
        good: true,
        what,
        how,
    }
}

fn fault(what: &'static str, how: String) -> Check {
    Check {
        good: false,
        what,
        how,
    }
}
