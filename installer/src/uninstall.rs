//! Gives the node back: configurations, then the kubeconfig, then the
//! executables (installer.md 5), then the taint. Needs no API server for what is
//! on the node.

use std::{collections::BTreeMap, path::PathBuf};

use crate::{
    cluster::{self, Freshness, Tainted, Wanted},
    conflist,
    files::{self, FileError},
    plan::{self, Change, Found, Plan},
    settings::Settings,
    snapshot::Snapshot,
};

/// Other writers may be at work; this often they are given way.
const ROUNDS: usize = 20;

/// What was removed, and what could not be.
#[derive(Debug, Default)]
pub struct Removal {
    /// A line for each thing done.
    pub done: Vec<String>,
    /// A line for each thing that failed.
    pub errors: Vec<String>,
}

/// Removes everything that is ours. Each error is reported and the rest still
/// done, but for one thing: as long as a configuration names our executable,
/// that stays, because every pod of the node would fail without it.
#[must_use]
pub fn uninstall(settings: &Settings) -> Removal {
    let mut removal = Removal::default();
    files(settings, &mut removal);
    taint(settings, &mut removal);
    removal
}

fn files(settings: &Settings, removal: &mut Removal) {
    configurations(settings, removal);
    if still_named(settings) {
        let kept =
            "The kubeconfig and the executables stay, because a configuration still names them";
        removal.errors.push(kept.to_owned());
        return;
    }
    kubeconfig(settings, removal);
    if settings.keep_binary {
        removal
            .done
            .push("Left the executables, because KEEP_BINARY is set".to_owned());
    } else {
        executables(settings, removal);
    }
}

/// Nobody else would ever remove it, and pods would stay away for good. Where we
/// do not set it ourselves, most nodes have none, and a failure says nothing.
fn taint(settings: &Settings, removal: &mut Removal) {
    let Some(key) = &settings.startup_taint else {
        return;
    };
    let node = &settings.node_name;
    match cluster::taint(settings, key, Wanted::Absent, Freshness::Latest) {
        Ok(Tainted::Removed) => {
            removal
                .done
                .push(format!("Removed taint {key} from node {node}"));
        }
        Err(why) if settings.taint_on_loss => removal.errors.push(format!(
            "Taint {key} may still be on node {node}: {why}. `kubectl taint node {node} {key}-` removes it"
        )),
        _ => {}
    }
}

fn configurations(settings: &Settings, removal: &mut Removal) {
    let mut failed = BTreeMap::new();
    let mut findings = Vec::new();
    for _ in 0..ROUNDS {
        let snapshot = match read(settings) {
            Ok(snapshot) => snapshot,
            Err(e) => return removal.errors.push(e.to_string()),
        };
        let Plan {
            changes,
            findings: found,
            ..
        } = plan::removal(&snapshot.files);
        findings = found;
        let todo: Vec<_> = changes
            .iter()
            .filter(|c| !failed.contains_key(c.subject()))
            .collect();
        if todo.is_empty() {
            break;
        }
        for change in todo {
            match files::apply(&settings.net_dir, &settings.prefix, &snapshot, change) {
                Ok(()) => removal.done.push(line(settings, change)),
                Err(e) if e.is_change() => break,
                Err(e) => {
                    failed.insert(change.subject().to_owned(), e.to_string());
                }
            }
        }
    }
    removal.errors.extend(failed.into_values());
    let path = |name| settings.net_dir.join(name).display().to_string();
    removal.done.extend(
        findings
            .iter()
            .map(|f| format!("{}: {}", path(&f.file), f.what)),
    );
}

fn line(settings: &Settings, change: &Change) -> String {
    let path = settings.net_dir.join(change.subject());
    match change {
        Change::Rewrite { .. } | Change::TakeOut { .. } => {
            format!("Removed linkerd-cni config from {}", path.display())
        }
        Change::PutBack { single, .. } => {
            format!("Put back {}", settings.net_dir.join(single).display())
        }
        Change::Create { .. } | Change::SetAside { .. } | Change::Delete { .. } => {
            format!("Removed {}", path.display())
        }
    }
}

/// Whether a configuration that a runtime reads names our executable.
fn still_named(settings: &Settings) -> bool {
    let named = |snapshot: Snapshot| {
        snapshot.files.iter().any(|(name, found)| {
            plan::is_configuration(name)
                && found
                    .text()
                    .is_some_and(|text| conflist::unchain(text).is_some())
        })
    };
    read(settings).is_ok_and(named)
}

fn kubeconfig(settings: &Settings, removal: &mut Removal) {
    let path = &settings.kubeconfig;
    note(
        removal,
        files::remove(path),
        format!("Removed linkerd-cni kubeconfig: {}", path.display()),
    );
}

/// Removes what we installed: `linkerd-cni`, and whatever else is in our image
/// as long as nobody has put another in its place.
fn executables(settings: &Settings, removal: &mut Removal) {
    for target in installed(settings) {
        note(
            removal,
            files::remove(&target),
            format!("Removed linkerd-cni binary: {}", target.display()),
        );
    }
}

fn installed(settings: &Settings) -> Vec<PathBuf> {
    let Settings {
        source_dir,
        bin_dir,
        ..
    } = settings;
    let mut targets = vec![bin_dir.join(conflist::OUR_TYPE)];
    // Were both one directory, everything in it would be taken for ours.
    if files::same_directory(source_dir, bin_dir) {
        return targets;
    }
    for source in files::regular_files(source_dir).unwrap_or_default() {
        let target = bin_dir.join(source.file_name().unwrap_or_default());
        let ours = files::is_intact(&source, &target, &mut files::Intact::default());
        if ours.unwrap_or(false) && !targets.contains(&target) {
            targets.push(target);
        }
    }
    targets
}

fn note(removal: &mut Removal, result: Result<bool, FileError>, done: String) {
    match result {
        Ok(true) => removal.done.push(done),
        Ok(false) => {}
        Err(e) => removal.errors.push(e.to_string()),
    }
}

/// Every regular file, whatever its name: see [`plan::removal`].
fn read(settings: &Settings) -> Result<Snapshot, FileError> {
    let dir = &settings.net_dir;
    let ours = settings.kubeconfig.file_name();
    let mut snapshot = Snapshot::read(dir, &settings.prefix, |name| {
        Some(name) != ours && !files::is_temporary(name)
    })
    .map_err(|source| FileError::Io {
        doing: "listing",
        path: dir.clone(),
        source,
    })?;
    snapshot
        .files
        .retain(|_, found| matches!(found, Found::Text(_)));
    Ok(snapshot)
}
