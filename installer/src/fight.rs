//! Recognises another writer that keeps undoing us (installer.md 2).
//!
//! Answering each undoing at once would be a busy loop between two programs,
//! with a runtime that reloads its network configuration in the middle of it.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    time::{Duration, Instant},
};

const WINDOW: Duration = Duration::from_secs(60);
const UNDONE: usize = 5;
/// A meshed pod that starts between an undoing and our next write is in the
/// clear, so this is short. It is long for a runtime that loads the file anew.
const PAUSE: Duration = Duration::from_secs(1);

/// The files that we wrote lately.
#[derive(Debug, Default)]
pub struct Fights(BTreeMap<OsString, Writes>);

#[derive(Debug, Default)]
struct Writes {
    times: Vec<Instant>,
    fought: bool,
}

// === impl Fights ===

impl Fights {
    /// When the file may be written next; `None` is now.
    #[must_use]
    pub fn wait(&self, file: &OsStr, now: Instant) -> Option<Instant> {
        let writes = self.0.get(file)?;
        let until = *writes.times.last().filter(|_| writes.fought)? + PAUSE;
        (until > now).then_some(until)
    }

    /// Notes a write; true if it is the one by which a fight is recognised.
    pub fn wrote(&mut self, file: &OsStr, now: Instant) -> bool {
        let writes = self.0.entry(file.to_owned()).or_default();
        writes
            .times
            .retain(|time| now.duration_since(*time) < WINDOW);
        writes.times.push(now);
        let before = writes.fought;
        writes.fought |= writes.times.len() > UNDONE;
        writes.fought && !before
    }

    /// Forgets what is over; the files that are still fought over remain.
    pub fn settle(&mut self, now: Instant) {
        self.0.retain(|_, writes| {
            writes
                .times
                .last()
                .is_some_and(|t| now.duration_since(*t) < WINDOW)
        });
    }

    /// The files that are fought over.
    pub fn files(&self) -> impl Iterator<Item = &OsStr> {
        self.0
            .iter()
            .filter(|(_, writes)| writes.fought)
            .map(|(file, _)| file.as_os_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_undoings_in_a_minute_are_a_fight() {
        let (mut fights, start, file) = (Fights::default(), Instant::now(), OsStr::new("a"));
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(
            (0..6)
                .map(|s| fights.wrote(file, at(s)))
                .collect::<Vec<_>>(),
            [false, false, false, false, false, true]
        );
        assert_eq!(fights.wait(file, at(5)), Some(at(6)));
        for now in [6, 7, 8, 40, 99] {
            assert!(!fights.wrote(file, at(now)), "warned twice");
            assert_eq!(fights.wait(file, at(now)), Some(at(now + 1)));
        }
        assert_eq!(fights.wait(file, at(100)), None);
        assert_eq!(fights.files().count(), 1);
        fights.settle(at(160));
        assert_eq!(
            (fights.files().count(), fights.wait(file, at(160))),
            (0, None)
        );
    }

    #[test]
    fn an_agent_that_restarts_now_and_then_is_none() {
        let (mut fights, start) = (Fights::default(), Instant::now());
        assert!(
            (0..50).all(|n| !fights.wrote(OsStr::new("a"), start + Duration::from_secs(13 * n)))
        );
    }
}
