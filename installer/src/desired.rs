//! What should be on the node: from the settings, the template and the
//! service account.

use std::{
    fs, io,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use api_server_trust::Bundle;

use crate::{
    files,
    kubeconfig::{self, Freshness, Missing},
    settings::{ApiServer, Settings, TemplateSource},
    template::{self, Template, TemplateError, Values},
};

/// The template's text and where it is from.
#[derive(Clone, Debug)]
pub struct Source {
    text: String,
    /// For the log.
    pub origin: String,
}

/// Why there is no usable template.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// Neither variable is set.
    #[error(
        "there is no CNI configuration template: set CNI_NETWORK_CONFIG, or CNI_NETWORK_CONFIG_FILE to a file that exists"
    )]
    None,
    /// The file cannot be read.
    #[error("the CNI configuration template cannot be read from {path}: {source}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// It is not what the plugin reads.
    #[error(transparent)]
    Bad(#[from] TemplateError),
}

/// The kubeconfig as it should be.
#[derive(Debug)]
pub struct Kubeconfig {
    /// Its text.
    pub text: String,
    /// How long its token is good for.
    pub freshness: Freshness,
    /// When its token ends, in seconds since 1970, if it says.
    pub expiry: Option<u64>,
    /// What is of no use among the certificates of its CA, in words.
    pub complaint: Option<String>,
}

// === impl Source ===

impl Source {
    /// Reads the template and checks it.
    ///
    /// # Errors
    ///
    /// Why it cannot be used.
    pub fn read(settings: &Settings) -> Result<Self, SourceError> {
        let source = match &settings.template {
            TemplateSource::None => return Err(SourceError::None),
            TemplateSource::Text(text) => Self {
                text: text.clone(),
                origin: "CNI_NETWORK_CONFIG environment variable".to_owned(),
            },
            TemplateSource::File(path) => Self {
                text: fs::read_to_string(path).map_err(|source| SourceError::Unreadable {
                    path: path.display().to_string(),
                    source,
                })?,
                origin: path.display().to_string(),
            },
        };
        source.fill(settings, "")?;
        Ok(source)
    }

    /// The template for an installer in this namespace.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn fill(&self, settings: &Settings, namespace: &str) -> Result<Template, TemplateError> {
        let name = settings.kubeconfig.file_name().unwrap_or_default();
        template::fill(
            &self.text,
            &Values {
                kubeconfig_path: settings.kubeconfig_on_host.clone(),
                kubeconfig_name: name.to_string_lossy().into_owned(),
                service_host: settings.api_server.host.clone(),
                service_port: settings.api_server.port.clone(),
                node_name: settings.node_name.clone(),
                mtu: settings.mtu.clone(),
                namespace: namespace.to_owned(),
                daemonset: settings.daemonset.clone(),
            },
        )
    }
}

/// The installer's own namespace.
///
/// # Errors
///
/// It is not set, and the service account does not say (yet).
pub fn namespace(settings: &Settings) -> Result<String, Missing> {
    match &settings.namespace {
        Some(namespace) => Ok(namespace.clone()),
        None => file(
            "the namespace (POD_NAMESPACE is not set)",
            &settings.service_account.join("namespace"),
        ),
    }
}

/// The service account's token.
///
/// # Errors
///
/// There is none (yet).
pub fn token(settings: &Settings) -> Result<String, Missing> {
    file("the token", &settings.service_account.join("token"))
}

/// The kubeconfig that belongs on the node now.
///
/// # Errors
///
/// What is missing for it (yet).
pub fn kubeconfig(settings: &Settings) -> Result<Kubeconfig, Missing> {
    let server = &settings.api_server;
    kubeconfig::url(server)?;
    let token = token(settings)?;
    let ca = if server.skip_verify {
        Vec::new()
    } else {
        ca(server)?
    };
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    Ok(Kubeconfig {
        text: kubeconfig::render(server, &token, &ca)?,
        freshness: kubeconfig::freshness(&token, now),
        expiry: kubeconfig::expiry(&token),
        complaint: if server.skip_verify {
            None
        } else {
            complaint(server, &ca)
        },
    })
}

/// Whether the kubeconfig on the node is the one that belongs there, with a token that is good.
#[must_use]
pub fn is_in_order(settings: &Settings) -> bool {
    kubeconfig(settings).is_ok_and(|wanted| {
        let text = wanted.text.as_bytes();
        wanted.freshness == Freshness::Good
            && files::holds(&settings.kubeconfig, text, settings.kubeconfig_mode)
    })
}

/// The certificates of the API server's CA, and whatever else the file holds.
///
/// # Errors
///
/// There are none (yet).
pub fn ca(server: &ApiServer) -> Result<Vec<u8>, Missing> {
    content("the CA", &server.ca_file)
}

fn complaint(server: &ApiServer, ca: &[u8]) -> Option<String> {
    let file = server.ca_file.display();
    let bundle = Bundle::read(ca);
    match (bundle.complaint(), bundle.is_empty()) {
        (complaint, true) => {
            let why = complaint.map_or_else(String::new, |why| format!(" ({why})"));
            Some(format!(
                "{file} holds no certificate{why}: nobody can trust the API server"
            ))
        }
        (complaint, false) => complaint.map(|why| format!("{file}: {why}")),
    }
}

fn file(what: &'static str, path: &Path) -> Result<String, Missing> {
    text(what, path).map(|text| text.trim().to_owned())
}

fn text(what: &'static str, path: &Path) -> Result<String, Missing> {
    let content = content(what, path)?;
    String::from_utf8(content).map_err(|_| missing(what, path, "it is not UTF-8"))
}

fn content(what: &'static str, path: &Path) -> Result<Vec<u8>, Missing> {
    let content = fs::read(path).map_err(|e| missing(what, path, &e.to_string()))?;
    if content.trim_ascii().is_empty() {
        Err(missing(what, path, "it is empty"))
    } else {
        Ok(content)
    }
}

fn missing(what: &'static str, path: &Path, why: &str) -> Missing {
    Missing::File {
        what,
        path: path.display().to_string(),
        why: why.to_owned(),
    }
}
