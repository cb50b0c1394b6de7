//! The client of one kubeconfig, on a runtime of its own.

use std::{io, os::unix::net::UnixStream, path::Path, time::Duration};

use api_server_trust::{Bundle, client};
use kube::Client;

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
    pub(super) fn new(path: &Path) -> Result<Self, ApiError> {
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
                trusted,
            } = kubeconfig::access(path).await?;
            if let Some(complaint) = trusted.as_ref().and_then(Bundle::complaint) {
                tracing::warn!("{} of {}: {complaint}", kubeconfig::BUNDLE, path.display());
            }
            let client = client(config, trusted).map_err(|e| client_error(&e))?;
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

/// Whether there are as many file descriptors left as the runtime takes at once. Asked for first,
/// because tokio's part for signals panics where it gets none.
fn has_descriptors() -> io::Result<()> {
    let pairs: io::Result<Vec<_>> = (0..DESCRIPTORS / 2).map(|_| UnixStream::pair()).collect();
    pairs.map(drop)
}
