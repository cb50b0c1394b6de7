//! What the loop wants of the thread that keeps the taint.

use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use crate::cluster::Wanted;

/// Between two requests lies this at the least, whatever happens on the node.
const PAUSE: Duration = Duration::from_secs(1);

/// Shared by the two.
#[derive(Debug, Default)]
pub(super) struct Wish {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    wanted: Option<Wanted>,
    over: bool,
}

// === impl Wish ===

impl Wish {
    /// Wants something else from now on; `None` is nothing.
    pub(super) fn set(&self, wanted: Option<Wanted>) {
        let mut state = self.state();
        if state.wanted != wanted {
            state.wanted = wanted;
            self.changed.notify_all();
        }
    }

    /// Wants nothing any more.
    pub(super) fn end(&self) {
        self.state().over = true;
        self.changed.notify_all();
    }

    /// Waits until there is something to do: what was tried last comes again when it is due, and
    /// something else after a pause. `None` is the end.
    pub(super) fn wait(&self, tried: Option<Wanted>, due: Instant) -> Option<Wanted> {
        let pause = Instant::now()
            + if tried.is_some() {
                PAUSE
            } else {
                Duration::ZERO
            };
        let mut state = self.state();
        loop {
            if state.over {
                return None;
            }
            let Some(wanted) = state.wanted else {
                let waited = self.changed.wait(state);
                state = waited.unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let due = if tried == Some(wanted) { due } else { pause };
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Some(wanted);
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
