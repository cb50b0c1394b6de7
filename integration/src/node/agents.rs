//! What others do on a node: agents that write configurations, and kubelet that
//! rotates tokens.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::Instant;

use super::Node;
use super::look::names;
use crate::api_server::{ApiServer, TOKEN};
use crate::fixtures;

impl Node {
    /// Writes a file into the configuration directory, as an agent does that
    /// knows nothing of renaming.
    ///
    /// # Panics
    ///
    /// If it cannot be written.
    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.conf(name), bytes).expect("a configuration is written");
    }

    /// Renames a file into the configuration directory.
    ///
    /// # Panics
    ///
    /// If it cannot be renamed.
    pub fn rename_in(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let other = self.path(&format!("host/{name}.elsewhere"));
        fs::write(&other, bytes).expect("a file is written");
        fs::rename(&other, self.conf(name)).expect("a file is renamed");
    }

    /// Drops a configuration of the fixtures in, with mode 0644.
    ///
    /// # Panics
    ///
    /// If there is no such fixture.
    pub fn drop_in(&self, fixture: &str) -> Vec<u8> {
        let bytes = fixture_bytes(fixture);
        let name = fixture.rsplit('/').next().unwrap_or(fixture);
        self.write(name, &bytes);
        fs::set_permissions(self.conf(name), Permissions::from_mode(0o644)).expect("chmod");
        bytes
    }

    /// Swaps the token as kubelet does: a new directory, and a link to it that
    /// is renamed over `..data`.
    ///
    /// # Panics
    ///
    /// If it cannot be swapped.
    pub fn rotate_token(&self, token: &str) {
        let account = self.service_account();
        let version = format!("..version_{:?}", Instant::now()).replace(['{', '}', ' ', ':'], "");
        let new = account.join(&version);
        fs::create_dir_all(&new).expect("a directory");
        for (name, text) in [
            ("token", token),
            ("namespace", "linkerd-cni"),
            ("ca.crt", "CA\n"),
        ] {
            let old = account.join("..data").join(name);
            let text = if name == "token" {
                None
            } else {
                fs::read_to_string(old).ok()
            }
            .unwrap_or_else(|| text.to_owned());
            fs::write(new.join(name), text).expect("a file of the account");
            let _ = symlink(format!("..data/{name}"), account.join(name));
        }
        let old = fs::read_link(account.join("..data"));
        symlink(&version, account.join("..data_tmp")).expect("a link");
        fs::rename(account.join("..data_tmp"), account.join("..data")).expect("a swap");
        if let Ok(old) = old {
            fs::remove_dir_all(account.join(old)).expect("the old version goes");
        }
    }

    /// Puts this CA into the service account.
    ///
    /// # Panics
    ///
    /// If it cannot be written.
    pub fn trust(&self, ca: &str) {
        fs::write(self.service_account().join("ca.crt"), ca).expect("a CA");
    }

    /// Makes this the API server of the node's cluster, and gives the installer
    /// a token for it.
    ///
    /// # Panics
    ///
    /// If the service account cannot be written.
    pub fn use_server(&mut self, server: &ApiServer) {
        self.trust(&server.ca());
        self.rotate_token(TOKEN);
        let address = server.address();
        self.set("KUBERNETES_SERVICE_HOST", &address.ip().to_string());
        self.set("KUBERNETES_SERVICE_PORT", &address.port().to_string());
    }
}

/// The bytes of a fixture, given relative to `integration/fixtures/`.
///
/// # Panics
///
/// If there is no such fixture.
pub fn fixture_bytes(relative: &str) -> Vec<u8> {
    let path = fixtures::path(relative);
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The names of the files of a fixture directory.
///
/// # Panics
///
/// If there is no such directory.
pub fn fixture_names(dir: &str) -> Vec<String> {
    names(&fixtures::path(dir))
}
