//! The labels, and how many combinations of them there may be.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

use prometheus_client::encoding::EncodeLabelSet;
use proxy_init_rules::report::{Outcome, Report};

/// How many combinations of labels are kept apart. What they hold comes from outside of the
/// process, and each costs memory here and in Prometheus.
pub(super) const MOST_SERIES: usize = 100;

/// What stands for a word that nobody of ours would say.
const OTHER: &str = "other";

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ResultLabels {
    pub(super) result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct BuildLabels {
    pub(super) version: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct NoLabels {}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
pub(super) struct AddLabels {
    pub(super) decision: &'static str,
    pub(super) reason: String,
    pub(super) backend: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct PhaseLabels {
    pub(super) phase: &'static str,
}

/// The combinations so far.
#[derive(Debug, Default)]
pub(super) struct Series(Mutex<BTreeSet<AddLabels>>);

// === impl AddLabels ===

impl AddLabels {
    /// The labels of a report; none if its decision is not known.
    pub(super) fn of(report: &Report) -> Option<Self> {
        let (decision, reason, backend) = match &report.outcome {
            Outcome::Redirect { backend, .. } => ("redirect", String::new(), word(backend)),
            Outcome::Pass { reason } => ("pass", word(reason), String::new()),
            Outcome::Error { code, .. } => ("error", code.to_string(), String::new()),
            Outcome::Unknown => return None,
        };
        Some(Self {
            decision,
            reason,
            backend,
        })
    }
}

// === impl Series ===

impl Series {
    /// The labels, or those that stand for all beyond the bound.
    pub(super) fn bound(&self, labels: AddLabels) -> AddLabels {
        let mut series = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if series.contains(&labels) {
            return labels;
        }
        if series.len() < MOST_SERIES {
            series.insert(labels.clone());
            return labels;
        }
        let other = || OTHER.to_owned();
        AddLabels {
            reason: other(),
            backend: other(),
            ..labels
        }
    }
}

fn word(text: &str) -> String {
    let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if text.len() <= 32 && text.bytes().all(fits) {
        text.to_owned()
    } else {
        OTHER.to_owned()
    }
}
