//! One reconcile, no event handlers: reads, compares, and does only what
//! differs, in the order executable, kubeconfig, configuration, so that no
//! configuration ever names an executable that is not there (installer.md 2).

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::{OsStr, OsString},
    sync::Arc,
    time::Instant,
};

use ::time::{OffsetDateTime, format_description::well_known::Rfc3339};
use tracing::{info, warn};

use crate::{
    conflist::Entry,
    desired::{self, Source},
    fight::Fights,
    files::{self, FileError, Intact},
    kubeconfig::{Freshness, Missing},
    log::{Budget, Said},
    plan::INTERFACE_MODE,
    settings::Settings,
    snapshot::Signature,
    status::{self, Check},
    swapped::Swapped,
};

mod configurations;
mod observe;

pub use observe::{is_read, observe, plan};

/// Keeps what has to be remembered between two passes. What should be on the
/// node is not among it: that is found out anew each time.
#[derive(Debug)]
pub struct Reconciler {
    settings: Settings,
    source: Source,
    swapped: Arc<Swapped>,
    intact: Intact,
    said: Said,
    shown: String,
    fights: Fights,
    /// For what others do; a busy directory would fill the log.
    pub events: Budget,
    /// For what we do about it.
    actions: Budget,
    known: BTreeMap<OsString, Signature>,
    /// The configurations that were chained at the end of the last pass.
    chained: BTreeSet<OsString>,
    /// What `status` was told last; at first that is not known.
    noted: Option<String>,
}

/// How a pass went.
#[derive(Debug, Default)]
pub struct Pass {
    /// Something was written.
    pub changed: bool,
    /// A step could not be done.
    pub held: bool,
    /// When there is something to be done before the next resync.
    pub again: Option<Instant>,
    /// How many configurations are chained, if the pass came that far.
    pub chained: Option<usize>,
    /// How many were chained by us before and had to be chained again.
    pub undone: u64,
    /// When the token in the kubeconfig ends, in seconds since 1970.
    pub token_expiry: Option<u64>,
}

/// Why a step could not be done.
#[derive(Debug, thiserror::Error)]
enum Held {
    #[error("no executable is installed: {0}")]
    Executable(FileError),
    #[error("no kubeconfig yet, and so no configuration is chained: {0}")]
    Missing(#[from] Missing),
    #[error("no configuration is chained: {0}")]
    Namespace(Missing),
    #[error("the kubeconfig is not written, and so no configuration is chained: {0}")]
    Kubeconfig(FileError),
    #[error("no configuration is chained: {0}")]
    Directory(FileError),
}

// === impl Reconciler ===

impl Reconciler {
    /// Nothing is done before the first pass.
    #[must_use]
    pub fn new(settings: Settings, source: Source) -> Self {
        Self {
            swapped: Arc::new(Swapped::new(&settings)),
            settings,
            source,
            intact: Intact::default(),
            said: Said::default(),
            shown: String::new(),
            fights: Fights::default(),
            events: Budget::new(30),
            actions: Budget::new(60),
            known: BTreeMap::new(),
            chained: BTreeSet::new(),
            noted: None,
        }
    }

    /// The settings it works with.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Who is to hear what the plugin complains of.
    #[must_use]
    pub fn swapped(&self) -> Arc<Swapped> {
        Arc::clone(&self.swapped)
    }

    /// Removes what the dropped interface mode left, see [`INTERFACE_MODE`].
    ///
    /// # Errors
    ///
    /// It is there, and cannot be removed.
    pub fn remove_interface_mode(&self) -> Result<(), FileError> {
        let path = self.settings.net_dir.join(INTERFACE_MODE);
        if files::remove(&path)? {
            info!("Cleaning up {}", path.display());
        }
        Ok(())
    }

    /// Removes leftovers; nothing depends on it, so a failure is only said.
    pub fn remove_leftovers(&self) {
        for dir in [&self.settings.net_dir, &self.settings.bin_dir] {
            match files::remove_leftovers(dir, &self.settings.kubeconfig) {
                Ok(removed) => removed
                    .iter()
                    .for_each(|path| info!("Removed leftover {}", path.display())),
                Err(e) => warn!("Leftovers stay: {e}"),
            }
        }
    }

    /// Brings the node to where it should be, as far as that can be done now.
    pub fn pass(&mut self, renewed: &[OsString]) -> Pass {
        let mut pass = Pass::default();
        self.fights.settle(Instant::now());
        let steps = self.steps(renewed, &mut pass);
        if let Err(held) = &steps {
            pass.held = true;
            self.warn("", held.to_string());
        }
        self.said.end(steps.is_ok());
        self.note_state();
        pass
    }

    /// Whether a file is not as the last pass left it. One that is fought over
    /// never is: that was said once, and is enough.
    #[must_use]
    pub fn is_news(&self, name: &OsStr, now: Option<Signature>) -> bool {
        self.known.get(name).copied() != now && !self.is_fought(name)
    }

    fn is_fought(&self, name: &OsStr) -> bool {
        self.fights.files().any(|file| file == name)
    }

    fn steps(&mut self, renewed: &[OsString], pass: &mut Pass) -> Result<(), Held> {
        pass.changed |= self.executables().map_err(Held::Executable)?;
        pass.changed |= self.kubeconfig(pass)?;
        let namespace = desired::namespace(&self.settings).map_err(Held::Namespace)?;
        // It was checked at start; only the namespace is new.
        let Ok(template) = self.source.fill(&self.settings, &namespace) else {
            return Ok(());
        };
        if template.shown != self.shown {
            info!("Using CNI config template from {}.", self.source.origin);
            info!("CNI config: {}", template.shown);
            if template.wants_token {
                warn!(
                    "__SERVICEACCOUNT_TOKEN__ is left as it stands: nothing reads it, and a CNI configuration is readable by everyone. Take it out of the template"
                );
            }
            self.shown = template.shown;
        }
        self.configurations(&template.entry, renewed, pass)
    }

    fn executables(&mut self) -> Result<bool, FileError> {
        let Settings {
            source_dir,
            bin_dir,
            ..
        } = &self.settings;
        let mut wrote = false;
        for source in files::regular_files(source_dir)? {
            let target = bin_dir.join(source.file_name().unwrap_or_default());
            if files::is_intact(&source, &target, &mut self.intact)? {
                continue;
            }
            files::make_directory(bin_dir)?;
            files::install_executable(&source, &target)?;
            wrote = true;
        }
        if wrote {
            self.actions.say(&format!(
                "Wrote linkerd CNI binaries to {}",
                bin_dir.display()
            ));
        }
        Ok(wrote)
    }

    fn kubeconfig(&mut self, pass: &mut Pass) -> Result<bool, Held> {
        let wanted = desired::kubeconfig(&self.settings)?;
        pass.token_expiry = wanted.expiry;
        let Settings {
            kubeconfig: path,
            kubeconfig_mode: mode,
            ..
        } = &self.settings;
        let wrote = !files::holds(path, wanted.text.as_bytes(), *mode);
        if wrote {
            files::write(path, wanted.text.as_bytes(), *mode).map_err(Held::Kubeconfig)?;
            self.actions
                .say(&format!("Wrote kubeconfig {}", path.display()));
        }
        if let Some(what) = stale(wanted.freshness) {
            self.warn("token", what);
        }
        if let Some(what) = wanted.complaint {
            self.warn("CA", what);
        }
        Ok(wrote)
    }

    fn configurations(
        &mut self,
        entry: &Entry,
        renewed: &[OsString],
        pass: &mut Pass,
    ) -> Result<(), Held> {
        configurations::chain(self, entry, renewed, pass).map_err(Held::Directory)
    }

    fn warn(&mut self, subject: &str, what: String) {
        if self.said.is_new(subject, what.clone()) {
            warn!("{what}");
        }
    }

    /// Looks at what `status` looks at.
    pub fn look(&mut self) -> Vec<Check> {
        let notes = self.notes();
        status::look(&self.settings, &mut self.intact, &notes)
    }

    /// What `status` cannot see by itself.
    fn notes(&self) -> String {
        let notes: Vec<_> = self
            .fights
            .files()
            .map(|file| {
                format!(
                    "another writer keeps undoing {}\n",
                    self.settings.net_dir.join(file).display()
                )
            })
            .chain(self.swapped.what(Instant::now()).map(|what| what + "\n"))
            .collect();
        notes.concat()
    }

    fn note_state(&mut self) {
        let note = self.notes();
        if self.noted.as_ref() != Some(&note)
            && files::note(&self.settings.state_dir.join("not-ready"), &note).is_ok()
        {
            self.noted = Some(note);
        }
    }
}

/// What is wrong with a token, in words without this node's time: that would
/// make it a new warning at every pass, and stands before each line of the log.
#[must_use]
pub fn stale(freshness: Freshness) -> Option<String> {
    let what = match freshness {
        Freshness::Good => return None,
        Freshness::EndsSoon { .. } => "expires in less than 5 minutes:".to_owned(),
        Freshness::Expired { end } => {
            format!(
                "has expired, at {}: is this node's clock right? If it is,",
                written(end)
            )
        }
        Freshness::NotYetValid { start } => {
            format!(
                "is not valid before {}: is this node's clock right? If it is,",
                written(start)
            )
        }
    };
    Some(format!(
        "the service account's token {what} kubelet should have renewed it; pods will not start on this node without a valid one"
    ))
}

/// A time in seconds since 1970, in UTC.
fn written(seconds: u64) -> String {
    let time = i64::try_from(seconds)
        .ok()
        .and_then(|s| OffsetDateTime::from_unix_timestamp(s).ok());
    time.and_then(|time| time.format(&Rfc3339).ok())
        .unwrap_or_default()
}
