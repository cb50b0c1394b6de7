//! The namespaces that make a node.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use anyhow::{Context, Result, bail};

use crate::netns::Netns;
use crate::process::{self, kill_group};

/// What the node's first process does: `$1` is where `/var/lib/cni` is kept.
///
/// It then reads until nobody holds the other end of its input any more, which
/// is when the test ends, by whatever signal. Children that it inherits are
/// reaped by the kernel, since their end is ignored.
const INIT: &str = "set -e
mount -t tmpfs -o mode=755 node /run
mount -t tmpfs -o mode=755 node /var/lib
mkdir /var/lib/cni
mount --bind \"$1\" /var/lib/cni
ip link set lo up
echo 0 > /proc/sys/net/ipv6/conf/default/accept_dad
trap '' CHLD
echo
exec cat";

/// A node's namespaces, held by its first process.
#[derive(Debug)]
pub struct Namespaces {
    outer: Child,
    init: u32,
}

// === impl Namespaces ===

impl Namespaces {
    /// Makes them; `/var/lib/cni` in them is this directory, as it outlives a
    /// reboot.
    ///
    /// # Errors
    ///
    /// The machine does not let us (not root, no namespaces).
    pub fn new(var_lib_cni: &Path) -> Result<Self> {
        let mut command = process::command("unshare");
        command.args(["--pid", "--fork", "--kill-child=KILL", "--uts", "--ipc"]);
        command.args(["--mount", "--mount-proc", "--net", "sh", "-c", INIT, "sh"]);
        let mut outer = process::spawn(command.arg(var_lib_cni))?;
        let mut stdout = outer.stdout.take().context("stdout is piped")?;
        if stdout.read_exact(&mut [0]).is_err() {
            let (_, said) = process::Pipes::of(&mut outer, b"").collect(process::OUTPUT_GRACE);
            kill_group(&outer);
            outer.wait()?;
            bail!("a node cannot be made: {}", String::from_utf8_lossy(&said));
        }
        let init = process::only_child(outer.id())?;
        Ok(Self { outer, init })
    }

    /// A command that runs a program in them, not yet started. The program is the
    /// child of the process that is started.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = process::command("nsenter");
        command.arg(format!("--target={}", self.init));
        command.args(["--mount", "--net", "--pid", "--uts", "--ipc", "--"]);
        command.arg(program.as_ref());
        command
    }

    /// The words before a program that runs on the node as a container does that
    /// has the host's network: it sees the node's files and network, and dies with
    /// the thread that starts it.
    pub fn beside(&self) -> [String; 7] {
        let target = format!("--target={}", self.init);
        let words = ["setpriv", "--pdeathsig=KILL", "nsenter", &target];
        let [a, b, c, d] = words.map(str::to_owned);
        [a, b, c, d, "--mount".into(), "--net".into(), "--".into()]
    }

    /// A file of the node, as this process can open it.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        // A link to an absolute path would lead out of the node again.
        let inside = path
            .strip_prefix("/var/run")
            .map(|p| Path::new("run").join(p));
        let inside = inside.unwrap_or_else(|_| path.strip_prefix("/").unwrap_or(path).to_owned());
        Path::new(&format!("/proc/{}/root", self.init)).join(inside)
    }

    /// The node's network namespace, as this process can open it.
    pub fn netns(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/ns/net", self.init))
    }

    /// Calls `inside` on a thread that has entered the node's network.
    ///
    /// # Panics
    ///
    /// If it cannot be entered, or `inside` panics.
    pub fn enter<T: Send>(&self, inside: impl FnOnce() -> T + Send) -> T {
        Netns::at(&self.netns()).enter(inside)
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        // The first process ends, and with it every other one of the node.
        drop(self.outer.stdin.take());
        let _ = self.outer.wait();
    }
}
