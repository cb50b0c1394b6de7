//! What kubelet does for a pod of a DaemonSet, with the container of our image.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use k8s_cri::v1::{ContainerState, PodSandboxConfig};
use linkerd_cni_integration::chart::Chart;
use linkerd_cni_integration::node::DEADLINE;
use serde_json::{Value, json};

pub(crate) use self::manifest::Manifest;
use crate::cri::{Answer, Executed};
use crate::machine::Machine;

mod host;
mod manifest;
mod translate;

/// The name under which `deploy/image` packs the image.
const IMAGE: &str = "localhost/linkerd-cni";

/// How long a pod may take to end if it does not say.
const GRACE: i64 = 30;

/// A pod of a DaemonSet that runs.
pub(crate) struct DaemonPod<'a> {
    machine: &'a Machine,
    container: Value,
    grace: i64,
    sandbox: String,
    id: String,
    log: PathBuf,
}

/// Our chart, with our image.
pub(crate) fn chart() -> Chart {
    Chart::new().set("image.name", &json!(IMAGE))
}

// === impl DaemonPod ===

impl<'a> DaemonPod<'a> {
    /// Starts a pod of this name, as kubelet does; does not wait until it is ready.
    pub(crate) fn start(machine: &'a Machine, manifest: &Manifest, name: &str) -> Answer<Self> {
        let directory = machine.node.path(&format!("kubelet/{name}"));
        let config = translate::sandbox(manifest, name, machine, &directory);
        let container = translate::container(manifest, name, machine, &directory);
        fs::create_dir_all(directory.join("log")).unwrap();
        let log = directory.join("log").join(&container.log_path);
        let sandbox = machine.cri.run(&config)?;
        let id = machine.cri.start_container((&sandbox, &config), container);
        let id = id.inspect_err(|_| remove(machine, &sandbox, &config))?;
        Ok(Self {
            machine,
            container: manifest.container(),
            grace: manifest.grace().unwrap_or(GRACE),
            sandbox,
            id,
            log,
        })
    }

    /// Runs a program in its container.
    pub(crate) fn exec(&self, command: &[&str]) -> Executed {
        let executed = self.machine.cri.exec(&self.id, command, self.grace);
        executed.unwrap_or_else(|error| panic!("{command:?}: {error}; {}", self.log()))
    }

    /// Runs its readiness probe.
    pub(crate) fn probe(&self) -> Executed {
        self.exec(&words(&self.container["readinessProbe"]["exec"]["command"]))
    }

    /// Waits until it is ready, and returns how long that took.
    pub(crate) fn wait_ready(&self) -> Duration {
        let start = Instant::now();
        loop {
            let probed = self.probe();
            if probed.code == 0 {
                return start.elapsed();
            }
            let late = start.elapsed() > DEADLINE;
            assert!(!late, "not ready: {probed:?}; {}", self.log());
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// What `kubectl logs` prints: each line of the runtime's log without time,
    /// stream and tag.
    pub(crate) fn log(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines = text.lines().map(|line| line.splitn(4, ' ').nth(3));
        lines.flatten().map(|line| format!("{line}\n")).collect()
    }

    /// Waits for a line of its log with all of these, and returns it.
    pub(crate) fn wait_line(&self, parts: &[&str]) -> String {
        let until = Instant::now() + DEADLINE;
        loop {
            let log = self.log();
            let mut lines = log.lines();
            let found = lines.find(|line| parts.iter().all(|part| line.contains(part)));
            if let Some(line) = found {
                return line.to_owned();
            }
            assert!(Instant::now() < until, "no {parts:?}: {log}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends it as kubelet does: its preStop if it has one, SIGTERM, and its sandbox.
    /// Returns the container's exit code and its log.
    pub(crate) fn end(self) -> (i32, String) {
        let cri = &self.machine.cri;
        let hook = &self.container["lifecycle"]["preStop"]["exec"]["command"];
        if !hook.is_null() {
            // The container ends under it, which kubelet takes as it comes.
            let _ = cri.exec(&self.id, &words(hook), self.grace);
            self.wait_ended();
        }
        cri.stop_container(&self.id, self.grace).unwrap();
        let code = cri.container(&self.id).exit_code;
        cri.stop(&self.sandbox).unwrap();
        cri.remove(&self.sandbox).unwrap();
        (code, self.log())
    }

    /// A preStop that ends the container leaves nothing to do for SIGTERM.
    fn wait_ended(&self) {
        let until = Instant::now() + DEADLINE;
        while self.machine.cri.container(&self.id).state() != ContainerState::ContainerExited {
            assert!(Instant::now() < until, "it runs on: {}", self.log());
            thread::sleep(Duration::from_millis(5));
        }
    }
}

fn remove(machine: &Machine, sandbox: &str, config: &PodSandboxConfig) {
    let removed = machine.cri.stop(sandbox);
    let removed = removed.and_then(|()| machine.cri.remove(sandbox));
    removed.unwrap_or_else(|error| panic!("{config:?}: {error}"));
}

fn words(list: &Value) -> Vec<&str> {
    let words = list.as_array().expect("a command").iter();
    words.map(|word| word.as_str().expect("a word")).collect()
}
