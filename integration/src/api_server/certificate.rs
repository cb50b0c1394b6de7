//! A certificate authority for one test.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::crypto::ring;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig};

use crate::verdicts::Case;

/// How the server speaks TLS.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Manner {
    /// TLS 1.2 or 1.3, and asks for nothing.
    Plain,
    /// TLS 1.2 only.
    Tls12,
    /// Asks for a certificate of its client, and does without.
    AsksForCertificate,
    /// Does not do without.
    DemandsCertificate,
}

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

    /// The one of a case.
    pub(super) fn of(case: &Case) -> Self {
        let chain = CertificateDer::pem_slice_iter(case.chain.as_bytes());
        Self {
            pem: case.roots.clone(),
            chain: chain.collect::<Result<_, _>>().expect("certificates"),
            key: PrivateKeyDer::from_pem_slice(case.key.as_bytes()).expect("a key"),
        }
    }

    pub(super) fn pem(&self) -> String {
        self.pem.clone()
    }

    pub(super) fn server_config(&self, manner: Manner) -> Arc<ServerConfig> {
        let versions = match manner {
            Manner::Tls12 => &[&TLS12][..],
            _ => &[&TLS13, &TLS12],
        };
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(versions)
            .expect("ring speaks both versions");
        let builder = match manner {
            Manner::Plain | Manner::Tls12 => builder.with_no_client_auth(),
            Manner::AsksForCertificate => builder.with_client_cert_verifier(self.clients(false)),
            Manner::DemandsCertificate => builder.with_client_cert_verifier(self.clients(true)),
        };
        Arc::new(builder.with_cert_resolver(Arc::new(self.shown())))
    }

    /// Whatever the certificates are: rustls would not show each that a server can have.
    fn shown(&self) -> SingleCertAndKey {
        let key = any_supported_type(&self.key).expect("ring can use the key");
        CertifiedKey::new(self.chain.clone(), key).into()
    }

    fn clients(&self, demanded: bool) -> Arc<dyn ClientCertVerifier> {
        let mut roots = RootCertStore::empty();
        let own = CertificateDer::from_pem_slice(self.pem.as_bytes()).expect("a certificate");
        roots.add(own).expect("an authority");
        let provider = Arc::new(ring::default_provider());
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        let builder = match demanded {
            true => builder,
            false => builder.allow_unauthenticated(),
        };
        builder.build().expect("an authority is there")
    }
}
