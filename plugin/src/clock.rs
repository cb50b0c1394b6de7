//! Times the phases of one run.

use std::time::{Duration, Instant};

use crate::record::Phases;

/// A clock that was started with the run.
pub(crate) struct Clock {
    started: Instant,
    api: Duration,
    rules: Duration,
}

/// A part of an ADD that is timed by itself.
#[derive(Clone, Copy)]
pub(crate) enum Phase {
    /// Asking the API server.
    Api,
    /// Programming the rules.
    Rules,
}

// === impl Clock ===

impl Clock {
    /// Starts one.
    pub(crate) fn start() -> Self {
        Self {
            started: Instant::now(),
            api: Duration::ZERO,
            rules: Duration::ZERO,
        }
    }

    /// Does some work, and notes how long it took.
    pub(crate) fn time<T>(&mut self, phase: Phase, work: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let done = work();
        let took = started.elapsed();
        match phase {
            Phase::Api => self.api = took,
            Phase::Rules => self.rules = took,
        }
        done
    }

    /// How long each part took so far.
    pub(crate) fn phases(&self) -> Phases {
        Phases {
            api: milliseconds(self.api),
            rules: milliseconds(self.rules),
            total: milliseconds(self.started.elapsed()),
        }
    }
}

/// To a hundredth: what is behind it is noise.
fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 100_000.0).round() / 100.0
}
