//! The installer on the demo's node: the real process.

use std::fs;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use linkerd_cni_integration::api_server::{ApiServer, TOKEN};
use linkerd_cni_integration::process::{self, Pipes};
use linkerd_cni_integration::{binaries, fixtures};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::node::Node;

/// How long the installer may take for anything.
const PATIENCE: Duration = Duration::from_secs(10);

/// The process that keeps the node chained, and what it says.
pub(crate) struct Installer {
    process: Child,
    pipes: Pipes,
}

// === impl Installer ===

impl Installer {
    /// Starts it; it then waits for a configuration to chain itself to.
    pub(crate) fn start(node: &Node, api: &ApiServer) -> Result<Self> {
        let account = node.root().join("serviceaccount");
        fs::create_dir(&account)?;
        fs::write(account.join("token"), TOKEN)?;
        fs::write(account.join("ca.crt"), api.ca())?;
        fs::write(account.join("namespace"), "linkerd-cni")?;
        let template = fixtures::path("linkerd/template-chart.json");
        // The container sees the host under a prefix: here, both are one.
        std::os::unix::fs::symlink("/", "/run/host")?;
        let mut command = process::command(binaries::installer());
        command
            .env_clear()
            .env("CONTAINER_MOUNT_PREFIX", "/run/host")
            .env("DEST_CNI_NET_DIR", node.net_dir())
            .env("DEST_CNI_BIN_DIR", node.bin_dir())
            .env("CONTAINER_CNI_BIN_DIR", node.image())
            .env("CNI_NETWORK_CONFIG_FILE", template)
            .env("SERVICE_ACCOUNT_DIR", account)
            .env("KUBERNETES_SERVICE_HOST", api.address().ip().to_string())
            .env("KUBERNETES_SERVICE_PORT", api.address().port().to_string())
            .env("KUBERNETES_NODE_NAME", "node-7");
        let mut process = process::spawn(&mut command)?;
        let pipes = Pipes::of(&mut process, b"");
        thread::sleep(Duration::from_millis(300));
        if let Some(status) = process.try_wait()? {
            bail!("the installer ended by itself ({status}): {}", log(pipes));
        }
        Ok(Self { process, pipes })
    }

    /// Waits until the node's configuration ends with our entry; returns it.
    pub(crate) fn chained(&self, node: &Node) -> Result<Value> {
        wait_for("the installer to chain itself", || {
            let text = fs::read_to_string(node.conflist())?;
            let conflist: Value = serde_json::from_str(&text)?;
            let plugins = conflist["plugins"].as_array().context("no plugins")?;
            let last = plugins.last().context("no plugin")?;
            Ok((last["type"] == "linkerd-cni").then(|| conflist.clone()))
        })
    }

    /// Has it leave the node. Its DaemonSet is gone: it takes everything along.
    /// Returns its log.
    pub(crate) fn leave(mut self) -> Result<String> {
        kill(
            Pid::from_raw(i32::try_from(self.process.id())?),
            Signal::SIGTERM,
        )?;
        let status = wait_for("the installer to leave", || Ok(self.process.try_wait()?))?;
        if !status.success() {
            bail!("the installer left with {status}: {}", log(self.pipes));
        }
        Ok(log(self.pipes))
    }
}

fn log(pipes: Pipes) -> String {
    let (stdout, stderr) = pipes.collect(PATIENCE);
    String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned()
}

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let until = Instant::now() + PATIENCE;
    loop {
        let seen = look();
        if let Ok(Some(found)) = seen {
            return Ok(found);
        }
        if Instant::now() > until {
            seen?;
            bail!("waited {PATIENCE:?} for {what}");
        }
        thread::sleep(Duration::from_millis(10));
    }
}
