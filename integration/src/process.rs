//! The harness's one door to other programs.
//!
//! Every program runs with a deadline, in a process group of its own, and never
//! hangs the test: a program that is still there at its deadline is killed with
//! all its children.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Seek, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// How long a helper program (`ip`, `iptables-save`) may take.
const HELPER_DEADLINE: Duration = Duration::from_secs(30);

/// How long output is waited for once the program itself has ended: a child it
/// left behind may hold the pipe open for ever. Long enough for a busy machine to
/// get round to our reading thread.
pub(crate) const OUTPUT_GRACE: Duration = Duration::from_secs(3);

/// A program that ran, or was killed at its deadline.
#[derive(Debug)]
pub struct Finished {
    /// How it ended; `None` if it had to be killed at the deadline.
    pub status: Option<ExitStatus>,
    /// What it wrote to stdout.
    pub stdout: Vec<u8>,
    /// What it wrote to stderr.
    pub stderr: Vec<u8>,
    /// From spawn to exit.
    pub elapsed: Duration,
}

/// A command for `program`, not yet started.
#[expect(
    clippy::disallowed_methods,
    reason = "the harness starts programs here and nowhere else"
)]
pub fn command(program: impl AsRef<OsStr>) -> Command {
    Command::new(program)
}

/// Runs a helper program to its end and returns its stdout.
///
/// # Errors
///
/// If it cannot be started, fails, or takes longer than 30 s; with its stderr.
pub fn run(program: &str, args: &[&str]) -> Result<String> {
    run_with_input(program, args, "")
}

/// As [`run`], with `input` on stdin.
///
/// # Errors
///
/// As [`run`].
pub fn run_with_input(program: &str, args: &[&str], input: &str) -> Result<String> {
    let mut command = command(program);
    // A file of the child's own to lock: the tests' own iptables must not queue
    // behind a test that holds the host's lock on purpose.
    command
        .args(args)
        .env("XTABLES_LOCKFILE", "/proc/self/stat");
    let finished = finish(&mut command, input.as_bytes(), HELPER_DEADLINE)?;
    let stderr = String::from_utf8_lossy(&finished.stderr);
    match finished.status {
        Some(status) if status.success() => {}
        Some(status) => bail!("{program} {}: {status}: {stderr}", args.join(" ")),
        None => bail!("{program} {}: killed at its deadline", args.join(" ")),
    }
    String::from_utf8(finished.stdout).with_context(|| format!("{program} printed non-UTF-8"))
}

/// Starts `command`, writes `input` to it, and waits at most `deadline`.
///
/// # Errors
///
/// If it cannot be started.
pub fn finish(command: &mut Command, input: &[u8], deadline: Duration) -> Result<Finished> {
    let started = Instant::now();
    let mut child = spawn(command)?;
    let pipes = Pipes::of(&mut child, input);
    let status = wait(&mut child, started + deadline)?;
    let elapsed = started.elapsed();
    let (stdout, stderr) = pipes.collect(OUTPUT_GRACE);
    Ok(Finished {
        status,
        stdout,
        stderr,
        elapsed,
    })
}

/// Runs `command` to its end with nothing beside it that would take time: input from a file, no
/// output, no deadline. From spawn to exit.
///
/// # Errors
///
/// If it cannot be started, or fails.
pub fn time(command: &mut Command, input: &[u8]) -> Result<Duration> {
    let mut stdin = tempfile::tempfile()?;
    stdin.write_all(input)?;
    stdin.rewind()?;
    command
        .stdin(stdin)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let started = Instant::now();
    let status = command.status()?;
    let elapsed = started.elapsed();
    if !status.success() {
        bail!("{command:?}: {status}");
    }
    Ok(elapsed)
}

/// Starts `command` in a process group of its own, all three streams piped.
///
/// # Errors
///
/// If it cannot be started.
pub fn spawn(command: &mut Command) -> Result<Child> {
    let name = command.get_program().to_string_lossy().into_owned();
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .with_context(|| format!("cannot start {name}"))
}

/// Kills the process group that `child` leads.
pub fn kill_group(child: &Child) {
    if let Ok(id) = i32::try_from(child.id()) {
        // Already gone is as good as killed.
        let _ = killpg(Pid::from_raw(id), Signal::SIGKILL);
    }
}

/// The one process that another has started and not yet waited for.
///
/// # Errors
///
/// There is none, or there are several.
pub fn only_child(parent: u32) -> Result<u32> {
    let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"))?;
    let only = children.trim().parse();
    only.with_context(|| format!("not one child of process {parent}: {children:?}"))
}

fn wait(child: &mut Child, until: Instant) -> Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() > until {
            kill_group(child);
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// The threads that keep a child's pipes moving.
pub struct Pipes {
    stdout: Reader,
    stderr: Reader,
}

struct Reader {
    read: Arc<Mutex<Vec<u8>>>,
    thread: JoinHandle<()>,
}

// === impl Pipes ===

impl Pipes {
    /// Takes the three pipes of `child` and starts feeding it `input`.
    pub fn of(child: &mut Child, input: &[u8]) -> Self {
        if let Some(mut stdin) = child.stdin.take() {
            let input = input.to_vec();
            // A program that never reads its stdin is no fault of the harness.
            thread::spawn(move || stdin.write_all(&input));
        }
        Self {
            stdout: Reader::start(child.stdout.take()),
            stderr: Reader::start(child.stderr.take()),
        }
    }

    /// What was written so far, waiting at most `grace` for the ends.
    pub fn collect(self, grace: Duration) -> (Vec<u8>, Vec<u8>) {
        let until = Instant::now() + grace;
        (self.stdout.collect(until), self.stderr.collect(until))
    }
}

// === impl Reader ===

impl Reader {
    fn start(pipe: Option<impl Read + Send + 'static>) -> Self {
        let read = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&read);
        let thread = thread::spawn(move || {
            if let Some(pipe) = pipe {
                copy(pipe, &into);
            }
        });
        Self { read, thread }
    }

    fn collect(self, until: Instant) -> Vec<u8> {
        while !self.thread.is_finished() && Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
        }
        std::mem::take(&mut *lock(&self.read))
    }
}

fn copy(mut pipe: impl Read, into: &Mutex<Vec<u8>>) {
    let mut chunk = [0; 8192];
    while let Ok(count @ 1..) = pipe.read(&mut chunk) {
        lock(into).extend_from_slice(&chunk[..count]);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
