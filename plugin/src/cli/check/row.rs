//! What is found out about one attachment.

use std::path::PathBuf;

use crate::{attachments::Known, cni::PodRef, comparison::Finding, firewall::BackendKind};

/// What is found out about one attachment.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) pod: Option<PodRef>,
    pub(super) container_id: Option<String>,
    pub(super) ifname: Option<String>,
    pub(super) netns: Option<PathBuf>,
    pub(super) is_recorded: bool,
    pub(super) time: Option<String>,
    pub(super) meshed: Meshed,
    pub(super) backend: Option<BackendKind>,
    pub(super) state: State,
    pub(super) findings: Vec<Finding>,
    pub(super) notes: Vec<String>,
}

/// Whether the pod is meshed.
#[derive(Debug)]
pub(super) enum Meshed {
    Yes,
    /// Not, and why not.
    No(String),
    /// Nobody tells.
    Unknown,
}

/// What the comparison came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// As it should be.
    Ok,
    /// Not as it should be.
    Different,
    /// It is not known how it should be.
    Unknown,
    /// The namespace is gone.
    Gone,
    /// The rules cannot be read.
    Failed,
}

// === impl Row ===

impl Row {
    /// A row of which nothing but the attachment is known yet.
    pub(super) fn of(known: &Known) -> Self {
        let broken = known.broken.as_ref().map(|file| {
            format!(
                "the record {} cannot be read; it is passed over",
                file.display()
            )
        });
        Self {
            pod: known.pod.clone(),
            container_id: known.container_id.clone(),
            ifname: known.ifname.clone(),
            netns: known.netns.clone(),
            is_recorded: known.record.is_some(),
            time: known.record.as_ref().map(|record| record.time.clone()),
            meshed: Meshed::Unknown,
            backend: None,
            state: State::Unknown,
            findings: Vec::new(),
            notes: broken.into_iter().collect(),
        }
    }

    /// The same row with this state, and a note that says why.
    pub(super) fn noted(mut self, state: State, note: impl Into<String>) -> Self {
        self.state = state;
        self.notes.push(note.into());
        self
    }

    /// The same row, and what else there is to say.
    pub(super) fn remarked(mut self, notes: impl IntoIterator<Item = String>) -> Self {
        self.notes.extend(notes);
        self
    }

    /// The same row for a pod that is meshed or not, and as it should be.
    pub(super) fn fine(mut self, meshed: Meshed) -> Self {
        self.meshed = meshed;
        self.state = State::Ok;
        self
    }

    /// The same row for a meshed pod that was compared.
    pub(super) fn compared(mut self, backend: Option<BackendKind>, findings: Vec<Finding>) -> Self {
        self.meshed = Meshed::Yes;
        self.backend = backend;
        self.differing(findings)
    }

    /// The same row with these differences, if there are any.
    pub(super) fn differing(mut self, findings: Vec<Finding>) -> Self {
        self.state = if findings.is_empty() {
            State::Ok
        } else {
            State::Different
        };
        self.findings = findings;
        self
    }
}

// === impl State ===

impl State {
    /// In a word that does not change between releases.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Different => "different",
            Self::Unknown => "unknown",
            Self::Gone => "gone",
            Self::Failed => "failed",
        }
    }
}
