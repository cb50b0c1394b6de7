//! The kubeconfig that the installer keeps on the host.

use std::{
    io,
    net::Ipv4Addr,
    path::{Path, PathBuf},
};

use api_server_trust::Bundle;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use kube::{
    Config,
    config::{AuthInfo, Cluster, KubeConfigOptions, Kubeconfig},
};

use super::token::{self, Lifetime};

/// Where a kubeconfig has the certificates that are trusted.
pub(super) const BUNDLE: &str = "certificate-authority-data";

/// How to reach the API server, and as whom.
#[derive(Debug)]
pub(super) struct Access {
    pub(super) config: Config,
    pub(super) server: String,
    pub(super) token: Option<String>,
    /// Whom to trust; `None` if it does not say, and the system's authorities are.
    pub(super) trusted: Option<Bundle>,
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
    /// When the token begins and ends, if it says so.
    pub lifetime: Lifetime,
    /// What is of no use among the certificates that are trusted, in words.
    pub complaint: Option<String>,
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
    let access = runtime.block_on(access(path))?;
    Ok(Inspected {
        server: access.server,
        lifetime: access
            .token
            .as_deref()
            .map(token::lifetime)
            .unwrap_or_default(),
        complaint: access.trusted.as_ref().and_then(Bundle::complaint),
    })
}

/// Reads the kubeconfig into what the client is made from.
pub(super) async fn access(path: &Path) -> Result<Access, KubeconfigError> {
    let unusable = |reason: String| KubeconfigError::Unusable {
        path: path.to_path_buf(),
        reason,
    };
    let (mut kubeconfig, server) = load(path)?;
    let trusted = trusted(&mut kubeconfig, path).map_err(unusable)?;
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
    config.proxy_url = None;
    config.default_retry = false;
    Ok(Access {
        config,
        server,
        token,
        trusted,
    })
}

/// Takes out whom to trust, since kube takes all of it or nothing. Data wins over a file, whose path
/// is relative to the kubeconfig's.
fn trusted(kubeconfig: &mut Kubeconfig, path: &Path) -> Result<Option<Bundle>, String> {
    let Some(cluster) = current_cluster(kubeconfig) else {
        return Ok(None);
    };
    let data = cluster.certificate_authority_data.take();
    let file = cluster.certificate_authority.take();
    if cluster.insecure_skip_tls_verify == Some(true) {
        return Ok(None);
    }
    let text = match (data, file) {
        (Some(data), _) if !data.is_empty() => {
            let letters = data.split_ascii_whitespace().collect::<String>();
            let decoded = STANDARD.decode(letters);
            decoded.map_err(|_| format!("its {BUNDLE} is not base64"))?
        }
        (_, Some(file)) if !file.is_empty() => {
            let file = path.parent().unwrap_or(path).join(file);
            std::fs::read(&file).map_err(|error| {
                format!(
                    "its certificate-authority {} cannot be read: {error}",
                    file.display()
                )
            })?
        }
        _ => return Ok(None),
    };
    let bundle = Bundle::read(&text);
    match (bundle.is_empty(), bundle.complaint()) {
        (false, _) => Ok(Some(bundle)),
        (true, None) => Err("its certificate authority holds no certificate".to_owned()),
        (true, Some(complaint)) => Err(format!(
            "its certificate authority holds no certificate ({complaint})"
        )),
    }
}

/// The cluster of the current context.
fn current_cluster(kubeconfig: &mut Kubeconfig) -> Option<&mut Cluster> {
    let current = kubeconfig.current_context.as_ref()?;
    let context = kubeconfig
        .contexts
        .iter()
        .find(|named| named.name == *current)?;
    let name = &context.context.as_ref()?.cluster;
    let cluster = kubeconfig
        .clusters
        .iter_mut()
        .find(|named| named.name == *name)?;
    cluster.cluster.as_mut()
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
        assert_eq!(found.lifetime, Lifetime::default());
        assert_eq!(found.complaint, None);
    }
}
