//! containerd on a node.

use std::fs::{self, File};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::Signal;

use super::{Namespaces, PAUSE, image};
use crate::node::send;
use crate::process;

/// How long containerd may take to start, or to end.
const DEADLINE: Duration = Duration::from_secs(20);

/// A running containerd: the real one, with every directory its own.
#[derive(Debug)]
pub struct Containerd {
    directory: PathBuf,
    outer: Child,
}

// === impl Containerd ===

impl Containerd {
    /// Starts containerd on a node and waits until it answers. What it must keep
    /// over a reboot lies in `directory`, the rest in the node's `/run`.
    ///
    /// # Errors
    ///
    /// It does not start; with its log.
    pub fn start(
        node: &Namespaces,
        directory: &Path,
        net_dir: &Path,
        bin_dir: &Path,
    ) -> Result<Self> {
        let first = !directory.exists();
        fs::create_dir_all(directory)?;
        let configuration = config(directory, net_dir, bin_dir);
        fs::write(directory.join("config.toml"), configuration)?;
        let mut containerd = Self {
            outer: spawn(node, directory)?,
            directory: directory.to_owned(),
        };
        containerd.wait()?;
        if first {
            containerd.import(&image::archive(directory)?)?;
        }
        Ok(containerd)
    }

    /// Its socket.
    pub fn socket(&self) -> PathBuf {
        self.directory.join("containerd.sock")
    }

    /// Everything it has logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.directory.join("log")).unwrap_or_default()
    }

    /// Kills it and starts it again; pods that run go on.
    ///
    /// # Errors
    ///
    /// It cannot be found, or does not start.
    pub fn restart(&mut self, node: &Namespaces) -> Result<()> {
        send(process::only_child(self.outer.id())?, Signal::SIGKILL);
        self.outer.wait()?;
        self.outer = spawn(node, &self.directory)?;
        self.wait()
    }

    /// Takes the images of an OCI archive.
    ///
    /// # Errors
    ///
    /// It does not; with what it says.
    pub fn import(&self, archive: &Path) -> Result<()> {
        let (socket, archive) = (self.socket(), archive.to_string_lossy());
        let socket = socket.to_string_lossy();
        let to = ["--address", &socket, "--namespace", "k8s.io"];
        let import = ["images", "import", "--snapshotter", "native", &archive];
        process::run("ctr", &[&to[..], &import].concat())?;
        Ok(())
    }

    fn wait(&mut self) -> Result<()> {
        let until = Instant::now() + DEADLINE;
        // The file of one that was killed is still there, but nobody answers.
        while UnixStream::connect(self.socket()).is_err() {
            if let Some(status) = self.outer.try_wait()? {
                bail!("containerd ended ({status}):\n{}", self.log());
            }
            if Instant::now() > until {
                bail!("containerd does not answer:\n{}", self.log());
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        if let Ok(inner) = process::only_child(self.outer.id()) {
            send(inner, Signal::SIGKILL);
        }
        let _ = self.outer.wait();
    }
}

fn spawn(node: &Namespaces, directory: &Path) -> Result<Child> {
    let log = directory.join("log");
    let log = File::options().create(true).append(true).open(log)?;
    let mut command = node.command("containerd");
    command.arg("--config").arg(directory.join("config.toml"));
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    command.spawn().context("cannot start containerd")
}

fn config(directory: &Path, net_dir: &Path, bin_dir: &Path) -> String {
    let (directory, net_dir, bin_dir) = (directory.display(), net_dir.display(), bin_dir.display());
    // AppArmor's profiles would be loaded into the host's kernel.
    format!(
        r#"version = 2
root = "{directory}/root"
state = "/run/containerd"
temp = "{directory}/temp"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.internal.v1.tracing"]
[grpc]
address = "{directory}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE}"
restrict_oom_score_adj = true
disable_apparmor = true
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "native"
default_runtime_name = "runc"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".cni]
conf_dir = "{net_dir}"
bin_dir = "{bin_dir}"
"#
    )
}
