//! How the loop does, for those who ask over HTTP.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use crate::status::{Check, Level};

/// What a pass may take on a busy machine, beyond three intervals without one.
const SLACK: Duration = Duration::from_secs(30);

/// Shared by the loop and the server.
#[derive(Debug)]
pub struct Health {
    patience: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    turned: Instant,
    faults: Vec<String>,
    notes: Vec<String>,
    taint: String,
}

// === impl Health ===

impl Health {
    /// The health of a loop that turns every so often, and has not yet.
    #[must_use]
    pub fn new(resync: Duration) -> Self {
        Self {
            patience: resync * 3 + SLACK,
            state: Mutex::new(State {
                turned: Instant::now(),
                faults: vec!["installer: the first pass is not over".to_owned()],
                notes: Vec::new(),
                taint: String::new(),
            }),
        }
    }

    /// Notes that the loop has turned, and what is not as it should be.
    pub fn turned(&self, checks: &[Check]) {
        let lines = |wanted: &dyn Fn(&Check) -> bool| {
            let checks = checks.iter().filter(|check| wanted(check));
            checks.map(|c| format!("{}: {}", c.what, c.how)).collect()
        };
        let mut state = self.state();
        state.turned = Instant::now();
        state.faults = lines(&Check::is_fault);
        state.notes = lines(&|check| check.level == Level::Note);
    }

    /// Notes what is to be said of the taint; nothing is to be said if it is empty.
    pub fn taint(&self, note: &str) {
        note.clone_into(&mut self.state().taint);
    }

    /// Notes that the installer is about to go.
    pub fn leaves(&self) {
        self.state().faults = vec!["installer: is leaving".to_owned()];
    }

    /// Why the node is not ready; nothing if it is.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        self.state().faults.clone()
    }

    /// What is no fault and yet worth a line.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let state = self.state();
        let taint = (!state.taint.is_empty()).then(|| format!("taint: {}", state.taint));
        state.notes.iter().cloned().chain(taint).collect()
    }

    /// For how long the loop has not turned, if that is too long.
    #[must_use]
    pub fn stuck(&self, now: Instant) -> Option<Duration> {
        let since = now.saturating_duration_since(self.state().turned);
        (since > self.patience).then_some(since)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_that_does_not_turn_for_three_intervals_is_stuck() {
        let health = Health::new(Duration::from_secs(10));
        let start = Instant::now();
        assert_eq!(health.stuck(start + Duration::from_secs(59)), None);
        assert!(health.stuck(start + Duration::from_secs(61)).is_some());
    }

    #[test]
    fn nothing_is_ready_before_the_first_pass_and_on_leaving() {
        let health = Health::new(Duration::from_secs(10));
        assert_eq!(health.faults().len(), 1);
        let check = |level| Check {
            level,
            what: "kubeconfig",
            how: "is old".to_owned(),
        };
        health.turned(&[check(Level::Good)]);
        assert!(health.faults().is_empty());
        health.turned(&[check(Level::Good), check(Level::Fault), check(Level::Note)]);
        assert_eq!(health.faults(), ["kubeconfig: is old"]);
        health.taint("stays");
        assert_eq!(health.notes(), ["kubeconfig: is old", "taint: stays"]);
        health.turned(&[]);
        health.leaves();
        assert_eq!(health.faults(), ["installer: is leaving"]);
    }
}
