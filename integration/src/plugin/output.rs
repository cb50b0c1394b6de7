//! What a call of the plugin came to, and what a test expects of it.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use serde_json::Value;

use crate::process::Finished;

/// What a call came to.
#[derive(Debug)]
pub struct Output {
    /// The exit status; `None` if it was killed by a signal.
    pub exit: Option<i32>,
    /// Whatever stood on stdout, as text.
    pub stdout: String,
    /// The one JSON document on stdout, or `None` if stdout was empty.
    pub json: Option<Value>,
    /// The log.
    pub stderr: String,
    /// From spawn to exit.
    pub elapsed: Duration,
}

// === impl Output ===

impl Output {
    /// Reads a finished call.
    ///
    /// # Panics
    ///
    /// If it had to be killed, or stdout is more than one JSON document.
    pub fn of(finished: Finished) -> Self {
        let stdout = String::from_utf8(finished.stdout).expect("stdout is UTF-8");
        let stderr = String::from_utf8_lossy(&finished.stderr).into_owned();
        let status = finished
            .status
            .unwrap_or_else(|| panic!("still running at the deadline; log:\n{stderr}"));
        let json = (!stdout.is_empty()).then(|| {
            serde_json::from_str(&stdout).unwrap_or_else(|error| {
                panic!("stdout is not one JSON document ({error}):\n{stdout}\nlog:\n{stderr}")
            })
        });
        if let Some(signal) = status.signal() {
            panic!("killed by signal {signal}; log:\n{stderr}");
        }
        Self {
            exit: status.code(),
            stdout,
            json,
            stderr,
            elapsed: finished.elapsed,
        }
    }

    /// The error code on stdout, if there is one.
    pub fn code(&self) -> Option<u64> {
        self.json.as_ref()?.get("code")?.as_u64()
    }

    /// The error's `msg`; empty if there is none.
    pub fn msg(&self) -> &str {
        self.field("msg")
    }

    /// The error's `details`; empty if there are none.
    pub fn details(&self) -> &str {
        self.field("details")
    }

    /// Expects each of `words` in the error's `msg` or `details`.
    ///
    /// # Panics
    ///
    /// If one is missing; with the whole output.
    #[track_caller]
    pub fn says(&self, words: &[&str]) -> &Self {
        let said = format!("{} {}", self.msg(), self.details()).to_lowercase();
        for word in words {
            assert!(
                said.contains(&word.to_lowercase()),
                "error does not name {word:?}: {self:#?}",
            );
        }
        self
    }

    /// Expects each of `words` in the log.
    ///
    /// # Panics
    ///
    /// If one is missing; with the whole output.
    #[track_caller]
    pub fn logs(&self, words: &[&str]) -> &Self {
        for word in words {
            assert!(self.stderr.contains(word), "log lacks {word:?}: {self:#?}");
        }
        self
    }

    /// Expects that it took at most this long.
    ///
    /// # Panics
    ///
    /// If it took longer.
    #[track_caller]
    pub fn within(&self, limit: Duration) -> &Self {
        assert!(self.elapsed <= limit, "took {:?}: {self:#?}", self.elapsed);
        self
    }

    fn field(&self, name: &str) -> &str {
        self.json
            .as_ref()
            .and_then(|json| json.get(name)?.as_str())
            .unwrap_or_default()
    }
}
