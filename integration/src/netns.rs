//! Network namespaces: one per test, gone with it.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::sched::{CloneFlags, setns};

use crate::process::{command, kill_group, run, run_with_input, spawn};
use crate::rules::NATIVE;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A named network namespace with its loopback up.
///
/// The name is unique on this machine (`lct-<process>-<number>`). Dropping it
/// deletes it, with every interface in it.
#[derive(Debug)]
pub struct Netns {
    name: String,
    path: PathBuf,
}

/// A process that owns the table of `native` (see [`Netns::occupy_native`]).
#[derive(Debug)]
pub struct Occupied {
    child: Child,
    _stdin: ChildStdin,
}

impl Drop for Occupied {
    fn drop(&mut self) {
        kill_group(&self.child);
        let _ = self.child.wait();
    }
}

/// A name that no other test on this machine uses.
pub fn unique_name() -> String {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("lct-{}-{number}", std::process::id())
}

// === impl Netns ===

impl Netns {
    /// Makes a namespace.
    ///
    /// # Panics
    ///
    /// If the machine does not let us (not root, no namespaces).
    pub fn new() -> Self {
        Self::named(unique_name())
    }

    /// Makes a namespace of this name.
    ///
    /// # Panics
    ///
    /// As [`Netns::new`], or if the name is taken.
    pub fn named(name: String) -> Self {
        run("ip", &["netns", "add", &name]).expect("a network namespace can be made (as root)");
        let netns = Self::of(name);
        netns.ip("link set lo up\n");
        netns
    }

    /// Makes a namespace that belongs to a user namespace, with ids mapped as
    /// kubelet maps them for a pod with `hostUsers: false`.
    ///
    /// # Panics
    ///
    /// If the machine does not allow user namespaces.
    pub fn of_another_user() -> Self {
        Self::of_user_namespace("0 165536 65536\n")
    }

    /// Makes a namespace that belongs to a user namespace with this map of ids.
    ///
    /// # Panics
    ///
    /// As [`Netns::of_another_user`].
    pub fn of_user_namespace(ids: &str) -> Self {
        let mut command = command("unshare");
        command.args(["--user", "--net", "/bin/sh", "-c", "echo; exec sleep 60"]);
        let mut child = spawn(&mut command).expect("unshare is installed");
        let mut stdout = child.stdout.take().expect("stdout is piped");
        let entered = stdout.read_exact(&mut [0]);
        entered.expect("user namespaces are allowed");
        let pid = child.id();
        for map in ["uid_map", "gid_map"] {
            let mapped = fs::write(format!("/proc/{pid}/{map}"), ids);
            mapped.expect("root may map ids");
        }
        let name = unique_name();
        run("ip", &["netns", "attach", &name, &pid.to_string()]).expect("it can be named");
        kill_group(&child);
        child.wait().expect("it was killed");
        let netns = Self::of(name);
        netns.ip("link set lo up\n");
        netns
    }

    /// A namespace that somebody else made, and takes away.
    pub fn at(path: &Path) -> Self {
        Self {
            name: path.to_string_lossy().into_owned(),
            path: path.to_owned(),
        }
    }

    fn of(name: String) -> Self {
        let path = Path::new("/run/netns").join(&name);
        Self { name, path }
    }

    /// Its name, for `ip -n`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file that `CNI_NETNS` names.
    pub fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// Runs lines of `ip` commands in the namespace.
    ///
    /// # Panics
    ///
    /// If one fails.
    pub fn ip(&self, lines: &str) {
        self.run_with_input("ip", &["-batch", "-"], lines)
            .unwrap_or_else(|error| panic!("in {}: {lines}: {error:#}", self.name));
    }

    /// Runs a program in the namespace and returns its stdout.
    ///
    /// # Errors
    ///
    /// If it cannot be started or fails.
    pub fn run(&self, program: &str, args: &[&str]) -> Result<String> {
        self.run_with_input(program, args, "")
    }

    /// As [`Netns::run`], with `input` on stdin.
    ///
    /// # Errors
    ///
    /// As [`Netns::run`].
    pub fn run_with_input(&self, program: &str, args: &[&str], input: &str) -> Result<String> {
        // `nsenter`, not `ip netns exec`: the latter mounts a /sys of its own,
        // which is slow and shows in the mount table.
        let net = format!("--net={}", self.path().display());
        let args = [&[net.as_str(), "--", program], args].concat();
        run_with_input("nsenter", &args, input)
    }

    /// Keeps `native` from working here: its table is there and belongs to
    /// another process, so that the kernel lets nobody else touch it. It goes
    /// with what is returned.
    ///
    /// # Panics
    ///
    /// If the machine does not allow it.
    pub fn occupy_native(&self) -> Occupied {
        let mut nft = command("nsenter");
        nft.arg(format!("--net={}", self.path().display()));
        nft.args(["--", "nft", "--interactive"]);
        let mut child = spawn(&mut nft).expect("nft is installed");
        let mut stdin = child.stdin.take().expect("stdin is piped");
        let table = format!("add table inet {NATIVE} {{ flags owner; }}\n");
        stdin.write_all(table.as_bytes()).expect("nft reads");
        let there = || {
            self.run("nft", &["list", "tables"])
                .is_ok_and(|all| all.contains(NATIVE))
        };
        let deadline = Instant::now() + Duration::from_secs(10);
        while !there() {
            assert!(Instant::now() < deadline, "nft makes no table");
            thread::sleep(Duration::from_millis(5));
        }
        Occupied {
            child,
            _stdin: stdin,
        }
    }

    /// Calls `inside` on a thread that has entered the namespace.
    ///
    /// Sockets belong to the namespace they were made in, so that a socket made
    /// here can be used anywhere afterwards.
    ///
    /// # Panics
    ///
    /// If the namespace cannot be entered, or `inside` panics.
    pub fn enter<T: Send>(&self, inside: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            let entered = scope.spawn(|| {
                enter(&self.path()).expect("the namespace can be entered");
                inside()
            });
            entered
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

impl Default for Netns {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        if !self.name.contains('/') {
            // A test may have deleted it on purpose.
            let _ = run("ip", &["netns", "del", &self.name]);
        }
    }
}

/// Moves the calling thread into the network namespace of this file.
///
/// # Errors
///
/// If there is no such file, or it is no network namespace.
pub fn enter(path: &Path) -> Result<()> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    setns(file, CloneFlags::CLONE_NEWNET)
        .with_context(|| format!("cannot enter {}", path.display()))
}
