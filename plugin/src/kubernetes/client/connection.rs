//! The client of one kubeconfig, on a runtime of its own.

use std::{io, os::unix::net::UnixStream, path::Path, time::Duration};

use hyper_util::{
    client::legacy::{Client as Http, connect::HttpConnector},
    rt::TokioExecutor,
};
use kube::{Client, Config, client::ConfigExt as _};
use tower::{BoxError, ServiceBuilder};

use super::answer::{Answer, Trouble};
use crate::kubernetes::{
    ApiError,
    kubeconfig::{self, Access},
};

/// As many file descriptors as tokio opens for a runtime (7), made even.
const DESCRIPTORS: usize = 8;

/// A client of one kubeconfig, and the runtime that drives it.
pub(super) struct Connection {
    runtime: tokio::runtime::Runtime,
    client: Client,
    pub(super) server: String,
    pub(super) token: Option<String>,
}

// === impl Connection ===

impl Connection {
    /// A client of this kubeconfig. Nothing is asked yet.
    ///
    /// # Errors
    /// The kubeconfig cannot be used, or the runtime gets no descriptors.
    pub(super) fn new(kubeconfig: &Path) -> Result<Self, ApiError> {
        let client_error = |error: &dyn std::fmt::Display| ApiError::Client(error.to_string());
        has_descriptors().map_err(|e| client_error(&e))?;
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime
            .enable_io()
            .enable_time()
            .build()
            .map_err(|e| client_error(&e))?;
        let (client, server, token) = runtime.block_on(async {
            let Access {
                config,
                server,
                token,
            } = kubeconfig::access(kubeconfig).await?;
            let client = client(config).map_err(|e| client_error(&e))?;
            Ok::<_, ApiError>((client, server.trim_end_matches('/').to_owned(), token))
        })?;
        Ok(Self {
            runtime,
            client,
            server,
            token,
        })
    }

    /// Asks once, waiting at most until `deadline` has passed.
    ///
    /// # Errors
    /// There was no answer.
    pub(super) fn once(&self, path: &str, deadline: Duration) -> Result<Answer, Trouble> {
        self.runtime.block_on(async {
            match tokio::time::timeout(deadline, Answer::fetch(&self.client, path)).await {
                Ok(answered) => answered,
                Err(_) => Err(Trouble::Timeout(deadline)),
            }
        })
    }
}

/// What `kube` makes of a configuration, without deadlines and lines of log, which are ours, and
/// with `TCP_NODELAY`: else the first request waits until the server has acknowledged the last part
/// of the handshake, a whole round trip.
fn client(config: Config) -> kube::Result<Client> {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    let connector = config.rustls_https_connector_with_connector(connector)?;
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .map_err(BoxError::from)
        .service(Http::builder(TokioExecutor::new()).build(connector));
    Ok(Client::new(service, config.default_namespace))
}

/// Whether there are as many file descriptors left as the runtime takes at once. Asked for first,
/// because tokio's part for signals panics where it gets none.
fn has_descriptors() -> io::Result<()> {
    let pairs: io::Result<Vec<_>> = (0..DESCRIPTORS / 2).map(|_| UnixStream::pair()).collect();
    pairs.map(drop)
}
