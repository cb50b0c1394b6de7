//! Programs that fail on purpose, put first on the plugin's PATH.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::TempDir;

use crate::plugin::PATH;

/// The three backends' families of program names.
pub const ALL: [&str; 6] = [
    "iptables-nft",
    "ip6tables-nft",
    "iptables-legacy",
    "ip6tables-legacy",
    "iptables",
    "ip6tables",
];

/// A directory of executable scripts.
#[derive(Debug)]
pub struct Fakes {
    directory: TempDir,
}

// === impl Fakes ===

impl Fakes {
    /// An empty directory.
    ///
    /// # Panics
    ///
    /// If none can be made.
    pub fn new() -> Self {
        let directory = tempfile::Builder::new()
            .prefix("lct-fakes-")
            .tempdir()
            .expect("a temporary directory can be made");
        Self { directory }
    }

    /// Adds `NAME-restore` and `NAME-save` for each name, as this shell script.
    ///
    /// # Panics
    ///
    /// If it cannot be written.
    pub fn replace(self, names: &[&str], script: &str) -> Self {
        for name in names {
            self.script(&format!("{name}-restore"), script);
            self.script(&format!("{name}-save"), script);
        }
        self
    }

    /// Adds one program.
    ///
    /// # Panics
    ///
    /// If it cannot be written.
    pub fn script(&self, name: &str, script: &str) {
        let path = self.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("a script can be written");
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(&path, executable).expect("a script can be made executable");
    }

    /// Where they are.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// A PATH on which these programs win over the real ones.
    pub fn first_on_path(&self) -> String {
        format!("{}:{PATH}", self.path().display())
    }
}

impl Default for Fakes {
    fn default() -> Self {
        Self::new()
    }
}
