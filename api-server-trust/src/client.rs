//! The client of one API server, made of kube's parts.

use std::sync::Arc;

use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client as Http, connect::HttpConnector},
    rt::TokioExecutor,
};
use kube::{Client, Config, client::ConfigExt as _};
use rustls::{
    ClientConfig,
    pki_types::{InvalidDnsNameError, ServerName},
};
use tower::{BoxError, ServiceBuilder};

use crate::{Bundle, verifier::Verifier};

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// `tls-server-name` is neither a name nor an address.
    #[error("tls-server-name {name:?} is neither a name nor an address")]
    ServerName {
        /// What it is.
        name: String,
        /// Why.
        source: InvalidDnsNameError,
    },
    /// What kube says.
    #[error(transparent)]
    Kube(#[from] kube::Error),
}

/// What `kube` makes of a configuration, without deadlines and lines of log, which are the caller's,
/// and with `TCP_NODELAY`: else the first request waits until the server has acknowledged the last
/// part of the handshake, a whole round trip. Nothing is asked yet.
///
/// Without a bundle the system's authorities are trusted; with `accept_invalid_certs` everybody is.
///
/// # Errors
/// What in the configuration is of no use.
pub fn client(config: Config, trusted: Option<Bundle>) -> Result<Client, ClientError> {
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    let tls_server_name = config.tls_server_name.as_deref();
    let name = tls_server_name.map(server_name).transpose()?;
    let builder = HttpsConnectorBuilder::new()
        .with_tls_config(tls(config.clone(), trusted)?)
        .https_or_http();
    let builder = match name {
        Some(name) => builder.with_server_name_resolver(FixedServerNameResolver::new(name)),
        None => builder,
    };
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .map_err(BoxError::from)
        .service(
            Http::builder(TokioExecutor::new()).build(builder.enable_http1().wrap_connector(http)),
        );
    Ok(Client::new(service, config.default_namespace))
}

fn tls(mut config: Config, trusted: Option<Bundle>) -> kube::Result<ClientConfig> {
    if trusted.is_some() || config.accept_invalid_certs {
        // Else kube looks for the system's, and gives up on a node that has none.
        config.root_cert = Some(Vec::new());
    }
    let mut tls = config.rustls_client_config()?;
    if let (Some(trusted), false) = (trusted, config.accept_invalid_certs) {
        tls.dangerous()
            .set_certificate_verifier(Arc::new(Verifier::new(trusted)));
    }
    Ok(tls)
}

fn server_name(name: &str) -> Result<ServerName<'static>, ClientError> {
    ServerName::try_from(name.to_owned()).map_err(|source| ClientError::ServerName {
        name: name.to_owned(),
        source,
    })
}
