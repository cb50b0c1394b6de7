//! A deadline for a traced program: its tracer waits without one.

use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// Kills the traced process group at the deadline.
pub(super) struct Watchdog {
    done: Arc<AtomicBool>,
    thread: thread::JoinHandle<bool>,
}

// === impl Watchdog ===

impl Watchdog {
    pub(super) fn start(child: &Child, deadline: Duration) -> Self {
        let until = Instant::now() + deadline;
        let done = Arc::new(AtomicBool::new(false));
        let finished = Arc::clone(&done);
        let group = Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX));
        let thread = thread::spawn(move || {
            while !finished.load(Ordering::Relaxed) {
                if Instant::now() > until {
                    let _ = killpg(group, Signal::SIGKILL);
                    return true;
                }
                thread::sleep(Duration::from_millis(5));
            }
            false
        });
        Self { done, thread }
    }

    pub(super) fn stop(self) -> Result<()> {
        self.done.store(true, Ordering::Relaxed);
        match self.thread.join() {
            Ok(false) => Ok(()),
            _ => bail!("still running at the deadline"),
        }
    }
}
