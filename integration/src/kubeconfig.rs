//! The kubeconfig as the installer leaves it on a node, and its variants.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use tempfile::TempDir;

use crate::api_server::{ApiServer, TOKEN};

/// A kubeconfig in a directory of its own; gone when dropped.
#[derive(Debug)]
pub struct Kubeconfig {
    directory: TempDir,
}

/// What a kubeconfig says.
#[derive(Clone, Debug)]
pub struct Contents {
    /// URL of the API server.
    pub server: String,
    /// Its authority as PEM; `None` writes `insecure-skip-tls-verify: true`.
    pub ca: Option<String>,
    /// The bearer token.
    pub token: String,
}

// === impl Kubeconfig ===

impl Kubeconfig {
    /// A directory in which nothing is written yet.
    ///
    /// # Panics
    ///
    /// If no temporary directory can be made.
    pub fn missing() -> Self {
        let directory = tempfile::Builder::new()
            .prefix("lct-kubeconfig-")
            .tempdir()
            .expect("a temporary directory can be made");
        Self { directory }
    }

    /// A kubeconfig that leads to `server`, with the token it takes.
    ///
    /// # Panics
    ///
    /// If it cannot be written.
    pub fn of(server: &ApiServer) -> Self {
        let kubeconfig = Self::missing();
        kubeconfig.write(&Contents::of(server));
        kubeconfig
    }

    /// Where it is.
    pub fn path(&self) -> PathBuf {
        self.directory.path().join("ZZZ-linkerd-cni-kubeconfig")
    }

    /// Replaces it by what the installer would write.
    ///
    /// # Panics
    ///
    /// If it cannot be written.
    pub fn write(&self, contents: &Contents) {
        self.write_text(&contents.yaml());
    }

    /// Replaces it by any text.
    ///
    /// # Panics
    ///
    /// If it cannot be written.
    pub fn write_text(&self, text: &str) {
        replace(&self.path(), text);
    }
}

// === impl Contents ===

impl Contents {
    /// What leads to this server.
    pub fn of(server: &ApiServer) -> Self {
        Self {
            server: format!("https://{}", server.address()),
            ca: Some(server.ca()),
            token: TOKEN.to_owned(),
        }
    }

    /// As YAML, with the names that the installer gives.
    pub fn yaml(&self) -> String {
        let trust = self.ca.as_ref().map_or_else(
            || "insecure-skip-tls-verify: true".to_owned(),
            |pem| format!("certificate-authority-data: {}", STANDARD.encode(pem)),
        );
        format!(
            "# Kubeconfig file for linkerd CNI plugin.\n\
             apiVersion: v1\n\
             kind: Config\n\
             clusters:\n\
             - name: local\n\
             \x20 cluster:\n\
             \x20   server: {}\n\
             \x20   {trust}\n\
             users:\n\
             - name: linkerd-cni\n\
             \x20 user:\n\
             \x20   token: {}\n\
             contexts:\n\
             - name: linkerd-cni-context\n\
             \x20 context:\n\
             \x20   cluster: local\n\
             \x20   user: linkerd-cni\n\
             current-context: linkerd-cni-context\n",
            self.server, self.token,
        )
    }
}

/// Writes atomically, as the installer does: a reader never sees half a file.
///
/// # Panics
///
/// If it cannot be written.
pub fn replace(path: &Path, text: &str) {
    let temporary = path.with_extension("new");
    fs::write(&temporary, text).expect("a kubeconfig can be written");
    fs::set_permissions(&temporary, fs::Permissions::from_mode(0o600))
        .expect("its mode can be set");
    fs::rename(&temporary, path).expect("it can be moved into place");
}

/// A service account's token (a JWT, unsigned) that expires so many seconds from
/// now; negative for one that has expired.
pub fn token_expiring_in(seconds: i64) -> String {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let expires = i64::try_from(now).unwrap_or(i64::MAX) + seconds;
    token_with(&format!(
        r#"{{"aud":["https://kubernetes.default.svc"],"exp":{expires},"sub":"system:serviceaccount:linkerd-cni:linkerd-cni"}}"#
    ))
}

/// A service account's token (a JWT, unsigned) with these claims.
pub fn token_with(claims: &str) -> String {
    let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
    format!(
        "{}.{}.{}",
        part(r#"{"alg":"RS256","typ":"JWT"}"#),
        part(claims),
        part("no signature"),
    )
}
