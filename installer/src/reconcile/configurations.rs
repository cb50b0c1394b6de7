//! The third step: every eligible configuration is chained.

use std::{
    ffi::OsString,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    time::{Duration, Instant},
};

use tracing::{info, warn};

use super::{Pass, Reconciler, observe};
use crate::{
    conflist::Entry,
    files::{self, FileError},
    plan::{self, Change, Finding, Plan},
    snapshot::Snapshot,
};

/// How often a pass starts over because another writer was faster; after that
/// it is tried again a little later.
const ROUNDS: usize = 10;
const LATER: Duration = Duration::from_millis(100);

pub(super) fn chain(
    this: &mut Reconciler,
    entry: &Entry,
    renewed: &[OsString],
    pass: &mut Pass,
) -> Result<(), FileError> {
    for _ in 0..ROUNDS {
        let (snapshot, plan) = observe::observe(&this.settings, entry)?;
        match carry_out(this, &snapshot, &plan, renewed, pass) {
            Done::Nothing => {
                report(this, &snapshot, &plan);
                pass.chained = Some(plan.chained);
                return Ok(());
            }
            // Once more: the next plan shows whether that was all.
            Done::Some => {}
        }
    }
    pass.again = Some(Instant::now() + LATER);
    Ok(())
}

enum Done {
    Nothing,
    Some,
}

fn carry_out(
    this: &mut Reconciler,
    snapshot: &Snapshot,
    plan: &Plan,
    renewed: &[OsString],
    pass: &mut Pass,
) -> Done {
    let mut done = Done::Nothing;
    for change in &plan.changes {
        let subject = change.subject();
        pass.undone += u64::from(was_undone(this, change));
        if let Some(until) = this.fights.wait(subject, Instant::now()) {
            pass.again = Some(pass.again.map_or(until, |again| again.min(until)));
            continue;
        }
        announce(this, change, renewed);
        match files::apply(
            &this.settings.net_dir,
            &this.settings.prefix,
            snapshot,
            change,
        ) {
            Ok(()) => {
                pass.changed = true;
                done = Done::Some;
                if chains(change) {
                    this.chained.insert(subject.to_owned());
                }
                confirm(this, change);
            }
            Err(e) if e.is_change() => return Done::Some,
            Err(e) => {
                pass.held = true;
                let file = this.settings.net_dir.join(subject).display().to_string();
                this.warn(&file, format!("{file} is not chained: {e}"));
            }
        }
    }
    done
}

fn announce(this: &mut Reconciler, change: &Change, renewed: &[OsString]) {
    let name = match change {
        Change::Create { like, .. } => like,
        Change::Rewrite { file, .. } => file,
        _ => return,
    };
    if this.is_fought(change.subject()) || plan::is_original(change.subject()) {
        return;
    }
    if renewed.contains(name) {
        this.actions.say(&format!(
            "New file [{}] detected; re-installing",
            name.display()
        ));
    }
    this.actions.say(&format!(
        "Installing CNI configuration for {}",
        this.settings.net_dir.join(name).display()
    ));
}

/// Whether the configuration was chained when it was last looked at. Each undoing
/// counts once, also one that is not answered at once.
fn was_undone(this: &mut Reconciler, change: &Change) -> bool {
    chains(change) && this.chained.remove(change.subject())
}

fn chains(change: &Change) -> bool {
    let writes = matches!(change, Change::Rewrite { .. } | Change::Create { .. });
    writes && !plan::is_original(change.subject())
}

fn confirm(this: &mut Reconciler, change: &Change) {
    let dir = this.settings.net_dir.clone();
    let path = dir.join(change.subject());
    match change {
        _ if this.is_fought(change.subject()) || plan::is_original(change.subject()) => {}
        Change::Rewrite { .. } | Change::Create { .. } => {
            this.actions
                .say(&format!("Created CNI config {}", path.display()));
        }
        Change::TakeOut { .. } => {
            this.actions.say(&format!(
                "Removed linkerd-cni config from {}",
                path.display()
            ));
        }
        Change::SetAside { original: to, .. } | Change::PutBack { single: to, .. } => {
            this.actions.say(&format!(
                "Moved {} to {}",
                path.display(),
                dir.join(to).display()
            ));
        }
        Change::Delete { .. } => this.actions.say(&format!("Removed {}", path.display())),
    }
    if this.fights.wrote(change.subject(), Instant::now()) {
        let hint = if observe::cilium_renames(&dir) {
            "; a *.cilium_bak with our entry lies beside it: set cni.exclusive=false in Cilium's values"
        } else {
            ""
        };
        warn!(
            "Another writer keeps undoing {}: it was rewritten 5 times within 60 s. Installing again 1 s after each write \
             of ours, without a line for each; find the program that writes this file{hint}",
            path.display()
        );
    }
}

fn report(this: &mut Reconciler, snapshot: &Snapshot, plan: &Plan) {
    this.known = snapshot
        .signatures()
        .map(|(name, signature)| (name.clone(), signature))
        .collect();
    this.chained.clone_from(&plan.already);
    for Finding { file, what, fault } in &plan.findings {
        let path = this.settings.net_dir.join(file).display().to_string();
        let mut digest = DefaultHasher::new();
        snapshot
            .files
            .get(file)
            .and_then(plan::Found::text)
            .hash(&mut digest);
        if this
            .said
            .is_new(&path, format!("{what} {:x}", digest.finish()))
        {
            match fault {
                true => warn!("{path}: {what}"),
                false => info!("{path}: {what}"),
            }
        }
    }
    if plan.chained == 0 && this.said.is_new("none", String::new()) {
        info!("No active CNI configuration files found");
    }
}
