//! Running a program of the host's. The only spawn.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Read as _, Seek as _, Write as _},
    os::{fd::AsFd as _, unix::process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        memfd::{MFdFlags, memfd_create},
        signal::{Signal, killpg},
    },
    unistd::Pid,
};

/// Searched after PATH, which a runtime may not set at all.
const FALLBACK_PATH: &str = "/usr/sbin:/sbin:/usr/bin:/bin:/usr/local/sbin";

/// How long a program may take. It waits for a lock of its own at most 5 s, so this is longer.
pub(crate) const DEADLINE: Duration = Duration::from_secs(8);

/// How long a program may take once another one has hung: what hangs on a node mostly hangs for all
/// of them, and runtimes have deadlines of their own.
pub(crate) const AFTER_A_HANG: Duration = Duration::from_secs(2);

/// How much of a program's stderr is kept, in bytes.
const MOST_STDERR: usize = 4096;

/// How often a program that has closed its stderr without ending is looked at.
const PATIENCE: Duration = Duration::from_millis(20);

/// What a program left behind.
#[derive(Debug)]
pub(crate) struct Output {
    /// How it ended.
    pub status: ExitStatus,
    /// What it printed.
    pub stdout: String,
    /// What it complained of, in one line.
    pub stderr: String,
}

/// Why a program did not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// It could not be started.
    #[error("{command} could not be started")]
    Spawn {
        /// The command line.
        command: String,
        /// Why.
        source: io::Error,
    },
    /// It did not end in time and was killed.
    #[error("{command} did not end within {seconds} s and was killed", seconds = patience.as_secs())]
    Hung {
        /// The command line.
        command: String,
        /// How long it was waited for.
        patience: Duration,
    },
    /// The system would not let us talk to it.
    #[error("{command}: {what}")]
    System {
        /// The command line.
        command: String,
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

/// Finds an executable on PATH, then where Linux distributions keep theirs.
#[must_use]
pub(crate) fn find(program: &str, path: Option<OsString>) -> Option<PathBuf> {
    let path = path.unwrap_or_default();
    let directories: Vec<PathBuf> = std::env::split_paths(&path)
        .chain(std::env::split_paths(FALLBACK_PATH))
        .filter(|directory| directory.is_absolute())
        .collect();
    let candidates = directories.iter().map(|directory| directory.join(program));
    candidates.into_iter().find(|file| is_executable(file))
}

/// Runs a program with `input` on its standard input.
///
/// # Errors
/// It could not be started, or did not end within `patience`; then it and what it started were
/// killed. A failing exit status is not an error here.
pub(crate) fn run(
    program: &Path,
    args: &[&str],
    input: &str,
    patience: Duration,
) -> Result<Output, ExecError> {
    let command = command_line(program, args);
    let system = |what| {
        let command = command.clone();
        move |source: io::Error| ExecError::System {
            command,
            what,
            source,
        }
    };
    let stdin = memory(input).map_err(system("no memory for its input"))?;
    let mut stdout = memory("").map_err(system("no memory for its output"))?;
    let output = stdout
        .try_clone()
        .map_err(system("no memory for its output"))?;
    let spawned = spawn(program, args, stdin, output);
    let mut child = spawned.map_err(|source| ExecError::Spawn {
        command: command.clone(),
        source,
    })?;
    let (status, stderr) = match wait(&mut child, patience) {
        Ok(Some(ended)) => ended,
        Ok(None) => {
            kill(&mut child);
            return Err(ExecError::Hung { command, patience });
        }
        Err(source) => {
            kill(&mut child);
            return Err(system("cannot be waited for")(source));
        }
    };
    let mut printed = Vec::new();
    let read = stdout
        .rewind()
        .and_then(|()| stdout.read_to_end(&mut printed));
    read.map_err(system("its output cannot be read"))?;
    Ok(Output {
        status,
        stdout: String::from_utf8_lossy(&printed).into_owned(),
        stderr: one_line(&stderr),
    })
}

/// The command as a person would type it.
#[must_use]
pub(crate) fn command_line(program: &Path, args: &[&str]) -> String {
    let program = program.to_string_lossy();
    let words: Vec<&str> = std::iter::once(&*program)
        .chain(args.iter().copied())
        .collect();
    words.join(" ")
}

/// Input and output lie in memory files: no pipe can fill up, so nothing has to be pumped.
fn memory(content: &str) -> io::Result<File> {
    let mut file = File::from(memfd_create("linkerd-cni", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(content.as_bytes())?;
    file.rewind()?;
    Ok(file)
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is the one place that starts programs"
)]
fn spawn(program: &Path, args: &[&str], stdin: File, stdout: File) -> io::Result<Child> {
    Command::new(program)
        .args(args)
        // The lock that matters lies on the namespace (netns.rs). The one file that all of the
        // host's iptables would queue up at is replaced by one that no two processes share.
        .env("XTABLES_LOCKFILE", "/proc/self/comm")
        .stdin(stdin)
        .stdout(stdout)
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
}

/// Waits for the end, which shows in the end of stderr. `None`: not in time.
fn wait(child: &mut Child, patience: Duration) -> io::Result<Option<(ExitStatus, Vec<u8>)>> {
    let deadline = Instant::now() + patience;
    let mut stderr = child.stderr.take();
    let mut text = Vec::new();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        let at_end = match &mut stderr {
            Some(pipe) => drain(pipe, left.min(PATIENCE), &mut text)?,
            None => {
                // `sleep` would panic where a filter refuses its system call.
                std::thread::park_timeout(left.min(Duration::from_micros(100)));
                true
            }
        };
        if at_end {
            stderr = None;
        }
        // Something it started may hold its stderr open for longer than it lives.
        if let Some(status) = child.try_wait()? {
            return Ok(Some((status, text)));
        }
    }
}

/// Reads what there is; whether that was the end.
fn drain(
    pipe: &mut std::process::ChildStderr,
    wait: Duration,
    text: &mut Vec<u8>,
) -> io::Result<bool> {
    let timeout = PollTimeout::try_from(wait).unwrap_or(PollTimeout::MAX);
    let mut fds = [PollFd::new(pipe.as_fd(), PollFlags::POLLIN)];
    if poll(&mut fds, timeout)? == 0 {
        return Ok(false);
    }
    let mut buffer = [0; MOST_STDERR];
    let count = pipe.read(&mut buffer)?;
    let room = MOST_STDERR.saturating_sub(text.len());
    text.extend_from_slice(&buffer[..count.min(room)]);
    Ok(count == 0)
}

fn kill(child: &mut Child) {
    if let Ok(id) = i32::try_from(child.id()) {
        // It leads a group of its own, so that what it started goes with it.
        let _ = killpg(Pid::from_raw(id), Signal::SIGKILL);
    }
    let _ = child.kill();
    let _ = child.wait();
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    file.metadata()
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

fn one_line(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    lines.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, input: &str) -> Result<Output, ExecError> {
        run(Path::new("/bin/sh"), &["-c", script], input, DEADLINE)
    }

    #[test]
    fn output_and_status_come_back() {
        let output = shell("cat; echo ' a ' >&2; echo b >&2; exit 3", "in").unwrap();
        assert_eq!(
            (output.stdout.as_str(), output.stderr.as_str()),
            ("in", "a; b")
        );
        assert_eq!(output.status.code(), Some(3));
    }

    #[test]
    fn much_output_on_either_side_does_not_block() {
        let much = "x".repeat(1 << 20);
        let output = shell("cat; head -c 1000000 /dev/zero | tr '\\0' y >&2", &much).unwrap();
        assert_eq!(output.stdout, much);
        assert_eq!(output.stderr.len(), MOST_STDERR);
    }

    #[test]
    fn a_grandchild_that_keeps_stderr_open_is_not_waited_for() {
        let output = shell("sleep 100 & echo $! ", "").unwrap();
        assert!(output.status.success());
        let id = output.stdout.trim().parse().unwrap();
        nix::sys::signal::kill(Pid::from_raw(id), Signal::SIGKILL).unwrap();
    }

    #[test]
    fn what_cannot_be_started_is_named() {
        let error = run(Path::new("/nonexistent"), &["-n"], "", DEADLINE).unwrap_err();
        assert_eq!(error.to_string(), "/nonexistent -n could not be started");
    }

    #[test]
    fn programs_are_found_without_a_path() {
        assert_eq!(find("sh", None), find("sh", Some("relative".into())));
        assert!(find("sh", None).is_some());
        assert_eq!(find("no-such-program", Some("/bin".into())), None);
    }
}
