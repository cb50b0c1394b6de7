//! What should be on the node: from the settings, the template and the
//! service account.

use std::{
    fs, io,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use crate::{
    files,
    kubeconfig::{self, Freshness, Missing},
    settings::{Settings, TemplateSource},
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
        String::new()
    } else {
        text("the CA", &server.ca_file)?
    };
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    Ok(Kubeconfig {
        text: kubeconfig::render(server, &token, ca.as_bytes())?,
        freshness: kubeconfig::freshness(&token, now),
        expiry: kubeconfig::expiry(&token),
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

fn file(what: &'static str, path: &Path) -> Result<String, Missing> {
    text(what, path).map(|text| text.trim().to_owned())
}

fn text(what: &'static str, path: &Path) -> Result<String, Missing> {
    let missing = |why: String| Missing::File {
        what,
        path: path.display().to_string(),
        why,
    };
    let text = fs::read_to_string(path).map_err(|e| missing(e.to_string()))?;
    if text.trim().is_empty() {
        Err(missing("it is empty".to_owned()))
    } else {
        Ok(text)
    }
}
