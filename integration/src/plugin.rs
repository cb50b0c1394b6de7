//! One call of the `linkerd-cni` executable, as a container runtime makes it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::process::{self, Finished};
use crate::{binaries, trace};

/// No call may take longer: twice the plugin's own budgets, on a busy machine.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// The PATH that calls get unless a test sets another.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A call of the plugin: environment and stdin, nothing inherited.
#[derive(Clone, Debug)]
pub struct Call {
    program: PathBuf,
    wrapper: Vec<OsString>,
    environment: BTreeMap<String, OsString>,
    stdin: Vec<u8>,
}

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

// === impl Call ===

impl Call {
    /// A call with `CNI_COMMAND` and PATH set and nothing else.
    pub fn new(verb: &str) -> Self {
        let call = Self {
            program: binaries::plugin(),
            wrapper: Vec::new(),
            environment: BTreeMap::new(),
            stdin: Vec::new(),
        };
        call.env("CNI_COMMAND", verb)
            .env("PATH", PATH)
            .env("CNI_PATH", "/opt/cni/bin")
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.environment.insert(name.to_owned(), value.into());
        self
    }

    /// Leaves an environment variable unset.
    pub fn without(mut self, name: &str) -> Self {
        self.environment.remove(name);
        self
    }

    /// Sets `CNI_CONTAINERID`.
    pub fn container(self, id: &str) -> Self {
        self.env("CNI_CONTAINERID", id)
    }

    /// Sets `CNI_IFNAME`.
    pub fn interface(self, name: &str) -> Self {
        self.env("CNI_IFNAME", name)
    }

    /// Sets `CNI_NETNS`.
    pub fn netns(self, path: &Path) -> Self {
        self.env("CNI_NETNS", path)
    }

    /// Sets `CNI_ARGS` as kubelet's runtimes do for this pod.
    pub fn pod(self, namespace: &str, name: &str) -> Self {
        self.args(&format!(
            "IgnoreUnknown=1;K8S_POD_NAMESPACE={namespace};K8S_POD_NAME={name};\
             K8S_POD_INFRA_CONTAINER_ID=0123abcd"
        ))
    }

    /// Sets `CNI_ARGS`.
    pub fn args(self, args: &str) -> Self {
        self.env("CNI_ARGS", args)
    }

    /// Sets stdin to a network configuration.
    pub fn config(self, config: &Value) -> Self {
        self.stdin(config.to_string())
    }

    /// Sets stdin.
    pub fn stdin(mut self, stdin: impl Into<Vec<u8>>) -> Self {
        self.stdin = stdin.into();
        self
    }

    /// Has the plugin started by another program, such as `unshare -m`: the
    /// plugin's path is appended to these words.
    pub fn through<const N: usize>(mut self, words: [&str; N]) -> Self {
        self.wrapper.extend(words.map(OsString::from));
        self
    }

    /// Runs `script` as a shell in a private mount namespace, then the plugin:
    /// what the script mounts, only the plugin sees.
    pub fn with_mounts(self, script: &str) -> Self {
        let script = format!("set -e\n{script}\nexec \"$@\"");
        self.through(["/usr/bin/unshare", "-m", "/bin/sh", "-c", &script, "sh"])
    }

    /// Runs it to its end.
    ///
    /// # Panics
    ///
    /// If it cannot be started, is still there after [`DEADLINE`], or writes
    /// anything but nothing or one JSON document to stdout.
    pub fn run(&self) -> Output {
        let finished = process::finish(&mut self.command(), &self.stdin, DEADLINE)
            .expect("the plugin can be started");
        Output::of(finished)
    }

    /// Runs it to its end and expects it to succeed.
    ///
    /// # Panics
    ///
    /// As [`Call::run`], or if it exits other than 0; with what it said.
    #[track_caller]
    pub fn succeed(&self) -> Output {
        let output = self.run();
        assert_eq!(output.exit, Some(0), "{output:#?}");
        output
    }

    /// Runs it to its end and expects this error code.
    ///
    /// # Panics
    ///
    /// As [`Call::run`], or if it ends in any other way; with what it said.
    #[track_caller]
    pub fn fail(&self, code: u64) -> Output {
        let output = self.run();
        assert_eq!(output.exit, Some(1), "{output:#?}");
        assert_eq!(output.code(), Some(code), "{output:#?}");
        output
    }

    /// Runs it under trace: which programs it started, and killed after
    /// `kill_at` system calls, if given.
    ///
    /// # Panics
    ///
    /// As [`Call::run`], or if this machine does not allow tracing.
    pub fn trace(&self, kill_at: Option<u64>) -> trace::Traced {
        trace::run(&self.command(), &self.stdin, kill_at, DEADLINE)
            .expect("the plugin can be traced")
    }

    fn command(&self) -> Command {
        let mut words = self
            .wrapper
            .iter()
            .cloned()
            .chain([self.program.clone().into()]);
        let mut command = process::command(words.next().expect("at least the program"));
        command.args(words).env_clear().envs(&self.environment);
        command
    }
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
