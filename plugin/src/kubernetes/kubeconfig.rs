//! The kubeconfig that the installer keeps on the host.

use std::{
    io,
    net::Ipv4Addr,
    path::{Path, PathBuf},
};

use kube::{
    Config,
    config::{AuthInfo, KubeConfigOptions, Kubeconfig},
};
use time::OffsetDateTime;

use super::token;

/// How to reach the API server, and as whom.
#[derive(Debug)]
pub(super) struct Access {
    pub(super) config: Config,
    pub(super) server: String,
    pub(super) token: Option<String>,
}

/// Why the kubeconfig cannot be used. The installer writes it anew all the time, so each of these
/// is worth another try.
#[derive(Debug, thiserror::Error)]
pub enum KubeconfigError {
    /// The network configuration names none.
    #[error("kubernetes.kubeconfig is not set in the network configuration")]
    Unnamed,
    /// It cannot be read.
    #[error(
        "kubeconfig {path} cannot be read; linkerd-cni-installer writes it, is its pod running on \
         this node?",
        path = .path.display()
    )]
    Read {
        /// Its path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It holds nothing.
    #[error(
        "kubeconfig {path} is empty; linkerd-cni-installer writes it, see its log on this node",
        path = .path.display()
    )]
    Empty {
        /// Its path.
        path: PathBuf,
    },
    /// It is no kubeconfig.
    #[error(
        "kubeconfig {path} cannot be used: {reason}; linkerd-cni-installer writes it anew if it is \
         deleted",
        path = .path.display()
    )]
    Unusable {
        /// Its path.
        path: PathBuf,
        /// What is wrong with it. Never its content: that holds the token.
        reason: String,
    },
}

/// What a kubeconfig says, without its secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Inspected {
    /// URL of the API server.
    pub server: String,
    /// When the token ends, if it says so.
    pub expiry: Option<OffsetDateTime>,
}

/// Reads a kubeconfig as the client would, and asks nobody.
///
/// # Errors
/// It is missing, empty, or of no use.
pub(crate) fn inspect(path: &Path) -> Result<Inspected, KubeconfigError> {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.map_err(|source| KubeconfigError::Read {
        path: path.to_path_buf(),
        source,
    })?;
    let Access { server, token, .. } = runtime.block_on(access(path))?;
    let expiry = token.as_deref().and_then(token::expiry);
    Ok(Inspected { server, expiry })
}

/// Reads the kubeconfig into what the client is made from.
pub(super) async fn access(path: &Path) -> Result<Access, KubeconfigError> {
    let unusable = |reason: String| KubeconfigError::Unusable {
        path: path.to_path_buf(),
        reason,
    };
    let (mut kubeconfig, server) = load(path)?;
    for user in &mut kubeconfig.auth_infos {
        // Ours has a token. A helper program would be one more process, with rights of its own.
        if let Some(user) = &mut user.auth_info {
            user.exec = None;
            user.auth_provider = None;
        }
    }
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let mut config = config.map_err(|error| unusable(error.to_string()))?;
    let token = token_of(&config.auth_info);
    if token
        .as_deref()
        .is_some_and(|token| !token.bytes().all(|b| b.is_ascii_graphic()))
    {
        return Err(unusable(
            "its token has characters that no token has".to_owned(),
        ));
    }
    if config.root_cert.as_ref().is_some_and(Vec::is_empty) {
        let reason = "its certificate authority holds no certificate";
        return Err(unusable(reason.to_owned()));
    }
    if config.accept_invalid_certs {
        // Else kube looks for the system's, and gives up on a node that has none.
        config.root_cert.get_or_insert_default();
    }
    config.proxy_url = None;
    config.default_retry = false;
    Ok(Access {
        config,
        server,
        token,
    })
}

fn load(path: &Path) -> Result<(Kubeconfig, String), KubeconfigError> {
    let path = path.to_path_buf();
    if path.as_os_str().is_empty() {
        return Err(KubeconfigError::Unnamed);
    }
    let text = match std::fs::read_to_string(&path) {
        Ok(text) if text.trim().is_empty() => return Err(KubeconfigError::Empty { path }),
        Ok(text) => text,
        Err(source) => return Err(KubeconfigError::Read { path, source }),
    };
    let Ok(mut kubeconfig) = Kubeconfig::from_yaml(&text) else {
        let reason = "it is not a kubeconfig".to_owned();
        return Err(KubeconfigError::Unusable { path, reason });
    };
    let mut server = None;
    for cluster in kubeconfig
        .clusters
        .iter_mut()
        .filter_map(|named| named.cluster.as_mut())
    {
        cluster.server = cluster.server.take().map(|url| without_ipv4_brackets(&url));
        // Keeps the loader from looking for a proxy in the runtime's environment; what it then
        // finds is thrown away.
        cluster.proxy_url.clone_from(&cluster.server);
        server = server.or_else(|| cluster.server.clone());
    }
    let Some(server) = server else {
        let reason = "it names no server".to_owned();
        return Err(KubeconfigError::Unusable { path, reason });
    };
    Ok((kubeconfig, server))
}

fn token_of(user: &AuthInfo) -> Option<String> {
    // The token's type hides it from everything but serialization.
    let user = serde_json::to_value(user).ok()?;
    user["token"].as_str().map(str::to_owned)
}

/// Earlier versions of the installer put brackets around every host.
fn without_ipv4_brackets(url: &str) -> String {
    let bracketed = url.split_once('[').and_then(|(before, rest)| {
        let (host, after) = rest.split_once(']')?;
        Some((before, host, after))
    });
    match bracketed {
        Some((before, host, after)) if host.parse::<Ipv4Addr>().is_ok() => {
            format!("{before}{host}{after}")
        }
        _ => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    }

    #[test]
    fn brackets_come_off_ipv4_only() {
        for (url, expected) in [
            ("https://[10.96.0.1]:443", "https://10.96.0.1:443"),
            ("https://[fd00::1]:443", "https://[fd00::1]:443"),
            ("https://10.96.0.1:443", "https://10.96.0.1:443"),
            ("https://[kubernetes]:443", "https://[kubernetes]:443"),
        ] {
            assert_eq!(without_ipv4_brackets(url), expected);
        }
    }

    #[test]
    fn faults_name_the_file_and_never_quote_it() {
        let missing = inspect(Path::new("/nonexistent/kubeconfig"))
            .unwrap_err()
            .to_string();
        assert!(
            missing.contains("/nonexistent/kubeconfig cannot be read"),
            "{missing}"
        );
        for (text, words) in [
            ("", "is empty"),
            ("\n \n", "is empty"),
            (
                "users: [{name: x, user: {token: [secret]",
                "not a kubeconfig",
            ),
            ("[secret]", "not a kubeconfig"),
            ("apiVersion: v1\nkind: Config\n", "names no server"),
        ] {
            let file = write(text);
            let error = inspect(file.path()).unwrap_err().to_string();
            assert!(
                error.contains(words) && !error.contains("secret"),
                "{text:?}: {error}"
            );
            assert!(error.contains(&*file.path().to_string_lossy()), "{error}");
        }
        assert!(matches!(
            inspect(Path::new("")),
            Err(KubeconfigError::Unnamed)
        ));
    }

    #[test]
    fn server_and_expiry_are_read() {
        let file = write(
            "apiVersion: v1\nkind: Config\nclusters:\n- name: local\n  cluster:\n    \
             server: https://[10.96.0.1]:443\nusers:\n- name: linkerd-cni\n  user:\n    token: abc\n\
             contexts:\n- name: c\n  context:\n    cluster: local\n    user: linkerd-cni\n\
             current-context: c\n",
        );
        let found = inspect(file.path()).unwrap();
        assert_eq!(found.server, "https://10.96.0.1:443");
        assert_eq!(found.expiry, None);
    }
}
