//! The signals that end the process.
//!
//! Blocked in every thread and taken by one that waits for them. As PID 1 the
//! kernel drops a signal that has neither a handler nor is blocked, so that a
//! plain process would never hear SIGTERM in a container.

use std::{sync::mpsc::Sender, thread};

use nix::sys::signal::{SigSet, Signal};

use crate::watch::Wake;

/// Blocks the signals; to be called before any other thread is started, which
/// then inherits it.
///
/// # Errors
///
/// What the system says.
pub fn block() -> nix::Result<SigSet> {
    let signals: SigSet = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP]
        .into_iter()
        .collect();
    signals.thread_block()?;
    Ok(signals)
}

/// Passes each signal on, from a thread that sleeps in the kernel.
///
/// # Errors
///
/// There can be no thread.
pub fn pass_on(signals: SigSet, wake: Sender<Wake>) -> std::io::Result<()> {
    let wait = move || {
        while let Ok(signal) = signals.wait() {
            if wake.send(Wake::Leave(signal)).is_err() {
                break;
            }
        }
    };
    thread::Builder::new()
        .name("signals".to_owned())
        .stack_size(64 << 10)
        .spawn(wait)
        .map(|_| ())
}
