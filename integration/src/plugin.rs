//! One call of the `linkerd-cni` executable, as a container runtime makes it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

pub use self::output::Output;
use crate::{binaries, process, trace};

mod output;

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

    /// Calls another plugin's executable.
    pub fn executable(mut self, program: impl Into<PathBuf>) -> Self {
        self.program = program.into();
        self
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

    /// Runs it for a benchmark: nothing but the time is looked at.
    ///
    /// # Errors
    ///
    /// If it cannot be started, or fails.
    pub fn time(&self) -> anyhow::Result<Duration> {
        process::time(&mut self.command(), &self.stdin)
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
