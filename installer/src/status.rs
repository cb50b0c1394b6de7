//! `status`: is this node chained?

use std::{ffi::OsString, fs};

use crate::{
    conflist::Entry,
    desired::{self, Source},
    files::{self, Intact},
    plan::{self, Finding, Plan},
    reconcile::{self, stale},
    settings::Settings,
    swapped, taint,
};

const CONFIGURATION: &str = "configuration";

/// A line of `status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Whether there is something to mend.
    pub level: Level,
    /// What was looked at.
    pub what: &'static str,
    /// How it is.
    pub how: String,
}

/// Whether there is something to mend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Nothing.
    Good,
    /// Nothing that keeps pods from being redirected.
    Note,
    /// Yes: meshed pods do not start, or not yet.
    Fault,
    /// Yes: pods start outside the mesh.
    Unmeshed,
}

// === impl Check ===

impl Check {
    /// Whether the node is not ready because of it.
    #[must_use]
    pub fn is_fault(&self) -> bool {
        matches!(self.level, Level::Fault | Level::Unmeshed)
    }
}

/// Looks at everything that a pod on this node needs (installer.md 1).
#[must_use]
pub fn status(settings: &Settings) -> Vec<Check> {
    let state = |name| fs::read_to_string(settings.state_dir.join(name)).unwrap_or_default();
    let mut checks = look(settings, &mut Intact::default(), &state("not-ready"));
    let taint = state(taint::NOTE);
    checks.extend((!taint.is_empty()).then(|| check(Level::Note, "taint", taint)));
    checks
}

/// The same for one who has looked at the executables before, and has notes of his own.
pub(crate) fn look(settings: &Settings, intact: &mut Intact, notes: &str) -> Vec<Check> {
    let mut checks = vec![executables(settings, intact), kubeconfig(settings)];
    checks.extend(configurations(settings));
    let dirs = [&settings.net_dir, &settings.bin_dir].into_iter();
    checks.extend(dirs.filter_map(|dir| swapped::removed(dir).map(|how| fault("mount", how))));
    checks.extend(
        notes
            .lines()
            .map(|line| fault("installer", line.to_owned())),
    );
    checks
}

fn executables(settings: &Settings, intact: &mut Intact) -> Check {
    const WHAT: &str = "executable";
    let bin_dir = settings.bin_dir.display();
    match files::regular_files(&settings.source_dir) {
        Err(e) => fault(WHAT, e.to_string()),
        Ok(sources) if sources.is_empty() => {
            fault(WHAT, format!("none in {}", settings.source_dir.display()))
        }
        Ok(_) => match differing(settings, intact) {
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

/// The first configuration that the runtime loads, and a note for each other of which something
/// is to be said.
fn configurations(settings: &Settings) -> Vec<Check> {
    let observed = entry(settings).and_then(|entry| {
        let (snapshot, plan) = reconcile::observe(settings, &entry).map_err(|e| e.to_string())?;
        Ok((plan::first_loadable(&snapshot.files, &entry), plan))
    });
    let (first, plan) = match observed {
        Err(e) => return vec![fault(CONFIGURATION, e)],
        Ok(observed) => observed,
    };
    let name = first.as_ref().map(|(name, _)| name.clone());
    let mut checks = vec![first_configuration(settings, first, &plan)];
    let others = plan
        .findings
        .iter()
        .filter(|f| Some(&f.file) != name.as_ref());
    checks.extend(others.map(|Finding { file, what, .. }| {
        let path = settings.net_dir.join(file);
        check(
            Level::Note,
            CONFIGURATION,
            format!("{}: {what}", path.display()),
        )
    }));
    checks
}

fn first_configuration(settings: &Settings, first: Option<(OsString, bool)>, plan: &Plan) -> Check {
    let Some((name, chained)) = first else {
        let dir = settings.net_dir.display();
        let how = format!("none in {dir} yet: waiting for another CNI plugin");
        return fault(CONFIGURATION, how);
    };
    let path = settings.net_dir.join(&name).display().to_string();
    if chained {
        return good(CONFIGURATION, format!("{path} is chained"));
    }
    let why = plan.findings.iter().find(|f| f.file == name);
    let why = why.map_or("", |f| &f.what);
    let how = format!("{path} comes first and is not chained {why}");
    check(Level::Unmeshed, CONFIGURATION, how.trim_end().to_owned())
}

fn entry(settings: &Settings) -> Result<Entry, String> {
    let source = Source::read(settings).map_err(|e| e.to_string())?;
    let namespace = desired::namespace(settings).map_err(|e| e.to_string())?;
    source
        .fill(settings, &namespace)
        .map(|t| t.entry)
        .map_err(|e| e.to_string())
}

/// The names of our executables that are not on the host as they should be.
pub(crate) fn differing(
    settings: &Settings,
    intact: &mut Intact,
) -> Result<Vec<String>, files::FileError> {
    let mut names = Vec::new();
    for source in files::regular_files(&settings.source_dir)? {
        let name = source.file_name().unwrap_or_default();
        if !files::is_intact(&source, &settings.bin_dir.join(name), intact)? {
            names.push(name.to_string_lossy().into_owned());
        }
    }
    Ok(names)
}

fn good(what: &'static str, how: String) -> Check {
    check(Level::Good, what, how)
}

fn fault(what: &'static str, how: String) -> Check {
    check(Level::Fault, what, how)
}

fn check(level: Level, what: &'static str, how: String) -> Check {
    Check { level, what, how }
}
