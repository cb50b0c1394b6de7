//! The certificates that a kubeconfig or a service account says to trust.

use std::fmt;

use rustls::pki_types::CertificateDer;
use webpki::anchor_from_trusted_cert;

use crate::{certificate::Certificate, pem};

/// What Go's `x509.CertPool.AppendCertsFromPEM` takes out of such a text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bundle {
    pub(crate) certificates: Vec<CertificateDer<'static>>,
    /// The blocks of which no use can be made, in their order.
    pub skipped: Vec<Skipped>,
}

/// A block of which no use can be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// In which line of the text it begins, from 1.
    pub line: usize,
    /// Why, as half a sentence about it.
    pub why: String,
}

// === impl Bundle ===

impl Bundle {
    /// Every certificate in a text, which may hold other things too.
    #[must_use]
    pub fn read(text: &[u8]) -> Self {
        let mut bundle = Self::default();
        for block in pem::blocks(text) {
            match certificate(block.content) {
                Ok(certificate) => bundle.certificates.push(certificate),
                Err(why) => bundle.skipped.push(Skipped {
                    line: block.line,
                    why,
                }),
            }
        }
        bundle
    }

    /// Whether nothing is trusted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.certificates.is_empty()
    }

    /// What was skipped, in words; `None` if nothing was.
    #[must_use]
    pub fn complaint(&self) -> Option<String> {
        let skipped: Vec<String> = self.skipped.iter().map(Skipped::to_string).collect();
        (!skipped.is_empty()).then(|| skipped.join(", "))
    }
}

// === impl Skipped ===

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the block in line {} is skipped: {}",
            self.line, self.why
        )
    }
}

fn certificate(
    content: Result<(String, Vec<u8>), &'static str>,
) -> Result<CertificateDer<'static>, String> {
    let (label, bytes) = content?;
    if label != "CERTIFICATE" {
        return Err(format!("it is a {label:?}, not a CERTIFICATE"));
    }
    let certificate = CertificateDer::from(bytes);
    let damaged = || "it is not a certificate, or a damaged one".to_owned();
    anchor_from_trusted_cert(&certificate).map_err(|_| damaged())?;
    Certificate::read(&certificate).ok_or_else(damaged)?;
    Ok(certificate)
}
