//! Whether a server is trusted, as Go's `x509.Certificate.Verify` decides it.

use std::cell::RefCell;

use rustls::{
    DigitallySignedStruct, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, IpAddr, ServerName, TrustAnchor, UnixTime},
};
use webpki::{
    EndEntityCert, Error, ExtendedKeyUsageValidator, KeyPurposeIdIter, VerifiedPath,
    anchor_from_trusted_cert,
};

use crate::{
    Bundle, Refusal, Whose,
    algorithms::SUPPORTED,
    certificate::{Certificate, Untimely},
    key,
};

/// Trusts whom the certificates of a bundle say to trust.
#[derive(Debug)]
pub(crate) struct Verifier {
    trusted: Vec<CertificateDer<'static>>,
    /// One for each.
    anchors: Vec<TrustAnchor<'static>>,
}

// === impl Verifier ===

impl Verifier {
    pub(crate) fn new(bundle: Bundle) -> Self {
        let anchor = |certificate: &CertificateDer<'_>| {
            let anchor = anchor_from_trusted_cert(certificate).ok()?;
            Some((certificate.clone().into_owned(), anchor.to_owned()))
        };
        let (trusted, anchors) = bundle.certificates.iter().filter_map(anchor).unzip();
        Self { trusted, anchors }
    }

    /// Whether the owner of a certificate, who sent others along, is this server.
    pub(crate) fn judge(
        &self,
        certificate: &CertificateDer<'_>,
        sent: &[CertificateDer<'_>],
        server: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<(), Refusal> {
        let entity = EndEntityCert::try_from(certificate).map_err(|error| unreadable(&error))?;
        let read = Certificate::read(certificate).ok_or_else(|| unreadable(&Error::BadDer))?;
        fits(&read, Whose::Server, now)?;
        is_for(&entity, server)?;
        // Pinned as it is: no authority is asked for, not even one that it is itself.
        if self.trusted.contains(certificate) {
            return Ok(());
        }
        let refused = RefCell::new(None);
        let found = entity.verify_for_usage(
            SUPPORTED.all,
            &self.anchors,
            sent,
            now,
            AnyPurpose,
            None,
            Some(&|path| {
                self.path(path, now).map_err(|refusal| {
                    refused.replace(Some(refusal));
                    Error::UnknownIssuer
                })
            }),
        );
        match (found, refused.take()) {
            (Ok(_), _) => Ok(()),
            (Err(_), Some(refusal)) => Err(refusal),
            (Err(error), None) => Err(self.refusal(&error, &entity, sent, now)),
        }
    }

    /// What webpki does not look at: whether each authority of a path that leads to a trusted one
    /// may be what it is there.
    fn path(&self, path: &VerifiedPath<'_>, now: UnixTime) -> Result<(), Refusal> {
        let mut between = 0;
        for intermediate in path.intermediate_certificates() {
            let read = Certificate::read(&intermediate.der());
            let read = read.ok_or_else(|| unreadable(&Error::BadDer))?;
            issues(&read, Whose::Intermediate, between, now)?;
            between += 1;
        }
        let at = self
            .anchors
            .iter()
            .position(|anchor| std::ptr::eq(anchor, path.anchor()));
        let root = at.and_then(|at| Certificate::read(&self.trusted[at]));
        let root = root.ok_or(Refusal::UnknownIssuer)?;
        issues(&root, Whose::Authority, between, now)
    }

    /// Why there is no path.
    fn refusal(
        &self,
        error: &Error,
        entity: &EndEntityCert<'_>,
        sent: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Refusal {
        match error {
            Error::InvalidSignatureForPublicKey
            | Error::UnsupportedSignatureAlgorithmForPublicKeyContext(_) => self
                .unsupported_issuer(entity, sent)
                .unwrap_or(Refusal::OtherKey),
            Error::UnsupportedSignatureAlgorithmContext(context) => Refusal::Algorithm {
                whose: Whose::Server,
                what: key::algorithm(&context.signature_algorithm_id),
            },
            _ => refusal(error, now),
        }
    }

    /// An authority that may have issued this certificate, with a key of which we make no use.
    fn unsupported_issuer(
        &self,
        entity: &EndEntityCert<'_>,
        sent: &[CertificateDer<'_>],
    ) -> Option<Refusal> {
        let issuers: Vec<Vec<u8>> = sent
            .iter()
            .filter_map(|certificate| EndEntityCert::try_from(certificate).ok())
            .map(|sent| sent.issuer().to_vec())
            .chain([entity.issuer().to_vec()])
            .collect();
        let trusted = self.trusted.iter().map(|c| (c, Whose::Authority));
        let sent = sent.iter().map(|c| (c, Whose::Intermediate));
        trusted.chain(sent).find_map(|(certificate, whose)| {
            let name = anchor_from_trusted_cert(certificate).ok()?.subject;
            let what = Certificate::read(certificate)?.unsupported_key()?;
            let issued = issuers.iter().any(|issuer| *issuer == *name);
            issued.then_some(Refusal::Algorithm { whose, what })
        })
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.judge(end_entity, intermediates, server_name, now)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &SUPPORTED)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &SUPPORTED)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        SUPPORTED.supported_schemes()
    }
}

/// Purposes are looked at by [`fits`]: webpki does not know `anyExtendedKeyUsage`, nor those of a
/// trusted authority.
struct AnyPurpose;

impl ExtendedKeyUsageValidator for AnyPurpose {
    fn validate(&self, _: KeyPurposeIdIter<'_, '_>) -> Result<(), Error> {
        Ok(())
    }
}

/// What holds for every certificate of a path.
fn fits(read: &Certificate, whose: Whose, now: UnixTime) -> Result<(), Refusal> {
    let use_of = |why: &str| Refusal::Use {
        whose,
        why: why.to_owned(),
    };
    read.is_valid_at(now)
        .map_err(|untimely| Refusal::untimely(whose, untimely, now))?;
    if !read.is_for_servers() {
        return Err(use_of(
            "the purposes that it names (extended key usage) are not those of servers",
        ));
    }
    if read.demands_unknown() {
        return Err(use_of("it has a critical extension that is not known here"));
    }
    match read.unsupported_key() {
        Some(what) => Err(Refusal::Algorithm { whose, what }),
        None => Ok(()),
    }
}

/// What holds for an authority with so many others below it.
fn issues(read: &Certificate, whose: Whose, below: usize, now: UnixTime) -> Result<(), Refusal> {
    fits(read, whose, now)?;
    let why = match (read.may_sign(), read.allows(below)) {
        (true, true) => return Ok(()),
        (false, _) => "its key may not sign certificates (basic constraints, key usage)",
        (true, false) => "more authorities stand below it than it allows (path length)",
    };
    Err(Refusal::Use {
        whose,
        why: why.to_owned(),
    })
}

fn is_for(entity: &EndEntityCert<'_>, server: &ServerName<'_>) -> Result<(), Refusal> {
    let server = &as_go_compares(server);
    let Err(error) = entity.verify_is_valid_for_subject_name(server) else {
        return Ok(());
    };
    let names = match error {
        Error::CertNotValidForName(context) if !context.presented.is_empty() => {
            let names = context.presented.iter().map(|name| plain(name));
            names.collect::<Vec<_>>().join(", ")
        }
        _ => "nobody: it has no subject alternative names".to_owned(),
    };
    Err(Refusal::OtherName {
        server: server.to_str().into_owned(),
        names,
    })
}

/// webpki gives them as `DnsName("localhost")` and `IpAddress(127.0.0.1)`.
fn plain(name: &str) -> &str {
    let inner = name
        .split_once('(')
        .and_then(|(_, rest)| rest.strip_suffix(')'));
    inner.unwrap_or(name).trim_matches('"')
}

/// Without the root's dot at the end of a name, and IPv4 as IPv4.
fn as_go_compares(server: &ServerName<'_>) -> ServerName<'static> {
    let text = server.to_str();
    match server {
        ServerName::DnsName(_) => {
            let name = text.strip_suffix('.').unwrap_or(&text).to_owned();
            ServerName::try_from(name).unwrap_or_else(|_| server.to_owned())
        }
        ServerName::IpAddress(address @ IpAddr::V6(_)) => {
            let address = std::net::IpAddr::from(*address).to_canonical();
            ServerName::IpAddress(address.into())
        }
        other => other.to_owned(),
    }
}

fn unreadable(error: &Error) -> Refusal {
    match error {
        Error::UnsupportedCertVersion => {
            Refusal::faulty("it is of version 1, which has no subject alternative names".to_owned())
        }
        Error::UnsupportedCriticalExtension => Refusal::Use {
            whose: Whose::Server,
            why: "it has a critical extension that is not known here".to_owned(),
        },
        error => Refusal::faulty(format!("it cannot be read ({error:?})")),
    }
}

fn refusal(error: &Error, now: UnixTime) -> Refusal {
    let of = |whose, why: &str| Refusal::Use {
        whose,
        why: why.to_owned(),
    };
    match error {
        Error::UnknownIssuer => Refusal::UnknownIssuer,
        Error::CertExpired { not_after, .. } => Refusal::untimely(
            Whose::Intermediate,
            Untimely::NotAfter(not_after.as_secs()),
            now,
        ),
        Error::CertNotValidYet { not_before, .. } => Refusal::untimely(
            Whose::Intermediate,
            Untimely::NotBefore(not_before.as_secs()),
            now,
        ),
        Error::CaUsedAsEndEntity => of(
            Whose::Server,
            "it is an authority's (CA:TRUE), which is taken only where it is itself among the trusted ones",
        ),
        Error::EndEntityUsedAsCa => of(Whose::Intermediate, "it is no authority's (CA:FALSE)"),
        Error::NameConstraintViolation => of(
            Whose::Server,
            "an authority above it may not certify its names (name constraints)",
        ),
        Error::PathLenConstraintViolated => of(
            Whose::Intermediate,
            "more authorities stand below it than it allows (path length)",
        ),
        error => Refusal::faulty(format!("{error:?}")),
    }
}
