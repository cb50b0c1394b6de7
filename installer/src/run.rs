//! `run`: install, and stay to keep the node chained.

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
    sync::mpsc,
    time::{Duration, Instant},
};

use tracing::{debug, info, warn};

use crate::{
    desired::{Source, SourceError},
    exit,
    files::{self, FileError},
    monitor::Monitor,
    reconcile::{self, Pass, Reconciler},
    settings::Settings,
    signals,
    snapshot::{Signature, resolve},
    watch::{self, Change, Turn, Watches},
};

/// How often is looked where inotify is refused.
const POLL: Duration = Duration::from_secs(1);

/// Why the installer does not start (installer.md 5, last point).
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The template cannot be used.
    #[error(transparent)]
    Template(#[from] SourceError),
    /// A directory is missing or cannot be written, or a file not removed.
    #[error(transparent)]
    File(#[from] FileError),
    /// The image has nothing to install.
    #[error("there is no executable to install in {}: is CONTAINER_CNI_BIN_DIR right, or hidden by a mount?", .0.display())]
    NoExecutable(PathBuf),
    /// Source and destination are one.
    #[error("{} is both CONTAINER_CNI_BIN_DIR and the host's bin directory: one of the two is wrong", .0.display())]
    SameDirectory(PathBuf),
    /// No signals, no thread.
    #[error("signals cannot be taken: {0}")]
    Signals(io::Error),
}

/// Installs, and with `SLEEP` stays until a signal ends it. Returns whether
/// all is well.
///
/// # Errors
///
/// Why it does not start; the node is then as it was.
pub fn run(settings: Settings) -> Result<bool, StartError> {
    // Before any thread is there.
    let signals = signals::block().map_err(|e| StartError::Signals(e.into()))?;
    let source = Source::read(&settings)?;
    check(&settings)?;
    warn_of_mode(settings.kubeconfig_mode);
    let (wake, events) = mpsc::channel();
    signals::pass_on(signals, wake.clone()).map_err(StartError::Signals)?;
    let stay = settings.stay;
    let dirs = vec![
        settings.net_dir.clone(),
        settings.bin_dir.clone(),
        settings.service_account.clone(),
    ];
    // Watches first: what is dropped in during the first pass is then seen.
    let watches = stay.then(|| Watches::new(dirs, wake));
    let mut reconciler = Reconciler::new(settings, source);
    let mut staying = watches.map(|w| {
        (
            w,
            Monitor::start(reconciler.settings(), reconciler.swapped()),
        )
    });
    reconciler.remove_interface_mode()?;
    let pass = reconciler.pass(&[]);
    reconciler.remove_leftovers();
    let Some((watches, monitor)) = &mut staying else {
        return Ok(!pass.held);
    };
    monitor.passed(&pass, &mut reconciler);
    Ok(stay_chained(
        &mut reconciler,
        watches,
        monitor,
        &events,
        &pass,
    ))
}

/// What can be known to be wrong before anything is written.
fn check(settings: &Settings) -> Result<(), StartError> {
    let Settings {
        source_dir,
        bin_dir,
        net_dir,
        ..
    } = settings;
    if files::regular_files(source_dir)?.is_empty() {
        return Err(StartError::NoExecutable(source_dir.clone()));
    }
    files::may_write(net_dir)?;
    files::may_write(bin_dir)?;
    if files::same_directory(source_dir, bin_dir) {
        return Err(StartError::SameDirectory(bin_dir.clone()));
    }
    Ok(())
}

fn warn_of_mode(mode: u32) {
    if mode & !0o600 != 0 {
        warn!(
            "KUBECONFIG_MODE={mode:o} lets more than the owner read the token; the plugin runs as root and needs no more than 600"
        );
    }
}

fn stay_chained(
    reconciler: &mut Reconciler,
    watches: &mut Watches,
    monitor: &mut Monitor,
    events: &mpsc::Receiver<watch::Wake>,
    first: &Pass,
) -> bool {
    let mut deadline = deadline(reconciler.settings(), watches, first);
    loop {
        match watch::next(events, deadline) {
            Turn::Leave(signal) => {
                info!("{signal} received");
                monitor.leaves();
                return exit::leave(reconciler.settings(), || monitor.settle());
            }
            Turn::Pass(changes) => {
                watches.renew(&changes);
                let pass = answer(reconciler, &changes);
                monitor.passed(&pass, reconciler);
                deadline = self::deadline(reconciler.settings(), watches, &pass);
            }
        }
    }
}

fn deadline(settings: &Settings, watches: &Watches, pass: &Pass) -> Instant {
    let interval = if watches.polls() {
        settings.resync.min(POLL)
    } else {
        settings.resync
    };
    let resync = Instant::now() + interval;
    pass.again.map_or(resync, |again| again.min(resync))
}

/// Runs a pass for some changes, and says what came of them.
fn answer(reconciler: &mut Reconciler, changes: &[Change]) -> Pass {
    let news: Vec<_> = changes
        .iter()
        .filter(|change| is_news(reconciler, change) && !is_detail(change, changes))
        .collect();
    for Change { kind, dir, name } in &news {
        reconciler.events.say(&format!(
            "Detected change in {}/: {kind} {}",
            dir.display(),
            name.display()
        ));
    }
    let names: Vec<OsString> = news.iter().map(|change| change.name.clone()).collect();
    let pass = reconciler.pass(&names);
    if let (Some(Change { kind, dir, name }), false) =
        (news.last(), pass.changed || pass.again.is_some())
    {
        let path = dir.join(name);
        reconciler.events.say(&format!(
            "Ignoring event: {kind} {}; no real changes detected",
            path.display()
        ));
    }
    pass
}

/// Writing into a file that was made in the same burst needs no line.
fn is_detail(change: &Change, burst: &[Change]) -> bool {
    let appears = |c: &Change| c.name == change.name && matches!(c.kind, "CREATE" | "MOVED_TO");
    matches!(change.kind, "MODIFY" | "ATTRIB") && burst.iter().any(appears)
}

/// Whether a change is worth a line: one in the configuration directory that
/// is not the echo of our own write.
fn is_news(reconciler: &Reconciler, change: &Change) -> bool {
    let settings = reconciler.settings();
    let news = change.dir == settings.net_dir
        && reconcile::is_read(&change.name)
        && reconciler.is_news(&change.name, signature(&change.path(), &settings.prefix));
    if !news {
        debug!(
            "Detected change in {}/: {} {}",
            change.dir.display(),
            change.kind,
            change.name.display()
        );
    }
    news
}

fn signature(path: &Path, prefix: &Path) -> Option<Signature> {
    let target = resolve(path, prefix).ok()?;
    fs::symlink_metadata(target).ok().map(|m| Signature::of(&m))
}
