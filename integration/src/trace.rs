//! Runs a program under `ptrace`: counts what it executes, and can kill it
//! between any two system calls.
//!
//! Counting is over the program, its threads and its children together, in the
//! order in which their calls happen, so that every point of a run can be hit.

use std::collections::HashSet;
use std::fs;
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use self::watchdog::Watchdog;
use crate::process::{self, Pipes};

mod watchdog;

/// What a traced run came to.
#[derive(Debug)]
pub struct Traced {
    /// The command lines of the children's `execve`, in order; the program's own
    /// is not among them.
    pub executed: Vec<Vec<String>>,
    /// System calls entered, from the program's first on.
    pub calls: u64,
    /// Whether it was killed at the wanted call (it may have ended before).
    pub killed: bool,
    /// Its exit status, unless it was killed.
    pub exit: Option<i32>,
    /// What it wrote to stdout.
    pub stdout: String,
    /// What it wrote to stderr.
    pub stderr: String,
}

/// Runs `command` traced; sends it SIGKILL at system call number `kill_at`.
///
/// When it is killed, its children are let go and live on as they would after a
/// kill by the kernel's out-of-memory killer.
///
/// # Errors
///
/// If it cannot be started or traced, or is still running at the deadline.
pub fn run(
    command: &Command,
    input: &[u8],
    kill_at: Option<u64>,
    deadline: Duration,
) -> Result<Traced> {
    let mut command = stopped(command);
    let input = input.to_vec();
    // Tracing belongs to a thread: when it ends, the kernel lets go of whatever
    // is still traced.
    let tracer = thread::spawn(move || {
        let mut child = process::spawn(&mut command)?;
        let pipes = Pipes::of(&mut child, &input);
        let watchdog = Watchdog::start(&child, deadline);
        let run = Tracer::new(&child, kill_at)?.run();
        watchdog.stop()?;
        let (stdout, stderr) = pipes.collect(Duration::from_millis(200));
        let (run, exit) = run?;
        Ok(Traced {
            executed: run.executed,
            calls: run.calls,
            killed: run.killed,
            exit,
            stdout: String::from_utf8_lossy(&stdout).into_owned(),
            stderr: String::from_utf8_lossy(&stderr).into_owned(),
        })
    });
    tracer
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// The same command behind a shell that stops itself first, so that the tracer
/// is there before the program's first call. (`PTRACE_TRACEME` would need code
/// between fork and exec, which cannot be written without `unsafe`.)
fn stopped(command: &Command) -> Command {
    let mut stopped = process::command("/bin/sh");
    stopped
        .args(["-c", "kill -STOP $$; exec \"$0\" \"$@\""])
        .arg(command.get_program())
        .args(command.get_args())
        .env_clear();
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            stopped.env(name, value);
        }
    }
    stopped
}

struct Tracer {
    program: Pid,
    kill_at: Option<u64>,
    started: bool,
    executed: Vec<Vec<String>>,
    calls: u64,
    killed: bool,
    /// Threads and processes that are inside a system call.
    inside: HashSet<Pid>,
}

// === impl Tracer ===

impl Tracer {
    fn new(child: &Child, kill_at: Option<u64>) -> Result<Self> {
        let program = Pid::from_raw(i32::try_from(child.id())?);
        waitpid(program, Some(WaitPidFlag::WUNTRACED)).context("waiting for the stop")?;
        let options = Options::PTRACE_O_TRACESYSGOOD
            | Options::PTRACE_O_TRACEEXEC
            | Options::PTRACE_O_TRACECLONE
            | Options::PTRACE_O_TRACEFORK
            | Options::PTRACE_O_TRACEVFORK;
        ptrace::seize(program, options).context("ptrace is not allowed here")?;
        kill(program, Signal::SIGCONT)?;
        Ok(Self {
            program,
            kill_at,
            started: false,
            executed: Vec::new(),
            calls: 0,
            killed: false,
            inside: HashSet::new(),
        })
    }

    /// Runs until the program has ended; its children may outlive it.
    fn run(mut self) -> Result<(Self, Option<i32>)> {
        loop {
            // Only this thread's own tracees: other tests wait for theirs.
            let flags = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD;
            match waitpid(None, Some(flags)) {
                Ok(WaitStatus::Exited(pid, code)) if pid == self.program => {
                    return Ok((self, Some(code)));
                }
                Ok(WaitStatus::Signaled(pid, ..)) if pid == self.program => {
                    return Ok((self, None));
                }
                Ok(status) => self.handle(status),
                Err(Errno::EINTR) => {}
                Err(error) => bail!("waitpid: {error}"),
            }
        }
    }

    fn handle(&mut self, status: WaitStatus) {
        match status {
            WaitStatus::PtraceSyscall(pid) => {
                self.call(pid);
                go_on(pid, None);
            }
            WaitStatus::PtraceEvent(pid, _, event) => {
                self.event(pid, event);
                go_on(pid, None);
            }
            WaitStatus::Stopped(pid, signal) => go_on(pid, Some(signal)),
            WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, ..) => {
                self.inside.remove(&pid);
            }
            _ => {}
        }
    }

    fn event(&mut self, pid: Pid, event: i32) {
        if event != ptrace::Event::PTRACE_EVENT_EXEC as i32 {
            return;
        }
        if self.started {
            self.executed.push(command_line(pid));
        }
        self.started = true;
    }

    fn call(&mut self, pid: Pid) {
        // Stops come in pairs: on the way in and on the way out.
        if self.inside.remove(&pid) {
            return;
        }
        self.inside.insert(pid);
        if !self.started || self.killed {
            return;
        }
        self.calls += 1;
        if self.kill_at == Some(self.calls) {
            self.killed = true;
            // It may have ended by itself between two calls of a child.
            let _ = kill(self.program, Signal::SIGKILL);
        }
    }
}

fn go_on(pid: Pid, signal: Option<Signal>) {
    // A tracee that was killed meanwhile is reported by the next waitpid.
    let _ = ptrace::syscall(pid, signal);
}

fn command_line(pid: Pid) -> Vec<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    bytes
        .split(|byte| *byte == 0)
        .filter(|word| !word.is_empty())
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect()
}
