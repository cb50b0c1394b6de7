//! A node of its own: its directories, its network, its `/run`.
//!
//! The script that starts the demo gives it namespaces of its own (network,
//! mounts, processes). What is made here goes with them, however the demo ends:
//! nothing of it is ever on the machine.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use linkerd_cni_integration::chain::reference_plugins;
use linkerd_cni_integration::{binaries, process};
use nix::mount::{MsFlags, mount};

/// The other CNI plugin's network: Debian's `bridge` with `host-local`.
pub(crate) const NETWORK: &str = r#"{
  "cniVersion": "1.0.0",
  "name": "demo-network",
  "plugins": [
    {
      "type": "bridge",
      "bridge": "cni0",
      "isGateway": true,
      "ipam": {
        "type": "host-local",
        "dataDir": "/run/node-7/leases",
        "ranges": [
          [{"subnet": "10.88.0.0/24"}],
          [{"subnet": "fd00:88::/64"}]
        ]
      }
    }
  ]
}
"#;

/// Where a node keeps its CNI files.
pub(crate) struct Node {
    root: PathBuf,
}

// === impl Node ===

impl Node {
    /// Makes the node out of the namespaces that the process was started in.
    pub(crate) fn new() -> Result<Self> {
        if std::process::id() != 1 {
            bail!("start it with ./integration/demo, which gives it namespaces of its own");
        }
        mount_over("tmpfs", Path::new("/run"))?;
        process::run("ip", &["link", "set", "lo", "up"])?;
        // An address that is still being tested for duplicates cannot connect.
        fs::write("/proc/sys/net/ipv6/conf/default/accept_dad", "0")?;
        let node = Self {
            root: PathBuf::from("/run/node-7"),
        };
        for directory in [node.net_dir(), node.bin_dir(), node.root.join("image")] {
            fs::create_dir_all(directory)?;
        }
        for plugin in ["bridge", "host-local", "loopback"] {
            let from = reference_plugins().join(plugin);
            fs::copy(&from, node.bin_dir().join(plugin))
                .with_context(|| format!("{}: is it installed?", from.display()))?;
        }
        fs::copy(binaries::plugin(), node.root.join("image/linkerd-cni"))?;
        Ok(node)
    }

    /// The directory of everything.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Where CNI configurations are.
    pub(crate) fn net_dir(&self) -> PathBuf {
        self.root.join("etc/cni/net.d")
    }

    /// Where CNI executables are.
    pub(crate) fn bin_dir(&self) -> PathBuf {
        self.root.join("opt/cni/bin")
    }

    /// Our executables as they lie in the installer's image.
    pub(crate) fn image(&self) -> PathBuf {
        self.root.join("image")
    }

    /// The other plugin's configuration.
    pub(crate) fn conflist(&self) -> PathBuf {
        self.net_dir().join("10-demo.conflist")
    }

    /// Every file of both directories, by name.
    pub(crate) fn snapshot(&self) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
        let mut files = BTreeMap::new();
        for directory in [self.net_dir(), self.bin_dir()] {
            for entry in fs::read_dir(directory)? {
                let path = entry?.path();
                let content = fs::read(&path)?;
                files.insert(path, content);
            }
        }
        Ok(files)
    }
}

/// Drops a file into a directory as careful agents do.
pub(crate) fn drop_in(path: &Path, content: &str) -> Result<()> {
    let temporary = path.with_extension("tmp");
    fs::write(&temporary, content)?;
    fs::rename(&temporary, path)?;
    Ok(())
}

fn mount_over(kind: &str, path: &Path) -> Result<()> {
    mount(
        Some(kind),
        path,
        Some(kind),
        MsFlags::empty(),
        Some("mode=755"),
    )
    .with_context(|| format!("cannot mount a {kind} on {}", path.display()))
}
