//! `/live`, `/ready` and `/metrics`, on a thread of their own.
//!
//! Whatever happens here, the node is chained: an address that is taken is a warning, and is tried
//! again.

use std::{io, net::SocketAddr, sync::Arc, thread, time::Duration};

use tokio::net::TcpListener;
use tracing::{info, warn};

use crate::{health::Health, metrics::Metrics};

mod answer;
mod serve;

/// Reading a head and writing a text takes little.
const STACK: usize = 256 << 10;

/// How long is waited before an address is tried again.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);

/// What is served.
#[derive(Clone, Debug)]
pub struct Served {
    /// For `/live` and `/ready`.
    pub health: Arc<Health>,
    /// For `/metrics`.
    pub metrics: Arc<Metrics>,
}

/// Serves on an address from now on.
///
/// # Errors
///
/// There can be no thread.
pub fn start(address: SocketAddr, served: Served) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    thread::Builder::new()
        .name("admin".to_owned())
        .stack_size(STACK)
        .spawn(move || runtime.block_on(listen(address, served)))
        .map(|_| ())
}

async fn listen(address: SocketAddr, served: Served) {
    let mut said = String::new();
    let mut backoff = FIRST;
    let listener = loop {
        match TcpListener::bind(address).await {
            Ok(listener) => break listener,
            Err(e) => {
                let what = e.to_string();
                if said != what {
                    warn!(
                        "/live, /ready and /metrics are not served on {address}: {what}; is ADMIN_ADDRESS an address of this \
                         host, and its port free? Trying again"
                    );
                }
                said = what;
            }
        }
        tokio::time::sleep(backoff).await;
        backoff = (backoff * 2).min(LONGEST);
    };
    let address = listener.local_addr().unwrap_or(address);
    info!("Serving /live, /ready and /metrics on {address}");
    serve::serve(&listener, served).await;
}
