//! A certificate authority for one test.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// An authority and the certificate it gave the server.
pub(super) struct Authority {
    pem: String,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

// === impl Authority ===

impl Authority {
    pub(super) fn new() -> Self {
        let key = KeyPair::generate().expect("a key can be made");
        let mut params = CertificateParams::new(Vec::new()).expect("no names are valid names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let authority = params.self_signed(&key).expect("a key can sign itself");
        let issuer = Issuer::new(params, key);

        let key = KeyPair::generate().expect("a key can be made");
        // The last one is that of a node with a runtime.
        let names = [
            "127.0.0.1",
            "localhost",
            "kubernetes.default.svc",
            "192.0.2.7",
        ];
        let leaf = CertificateParams::new(names.map(str::to_owned))
            .expect("the names are valid")
            .signed_by(&key, &issuer)
            .expect("the authority can sign");
        Self {
            pem: authority.pem(),
            chain: vec![leaf.der().clone()],
            key: PrivateKeyDer::try_from(key.serialize_der()).expect("the key is PKCS#8"),
        }
    }

    pub(super) fn pem(&self) -> String {
        self.pem.clone()
    }

    pub(super) fn server_config(&self) -> Arc<ServerConfig> {
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring speaks the default versions")
            .with_no_client_auth()
            .with_single_cert(self.chain.clone(), self.key.clone_key())
            .expect("key and certificate belong together");
        Arc::new(config)
    }
}
