//! What the server does wrong, where, and how often.

use std::time::Duration;

/// What the server does instead of answering as it should.
#[derive(Clone, Debug)]
pub enum Fault {
    /// Takes the connection and never says a word, not even TLS.
    HangBeforeTls,
    /// Resets the connection as soon as it is there.
    Reset,
    /// Reads the request and never answers it.
    HangAfterRequest,
    /// Answers with this status, as an API server does (a `Status` object).
    Status(u16),
    /// Answers with this status and a page of HTML, as a proxy does.
    Html(u16),
    /// Answers 200 with something that is JSON and no Kubernetes object.
    Json(String),
    /// Announces the whole answer, sends half of it, and closes.
    Truncated,
    /// Sends the right answer, one byte per this long.
    Slow(Duration),
}

/// Where a fault happens.
pub(super) enum Place {
    /// On this path, whatever the query.
    Path(String),
    /// Where path and query contain this.
    Part(String),
}

/// A fault, where it happens and how often.
pub(super) struct Planned {
    pub(super) fault: Fault,
    /// `None` is everywhere.
    pub(super) on: Option<Place>,
    /// `None` is for ever.
    pub(super) times: Option<usize>,
}

// === impl Planned ===

impl Planned {
    /// The fault, if it is due for this target; `None` as target means that the
    /// connection has just been made.
    pub(super) fn take(&mut self, target: Option<&str>) -> Option<Fault> {
        let covered = self.on.as_ref().is_none_or(|on| on.covers(target));
        if !covered || self.fault.is_before_request() != target.is_none() {
            return None;
        }
        if let Some(times) = &mut self.times {
            *times = times.checked_sub(1)?;
        }
        Some(self.fault.clone())
    }
}

// === impl Place ===

impl Place {
    fn covers(&self, target: Option<&str>) -> bool {
        target.is_some_and(|target| match self {
            Self::Path(path) => target.split('?').next() == Some(path),
            Self::Part(part) => target.contains(part),
        })
    }
}

// === impl Fault ===

impl Fault {
    fn is_before_request(&self) -> bool {
        matches!(self, Self::HangBeforeTls | Self::Reset)
    }
}
