//! What ADD is measured against: a bare TLS GET, and the way of the Go plugin.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use linkerd_cni_integration::api_server::ApiServer;
use linkerd_cni_integration::fixtures;
use linkerd_cni_integration::process;
use linkerd_cni_integration::stage::Stage;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// A TLS connection, made at the first request.
pub(crate) struct Get {
    config: Arc<ClientConfig>,
    address: std::net::SocketAddr,
    stream: Option<BufReader<StreamOwned<ClientConnection, TcpStream>>>,
}

impl Get {
    pub(crate) fn new(server: &ApiServer) -> anyhow::Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(server.ca().as_bytes())?)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self {
            config: Arc::new(config),
            address: server.address(),
            stream: None,
        })
    }

    /// Reads one answer to its end.
    pub(crate) fn get(&mut self, path: &str) -> anyhow::Result<()> {
        let stream = match self.stream.take() {
            Some(stream) => stream,
            None => self.connect()?,
        };
        let stream = self.stream.insert(stream);
        // Formatted first: what is written piece by piece is a TLS record each.
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: api\r\nAuthorization: Bearer {}\r\n\r\n",
            linkerd_cni_integration::api_server::TOKEN
        );
        stream.get_mut().write_all(request.as_bytes())?;
        stream.get_mut().flush()?;
        let mut length = 0;
        loop {
            let mut line = String::new();
            stream.read_line(&mut line)?;
            let line = line.trim_end().to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse()?;
            }
            if line.is_empty() {
                break;
            }
        }
        stream.read_exact(&mut vec![0; length])?;
        Ok(())
    }

    fn connect(&self) -> anyhow::Result<BufReader<StreamOwned<ClientConnection, TcpStream>>> {
        let tcp = TcpStream::connect(self.address)?;
        tcp.set_nodelay(true)?;
        let name = ServerName::from(self.address.ip());
        let tls = ClientConnection::new(Arc::clone(&self.config), name)?;
        Ok(BufReader::new(StreamOwned::new(tls, tcp)))
    }
}

/// What the Go plugin does for the same pod: the pod and its namespace are read for each of three
/// annotations, and each chain and rule is one iptables process through `nsenter`.
pub(crate) fn one_process_per_rule(stage: &Stage) -> anyhow::Result<Duration> {
    let mut get = Get::new(&stage.api)?;
    let pod = super::path_of(&fixtures::pod("meshed"));
    let namespace = pod.split("/pods/").next().unwrap_or_default();
    let net = format!("--net={}", stage.netns.path().display());
    let started = Instant::now();
    for _ in 0..3 {
        get.get(&pod)?;
        get.get(namespace)?;
    }
    for rule in COMMANDS {
        let mut command = process::command("/usr/bin/nsenter");
        command
            .args([&net, "/usr/sbin/iptables-nft", "-t", "nat"])
            .args(rule.split(' '));
        process::time(&mut command, b"")?;
    }
    Ok(started.elapsed())
}

/// Its commands for one family, with the seed's configuration.
const COMMANDS: [&str; 11] = [
    "-N PROXY_INIT_REDIRECT",
    "-A PROXY_INIT_REDIRECT -p tcp --match multiport --dports 4190,4191 -j RETURN -m comment --comment proxy-init/ignore-port-4190,4191",
    "-A PROXY_INIT_REDIRECT -p tcp -j REDIRECT --to-port 4143 -m comment --comment proxy-init/redirect-all-incoming-to-proxy-port",
    "-A PREROUTING -j PROXY_INIT_REDIRECT -m comment --comment proxy-init/install-proxy-init-prerouting",
    "-N PROXY_INIT_OUTPUT",
    "-A PROXY_INIT_OUTPUT -m owner --uid-owner 2102 -j RETURN -m comment --comment proxy-init/ignore-proxy-user-id",
    "-A PROXY_INIT_OUTPUT -m owner --gid-owner 2102 -j RETURN -m comment --comment proxy-init/ignore-proxy-group-id",
    "-A PROXY_INIT_OUTPUT -o lo -j RETURN -m comment --comment proxy-init/ignore-loopback",
    "-A PROXY_INIT_OUTPUT -p tcp --match multiport --dports 3306 -j RETURN -m comment --comment proxy-init/ignore-port-3306",
    "-A PROXY_INIT_OUTPUT -p tcp -j REDIRECT --to-port 4140 -m comment --comment proxy-init/redirect-all-outgoing-to-proxy-port",
    "-A OUTPUT -j PROXY_INIT_OUTPUT -m comment --comment proxy-init/install-proxy-init-output",
];
