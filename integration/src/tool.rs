//! The `linkerd-cni` executable as a person on the node runs it: a command line,
//! no `CNI_*` environment.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::plugin::{DEADLINE, PATH};
use crate::{binaries, process, trace};

/// Where libcni keeps what it remembers.
pub const CACHE: &str = "/var/lib/cni";

/// A command line.
#[derive(Clone, Debug)]
pub struct Tool {
    program: PathBuf,
    arguments: Vec<OsString>,
    environment: Vec<(String, OsString)>,
    script: String,
}

/// What a command came to.
#[derive(Debug)]
pub struct Said {
    /// The exit status; `None` if it was killed.
    pub exit: Option<i32>,
    /// Its output.
    pub stdout: String,
    /// Its complaints.
    pub stderr: String,
}

// === impl Tool ===

impl Tool {
    /// A command line of these words.
    ///
    /// # Panics
    ///
    /// If the executable is not there.
    pub fn new(arguments: &[&str]) -> Self {
        Self {
            program: binaries::plugin(),
            arguments: arguments.iter().map(OsString::from).collect(),
            environment: vec![("PATH".to_owned(), PATH.into())],
            script: String::new(),
        }
    }

    /// Adds a word.
    pub fn arg(mut self, word: impl Into<OsString>) -> Self {
        self.arguments.push(word.into());
        self
    }

    /// Adds words.
    pub fn args(mut self, words: &[&str]) -> Self {
        self.arguments.extend(words.iter().map(OsString::from));
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.environment.push((name.to_owned(), value.into()));
        self
    }

    /// Runs `script` as a shell in a private mount namespace before the command;
    /// `"$@"` is the command.
    pub fn after(mut self, script: &str) -> Self {
        self.script += &format!("{script}\n");
        self
    }

    /// Shows it this directory in the place of another.
    pub fn bind(self, directory: &Path, over: &str) -> Self {
        self.after(&format!(
            "mkdir -p {over}; mount --bind {} {over}",
            directory.display()
        ))
    }

    /// Runs it to its end.
    ///
    /// # Panics
    ///
    /// If it cannot be started, hangs, or panics.
    pub fn run(&self) -> Said {
        let finished = process::finish(&mut self.command(), &[], DEADLINE)
            .expect("the executable can be started");
        let said = Said {
            exit: finished.status.expect("it ends").code(),
            stdout: String::from_utf8_lossy(&finished.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&finished.stderr).into_owned(),
        };
        assert!(!said.stderr.contains("panicked"), "{said:#?}");
        said
    }

    /// Runs it to its end and expects this exit status.
    ///
    /// # Panics
    ///
    /// As [`Tool::run`], or if it ends in any other way.
    #[track_caller]
    pub fn exits(&self, status: i32) -> Said {
        let said = self.run();
        assert_eq!(said.exit, Some(status), "{said:#?}");
        said
    }

    /// Runs it under trace: which programs it started.
    ///
    /// # Panics
    ///
    /// If this machine does not allow tracing.
    pub fn trace(&self) -> trace::Traced {
        trace::run(&self.command(), &[], None, DEADLINE).expect("it can be traced")
    }

    fn command(&self) -> Command {
        let environment = self.environment.iter().map(|(name, value)| (name, value));
        let mut command = if self.script.is_empty() {
            process::command(&self.program)
        } else {
            let script = format!("set -e\n{}exec \"$@\"", self.script);
            let mut command = process::command("/usr/bin/unshare");
            command.args(["-m", "/bin/sh", "-c", &script, "sh"]);
            command.arg(&self.program);
            command
        };
        command.args(&self.arguments).env_clear().envs(environment);
        command
    }
}

// === impl Said ===

impl Said {
    /// Expects each of these words on standard error.
    ///
    /// # Panics
    ///
    /// If one is missing.
    #[track_caller]
    pub fn complains(&self, words: &[&str]) -> &Self {
        for word in words {
            assert!(self.stderr.contains(word), "lacks {word:?}: {self:#?}");
        }
        self
    }

    /// Expects each of these words on standard output.
    ///
    /// # Panics
    ///
    /// If one is missing.
    #[track_caller]
    pub fn prints(&self, words: &[&str]) -> &Self {
        for word in words {
            assert!(self.stdout.contains(word), "lacks {word:?}: {self:#?}");
        }
        self
    }

    /// Standard output as JSON.
    ///
    /// # Panics
    ///
    /// If it is none.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }
}

/// An empty directory of a test's own.
///
/// # Panics
///
/// If none can be made.
pub fn scratch() -> TempDir {
    let directory = tempfile::Builder::new().prefix("lct-tools-").tempdir();
    directory.expect("a temporary directory can be made")
}
