//! What keeps the log short.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// What was said about each subject, so that it is said once.
#[derive(Debug, Default)]
pub struct Said {
    before: BTreeMap<String, String>,
    now: BTreeMap<String, String>,
}

// === impl Said ===

impl Said {
    /// Notes what is the case in this pass, and tells whether it is new.
    pub fn is_new(&mut self, subject: &str, what: String) -> bool {
        let new = self.before.get(subject) != Some(&what);
        self.now.insert(subject.to_owned(), what);
        new
    }

    /// Ends a pass: what was not noted in it is no longer the case, unless the
    /// pass did not come that far.
    pub fn end(&mut self, complete: bool) {
        let now = std::mem::take(&mut self.now);
        if complete {
            self.before = now;
        } else {
            self.before.extend(now);
        }
    }
}

/// Keeps a busy directory from filling the log: a burst is written whole, and
/// then a line every two seconds on average.
#[derive(Debug)]
pub struct Budget {
    burst: u32,
    lines: u32,
    since: Instant,
    left_out: u32,
}

const LINE: Duration = Duration::from_secs(2);

// === impl Budget ===

impl Budget {
    /// A budget that lets so many lines through at once.
    #[must_use]
    pub fn new(burst: u32) -> Self {
        Self {
            burst,
            lines: burst,
            since: Instant::now(),
            left_out: 0,
        }
    }

    /// Whether a line may be written, and how many were left out before it.
    pub fn take(&mut self, now: Instant) -> Option<u32> {
        let earned = u32::try_from(now.duration_since(self.since).as_secs() / LINE.as_secs())
            .unwrap_or(self.burst);
        self.lines = (self.lines + earned).min(self.burst);
        self.since += LINE * earned;
        match self.lines.checked_sub(1) {
            Some(lines) => {
                self.lines = lines;
                Some(std::mem::take(&mut self.left_out))
            }
            None => {
                self.left_out += 1;
                None
            }
        }
    }

    /// Writes a line at info if there is room for it, and at debug if not.
    pub fn say(&mut self, line: &str) {
        match self.take(Instant::now()) {
            Some(0) => tracing::info!("{line}"),
            Some(left_out) => tracing::info!(left_out, "{line}"),
            None => tracing::debug!("{line}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thing_is_said_once_until_it_changes() {
        let mut said = Said::default();
        assert!(said.is_new("a", "x".into()));
        said.end(true);
        assert!(!said.is_new("a", "x".into()));
        said.end(true);
        assert!(said.is_new("a", "y".into()));
        said.end(true);
        said.end(false);
        assert!(!said.is_new("a", "y".into()));
        said.end(true);
        said.end(true);
        assert!(said.is_new("a", "y".into()));
    }

    #[test]
    fn a_busy_directory_gets_a_line_every_two_seconds() {
        let mut budget = Budget::new(30);
        let start = budget.since;
        let written = (0..6000)
            .filter(|ms| {
                budget
                    .take(start + Duration::from_millis(ms * 10))
                    .is_some()
            })
            .count();
        assert_eq!(written, 30 + 29);
    }
}
