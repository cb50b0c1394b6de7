//! What was decided for an attachment, for DEL, CHECK and people (plugin.md 4).
//!
//! A record that is missing, of another version or broken is never an error: everything it is
//! used for has another way.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use proxy_init_rules::{Config, Family, NatTable, RuleSet};
use serde::{Deserialize, Serialize};

use crate::{
    cni::{Attachment, PodRef},
    decision::Pass,
    firewall::BackendKind,
};

/// Where the records are. Gone after a reboot, as the namespaces are.
pub(crate) const DIRECTORY: &str = "/run/linkerd-cni";

/// The version of the layout. Others are not read.
const SCHEMA: u32 = 1;

/// What ADD decided, and what it did.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The version of this layout.
    pub schema: u32,
    /// `CNI_CONTAINERID`.
    pub container_id: String,
    /// `CNI_IFNAME`.
    pub ifname: String,
    /// The network's name.
    pub network: String,
    /// `CNI_NETNS`.
    pub netns: PathBuf,
    /// The pod, if the runtime named one.
    pub pod: Option<RecordedPod>,
    /// What was decided.
    pub decision: Decision,
    /// When, in UTC (RFC 3339).
    pub time: String,
    /// How long it took.
    pub milliseconds: Phases,
}

/// The pod of a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RecordedPod {
    pub namespace: String,
    pub name: String,
    pub uid: Option<String>,
}

/// What was decided for a pod.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "lowercase")]
pub(crate) enum Decision {
    /// Its traffic is redirected.
    Redirect {
        /// By which backend.
        backend: BackendKind,
        /// The configuration that held, with what the annotations changed.
        config: serde_json::Value,
        /// The rules of each family that was programmed.
        rules: Vec<RecordedRules>,
        /// What there is to know of the pod: ADD warned of it. Earlier versions kept none.
        #[serde(default)]
        notes: Vec<String>,
    },
    /// It was passed on.
    Pass {
        /// Why.
        why: Pass,
    },
}

/// The rules of one family, as `iptables-restore` takes them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RecordedRules {
    /// Of which family.
    pub family: Family,
    /// A line each.
    pub rules: Vec<String>,
}

/// How long each part of an ADD took, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Phases {
    /// Asking the API server.
    pub api: f64,
    /// Programming the rules.
    pub rules: f64,
    /// Everything, up to the record.
    pub total: f64,
}

/// The directory of records.
#[derive(Debug, Clone)]
pub(crate) struct Records {
    directory: PathBuf,
}

// === impl Records ===

impl Records {
    /// The records in a directory, which need not be there yet.
    #[must_use]
    pub(crate) fn in_directory(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
        }
    }

    /// Writes a record, in place of an earlier one of the same attachment. A reader sees the one
    /// or the other.
    ///
    /// # Errors
    /// The directory or the file cannot be written.
    pub(crate) fn write(&self, record: &Record) -> io::Result<()> {
        self.create_directory()?;
        let path = self.path(&record.container_id, &record.ifname);
        let temporary = path.with_extension("json.tmp");
        let text = serde_json::to_vec_pretty(record)?;
        let written = write_new(&temporary, &text).and_then(|()| fs::rename(&temporary, &path));
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written
    }

    /// The record of an attachment, if there is one that can be read.
    #[must_use]
    pub(crate) fn read(&self, container_id: &str, ifname: &str) -> Option<Record> {
        read(&self.path(container_id, ifname))
    }

    /// Removes the record of an attachment, if there is one.
    ///
    /// # Errors
    /// It is there and stays there.
    pub(crate) fn remove(&self, container_id: &str, ifname: &str) -> io::Result<()> {
        let path = self.path(container_id, ifname);
        let removed = absent_is_fine(fs::remove_file(&path));
        // Left by an ADD that was killed while it wrote.
        removed.and(absent_is_fine(fs::remove_file(
            path.with_extension("json.tmp"),
        )))
    }

    /// All records that can be read, by file name.
    #[must_use]
    pub(crate) fn all(&self) -> Vec<Record> {
        self.files().iter().filter_map(|path| read(path)).collect()
    }

    /// The files of records that cannot be read, by name.
    #[must_use]
    pub(crate) fn broken(&self) -> Vec<PathBuf> {
        let files = self.files().into_iter();
        files.filter(|path| read(path).is_none()).collect()
    }

    fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.directory)
            .into_iter()
            .flatten()
            .flatten();
        let paths = entries.map(|entry| entry.path());
        let mut files: Vec<PathBuf> = paths
            .filter(|path| path.extension().is_some_and(|e| e == "json"))
            .collect();
        files.sort();
        files
    }

    /// Whether another attachment of the same container has a record of a redirect: the rules
    /// belong to the namespace, which they share.
    #[must_use]
    pub(crate) fn others_of(&self, attachment: &Attachment) -> bool {
        self.all().iter().any(|record| {
            record.container_id == attachment.container_id
                && record.ifname != attachment.ifname
                && matches!(record.decision, Decision::Redirect { .. })
        })
    }

    fn path(&self, container_id: &str, ifname: &str) -> PathBuf {
        self.directory.join(format!("{container_id}-{ifname}.json"))
    }

    fn create_directory(&self) -> io::Result<()> {
        match DirBuilder::new().mode(0o700).create(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let mode = fs::metadata(&self.directory)?.permissions().mode();
                if mode & 0o777 == 0o700 {
                    return Ok(());
                }
            }
            other => other?,
        }
        // Whatever the umask says, or whoever made it.
        fs::set_permissions(&self.directory, fs::Permissions::from_mode(0o700))
    }
}

fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    // Whatever the umask says, or whoever left it there.
    file.set_permissions(fs::Permissions::from_mode(0o600))?;
    file.write_all(content)
}

fn read(path: &Path) -> Option<Record> {
    let record: Record = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    (record.schema == SCHEMA).then_some(record)
}

fn absent_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

// === impl Record ===

impl Record {
    /// A record of what was decided for an attachment, `now`.
    #[must_use]
    pub(crate) fn new(
        attachment: &Attachment,
        network: &str,
        decision: Decision,
        now: String,
        milliseconds: Phases,
    ) -> Self {
        Self {
            schema: SCHEMA,
            container_id: attachment.container_id.clone(),
            ifname: attachment.ifname.clone(),
            network: network.to_owned(),
            netns: attachment.netns.clone().unwrap_or_default(),
            pod: attachment.pod.as_ref().map(RecordedPod::from),
            decision,
            time: now,
            milliseconds,
        }
    }
}

impl From<&PodRef> for RecordedPod {
    fn from(pod: &PodRef) -> Self {
        Self {
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            uid: pod.uid.clone(),
        }
    }
}

// === impl Decision ===

impl Decision {
    /// A redirect with these rules.
    #[must_use]
    pub(crate) fn redirect(backend: BackendKind, config: &Config, rules: &[RuleSet]) -> Self {
        let rules = rules.iter().map(|set| RecordedRules {
            family: set.family(),
            rules: set.rules().iter().map(ToString::to_string).collect(),
        });
        Self::Redirect {
            backend,
            config: serde_json::to_value(config).unwrap_or_default(),
            rules: rules.collect(),
            notes: Vec::new(),
        }
    }

    /// What there is to know of the pod.
    #[must_use]
    pub(crate) fn notes(&self) -> &[String] {
        match self {
            Self::Redirect { notes, .. } => notes,
            Self::Pass { .. } => &[],
        }
    }

    /// The same, with what there is to know of the pod.
    #[must_use]
    pub(crate) fn noting(mut self, warnings: &[String]) -> Self {
        if let Self::Redirect { notes, .. } = &mut self {
            notes.extend_from_slice(warnings);
        }
        self
    }
}

// === impl RecordedRules ===

impl RecordedRules {
    /// The rules as values; those that a later version of this program no longer knows are left
    /// out.
    #[must_use]
    pub(crate) fn rule_set(&self) -> RuleSet {
        let text = format!("*nat\n{}\n", self.rules.join("\n"));
        let table = NatTable::parse(&text, self.family);
        table
            .unwrap_or_else(|_| NatTable::empty(self.family))
            .rule_set()
    }
}

#[cfg(test)]
mod tests;
