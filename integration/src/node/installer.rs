//! The installer's process on a node.

use std::fs::{self, File};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{DEADLINE, Node};
use crate::binaries;
use crate::process::{self, Finished};

impl Node {
    /// The installer's command for this node, behind a program that starts it
    /// (`unshare`, `strace`) if there is one.
    pub fn command(&self, before: &[&str], args: &[&str]) -> Command {
        let installer = binaries::installer();
        let mut command = match before {
            [] => process::command(&installer),
            [program, rest @ ..] => {
                let mut command = process::command(program);
                command.args(rest).arg(&installer);
                command
            }
        };
        command
            .args(args)
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .envs(&self.env);
        command
    }

    /// Runs the installer to its end.
    ///
    /// # Panics
    ///
    /// If it cannot be started, or does not end.
    pub fn run(&self, args: &[&str]) -> Finished {
        self.run_behind(&[], args)
    }

    /// The same behind another program.
    ///
    /// # Panics
    ///
    /// As [`Node::run`].
    pub fn run_behind(&self, before: &[&str], args: &[&str]) -> Finished {
        let finished = process::finish(&mut self.command(before, args), b"", DEADLINE)
            .expect("the installer starts");
        assert!(
            finished.status.is_some(),
            "the installer does not end: {args:?}"
        );
        finished
    }

    /// Installs once (`SLEEP=false`) and returns the log.
    ///
    /// # Panics
    ///
    /// If it fails.
    pub fn install_once(&self) -> String {
        let finished = self.run(&["--sleep=false"]);
        let log = String::from_utf8_lossy(&finished.stderr).into_owned();
        assert!(finished.status.is_some_and(|s| s.success()), "{log}");
        log
    }

    /// Uninstalls and returns what it said.
    ///
    /// # Panics
    ///
    /// If it fails.
    pub fn uninstall(&self) -> String {
        let finished = self.run(&["uninstall"]);
        let said = String::from_utf8_lossy(&finished.stdout).into_owned();
        assert!(finished.status.is_some_and(|s| s.success()), "{said}");
        said
    }

    /// Starts the installer and waits until it watches.
    ///
    /// # Panics
    ///
    /// If it does not come that far.
    pub fn start(&mut self) {
        self.start_behind(&[]);
        self.wait("the kubeconfig", |node| node.kubeconfig().exists());
    }

    /// Starts the installer behind another program, and does not wait.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn start_behind(&mut self, before: &[&str]) {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.path("log"))
            .expect("a log");
        let child = self
            .command(before, &[])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("the installer starts");
        self.running = Some(child);
    }

    /// Everything that running installers of this node have logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// How many lines of the log contain this.
    pub fn logged(&self, text: &str) -> usize {
        self.log()
            .lines()
            .filter(|line| line.contains(text))
            .count()
    }

    /// The running installer's process id; of the outermost program if it was
    /// started behind another.
    ///
    /// # Panics
    ///
    /// If none was started.
    pub fn pid(&self) -> u32 {
        self.running.as_ref().expect("an installer runs").id()
    }

    /// Whether the installer still runs.
    pub fn is_alive(&mut self) -> bool {
        self.running
            .as_mut()
            .is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// Sends a signal to the installer and waits for its end.
    ///
    /// # Panics
    ///
    /// If it does not end.
    pub fn stop(&mut self, signal: Signal) -> ExitStatus {
        send(self.pid(), signal);
        self.ended()
    }

    /// Waits for the end of the installer.
    ///
    /// # Panics
    ///
    /// If it does not end.
    pub fn ended(&mut self) -> ExitStatus {
        let mut child = self.running.take().expect("an installer runs");
        let until = Instant::now() + DEADLINE;
        loop {
            if let Some(status) = child.try_wait().expect("a child can be waited for") {
                return status;
            }
            if Instant::now() > until {
                let _ = child.kill();
                panic!("the installer does not end; its log:\n{}", self.log());
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Sends a signal to a process.
///
/// # Panics
///
/// If there is no such process.
pub fn send(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).expect("a process id"));
    kill(pid, signal).expect("the process is there");
}
