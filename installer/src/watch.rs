//! Sees changes on the node, and folds bursts of them.
//!
//! An event is only a reason to look: what is to be done is found out by a
//! pass. So nothing is lost if events are (a full queue, inotify refused), it
//! only takes until the next resync or poll.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    ffi::OsString,
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::mpsc::{Receiver, RecvTimeoutError, Sender},
    time::{Duration, Instant, SystemTime},
};

use nix::sys::signal::Signal;
use notify::{Config, ErrorKind, Event, INotifyWatcher, RecursiveMode, Watcher as _};
use tracing::{info, warn};

mod event;

use event::changes;

/// A burst is over after this much quiet, and answered after this much time.
const QUIET: Duration = Duration::from_millis(10);
const FOLD: Duration = Duration::from_millis(100);

/// Why the installer wakes up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wake {
    /// A file in a watched directory, or the directory itself.
    Change(Change),
    /// A signal to leave.
    Leave(Signal),
}

/// A change as inotify names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// `CREATE`, `MODIFY`, `DELETE` and so on.
    pub kind: &'static str,
    /// The directory.
    pub dir: PathBuf,
    /// The name in it; empty if it is about the directory.
    pub name: OsString,
}

/// What a turn of the loop is for.
#[derive(Debug, PartialEq, Eq)]
pub enum Turn {
    /// These changes, or none if the time has come.
    Pass(Vec<Change>),
    /// A signal.
    Leave(Signal),
}

/// What tells a directory from another one of its name. The number alone does
/// not: file systems give that of a removed directory to the next one.
type Identity = (u64, u64, Option<SystemTime>);

/// Watches directories, also those that are removed and made again.
#[derive(Debug)]
pub struct Watches {
    wanted: Vec<PathBuf>,
    wake: Sender<Wake>,
    inotify: Option<INotifyWatcher>,
    watched: BTreeMap<PathBuf, Identity>,
    refused: bool,
}

// === impl Change ===

impl Change {
    /// The file, or the directory if it is about that.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        if self.name.is_empty() {
            self.dir.clone()
        } else {
            self.dir.join(&self.name)
        }
    }
}

// === impl Watches ===

impl Watches {
    /// Sets up the watches; [`Watches::renew`] keeps them up.
    #[must_use]
    pub fn new(wanted: Vec<PathBuf>, wake: Sender<Wake>) -> Self {
        info!("Setting up watches.");
        let mut watches = Self {
            wanted,
            wake,
            inotify: None,
            watched: BTreeMap::new(),
            refused: false,
        };
        watches.renew(&[]);
        if !watches.refused {
            info!("Watches established.");
        }
        watches
    }

    /// Whether changes have to be looked for.
    #[must_use]
    pub fn polls(&self) -> bool {
        self.refused
    }

    /// Watches what is not watched (any more), after these changes. If that is
    /// refused, says so once and leaves it to polling.
    pub fn renew(&mut self, changes: &[Change]) {
        let before = self.refused;
        let gone = changes.iter().filter(|change| change.name.is_empty());
        let result = self.try_renew(gone.map(|change| change.dir.as_path()).collect());
        self.refused = result.is_err();
        match result {
            Err(e) if !before => warn!(
                "inotify is refused ({e}); polling instead. Look at fs.inotify.max_user_instances and max_user_watches \
                 on the host, and for SELinux denials",
            ),
            Ok(()) if before => info!("Watches established."),
            _ => {}
        }
        if self.refused {
            (self.inotify, self.watched) = (None, BTreeMap::new());
        }
    }

    fn try_renew(&mut self, changed: Vec<&Path>) -> notify::Result<()> {
        let wanted: Vec<_> = self.wanted.iter().filter_map(|dir| nearest(dir)).collect();
        let current = |(path, id): (&PathBuf, &Identity)| {
            !changed.contains(&path.as_path()) && wanted.iter().any(|(p, i)| p == path && i == id)
        };
        let watched = self.watched.iter();
        let gone: Vec<_> = watched
            .filter(|w| !current(*w))
            .map(|(path, _)| path.clone())
            .collect();
        let inotify = match &mut self.inotify {
            Some(inotify) => inotify,
            none => none.insert(start(self.wanted.clone(), self.wake.clone())?),
        };
        for path in gone {
            self.watched.remove(&path);
            // The kernel has dropped the watch if the directory is gone.
            let _ = inotify.unwatch(&path);
        }
        for (path, id) in wanted {
            if let Entry::Vacant(unwatched) = self.watched.entry(path) {
                match inotify.watch(unwatched.key(), RecursiveMode::NonRecursive) {
                    Ok(()) => _ = unwatched.insert(id),
                    // Gone just now: the next pass watches what is there then.
                    Err(e) if matches!(e.kind, ErrorKind::PathNotFound) => {}
                    Err(e) => return Err(e),
                }
            }
        }
        Ok(())
    }
}

/// Waits for something to do, until the deadline at the latest.
pub fn next(events: &Receiver<Wake>, deadline: Instant) -> Turn {
    let mut changes = Vec::new();
    let mut until = deadline;
    let mut end = deadline;
    loop {
        let wait = until.saturating_duration_since(Instant::now());
        match events.recv_timeout(wait) {
            Ok(Wake::Leave(signal)) => return Turn::Leave(signal),
            Ok(Wake::Change(change)) => {
                let now = Instant::now();
                if changes.is_empty() {
                    end = now + FOLD;
                }
                until = (now + QUIET).min(end);
                if !changes.contains(&change) {
                    changes.push(change);
                }
            }
            Err(RecvTimeoutError::Timeout) => return Turn::Pass(changes),
            // There is always a sender: the watches hold one.
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(wait),
        }
    }
}

fn start(wanted: Vec<PathBuf>, wake: Sender<Wake>) -> notify::Result<INotifyWatcher> {
    let handler = move |event: notify::Result<Event>| {
        for change in event.iter().flat_map(|event| changes(event, &wanted)) {
            // Nobody listens only at the end of the process.
            let _ = wake.send(Wake::Change(change));
        }
    };
    INotifyWatcher::new(handler, Config::default())
}

/// The directory to watch: the wanted one, or, while it is missing, the
/// nearest one above it, in which it will appear.
fn nearest(dir: &Path) -> Option<(PathBuf, Identity)> {
    dir.ancestors().find_map(|path| {
        let metadata = fs::metadata(path).ok().filter(fs::Metadata::is_dir)?;
        let identity = (metadata.dev(), metadata.ino(), metadata.created().ok());
        Some((path.to_owned(), identity))
    })
}
