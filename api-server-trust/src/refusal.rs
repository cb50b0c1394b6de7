//! Why a server is not trusted, in words, and what to look at.

use std::{error::Error as StdError, fmt, io};

use rustls::{AlertDescription, CertificateError, InvalidMessage, OtherError, pki_types::UnixTime};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use crate::certificate::Untimely;

/// Why there is no connection to a server that is trusted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The time is past its dates.
    #[error("{whose} expired at {end}, and by this node's clock it is {now}")]
    Expired {
        /// Which certificate.
        whose: Whose,
        /// Its last second, in UTC.
        end: String,
        /// This node's time, in UTC.
        now: String,
    },
    /// The time is before its dates.
    #[error("{whose} is not valid before {start}, and by this node's clock it is {now}")]
    NotYetValid {
        /// Which certificate.
        whose: Whose,
        /// Its first second, in UTC.
        start: String,
        /// This node's time, in UTC.
        now: String,
    },
    /// It is another server's.
    #[error("{} is for {names}, not for {server}", Whose::Server)]
    OtherName {
        /// As which it was spoken to.
        server: String,
        /// Its names, as it says.
        names: String,
    },
    /// Nobody trusted has issued it.
    #[error(
        "{} is not trusted: it was issued by an authority that is not known here",
        Whose::Server
    )]
    UnknownIssuer,
    /// An authority with that name is trusted, and has another key.
    #[error(
        "{} is not trusted: it was issued by an authority with the name of one that is known here, and another key",
        Whose::Server
    )]
    OtherKey,
    /// Signed with, or for, what is not supported.
    #[error("{whose} cannot be verified: {what} is not supported")]
    Algorithm {
        /// Which certificate.
        whose: Whose,
        /// The algorithm by its name, else by its object identifier.
        what: String,
    },
    /// What it says that it may be used for.
    #[error("{whose} is not trusted: {why}")]
    Use {
        /// Which certificate.
        whose: Whose,
        /// What it is not for.
        why: String,
    },
    /// It cannot be read, or a signature in it or over the handshake is wrong.
    #[error("{whose} is not trusted: {why}", whose = Whose::Server)]
    Faulty {
        /// What is wrong.
        why: String,
    },
    /// There is no way to talk to each other.
    #[error("no connection with TLS: {0}")]
    NothingInCommon(String),
    /// It wants to know who we are by a certificate.
    #[error(
        "no connection with TLS: the server does not do without a certificate of its client ({0})"
    )]
    ClientCertificate(String),
    /// It answers, in no TLS.
    #[error("no connection with TLS: what answers there speaks another protocol")]
    NoTls,
}

/// Whose certificate it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// The server's.
    Server,
    /// One that the server sent along.
    Intermediate,
    /// One that is trusted.
    Authority,
}

// === impl Whose ===

impl fmt::Display for Whose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Server => "the server's certificate",
            Self::Intermediate => "an authority's certificate that the server sent",
            Self::Authority => "the certificate of the authority",
        })
    }
}

// === impl Refusal ===

impl Refusal {
    /// The refusal that is the cause of an error of the client.
    #[must_use]
    pub fn behind(error: &(dyn StdError + 'static)) -> Option<Self> {
        let mut causes = std::iter::successors(Some(error), |&error| error.source());
        causes.find_map(|cause| tls_error(cause)).and_then(Self::of)
    }

    /// What to look at, if `bundle` is where the trusted certificates are.
    #[must_use]
    pub fn hint(&self, bundle: &str) -> String {
        match self {
            Self::Expired { .. } => "is this node's clock right? If it is, the certificate has to be renewed".to_owned(),
            Self::NotYetValid { .. } => "is this node's clock right?".to_owned(),
            Self::OtherName { .. } => "is that the name or address that the API server's certificate is for? It has to be among its subject alternative names".to_owned(),
            Self::UnknownIssuer | Self::OtherKey => format!("does {bundle} belong to this cluster?"),
            Self::Use {
                whose: Whose::Authority,
                ..
            } => format!("does {bundle} hold the authority that issued the server's certificate?"),
            Self::Algorithm { .. } => "signatures of RSA (2048 to 8192 bits), ECDSA on P-256, P-384 and P-521, each with SHA-256, SHA-384 or SHA-512, and of Ed25519 are".to_owned(),
            Self::Use { .. } | Self::Faulty { .. } => "it has to be issued anew".to_owned(),
            Self::NothingInCommon(_) => "the server has to allow TLS 1.2 or 1.3 with ECDHE on X25519, P-256 or P-384 and with AES-GCM or ChaCha20-Poly1305".to_owned(),
            Self::ClientCertificate(_) => "linkerd-cni shows a token; a certificate must be optional".to_owned(),
            Self::NoTls => "is that the port of the API server, and no proxy's?".to_owned(),
        }
    }

    pub(crate) fn faulty(why: impl Into<String>) -> Self {
        Self::Faulty { why: why.into() }
    }

    pub(crate) fn untimely(whose: Whose, untimely: Untimely, now: UnixTime) -> Self {
        let now = written(now.as_secs());
        match untimely {
            Untimely::NotBefore(start) => Self::NotYetValid {
                whose,
                start: written(start),
                now,
            },
            Untimely::NotAfter(end) => Self::Expired {
                whose,
                end: written(end),
                now,
            },
        }
    }

    /// Of an error of rustls; `None` if it says nothing about whom we talk to.
    fn of(error: &rustls::Error) -> Option<Self> {
        use rustls::Error as Tls;
        Some(match error {
            Tls::InvalidCertificate(CertificateError::Other(OtherError(other))) => other
                .downcast_ref::<Self>()
                .cloned()
                .unwrap_or_else(|| Self::faulty(other.to_string())),
            Tls::InvalidCertificate(CertificateError::BadSignature) => Self::faulty(
                "the server does not hold its key, or does not sign with it as it should"
                    .to_owned(),
            ),
            Tls::InvalidCertificate(error) => Self::faulty(error.to_string()),
            Tls::NoCertificatesPresented => Self::faulty("it sent none".to_owned()),
            Tls::UnsupportedNameType => {
                Self::faulty("it is for a name of a kind unknown".to_owned())
            }
            Tls::InvalidMessage(InvalidMessage::InvalidContentType) => Self::NoTls,
            Tls::AlertReceived(alert) if is_about_us(*alert) => {
                Self::ClientCertificate(format!("{alert:?}"))
            }
            Tls::AlertReceived(alert) => {
                Self::NothingInCommon(format!("the server says {alert:?}"))
            }
            Tls::PeerIncompatible(_) | Tls::PeerMisbehaved(_) | Tls::InvalidMessage(_) => {
                Self::NothingInCommon(error.to_string())
            }
            _ => return None,
        })
    }
}

impl From<Refusal> for rustls::Error {
    fn from(refusal: Refusal) -> Self {
        CertificateError::Other(OtherError(std::sync::Arc::new(refusal))).into()
    }
}

/// The alerts with which a server asks for a certificate of its client.
fn is_about_us(alert: AlertDescription) -> bool {
    matches!(
        alert,
        AlertDescription::CertificateRequired
            | AlertDescription::BadCertificate
            | AlertDescription::NoCertificate
            | AlertDescription::AccessDenied
    )
}

/// An error of input and output does not give the one that it wraps as its source.
fn tls_error<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a rustls::Error> {
    if let Some(found) = error.downcast_ref() {
        return Some(found);
    }
    let inner = error.downcast_ref::<io::Error>()?.get_ref()?;
    tls_error(inner)
}

fn written(seconds: u64) -> String {
    let time = i64::try_from(seconds).map(OffsetDateTime::from_unix_timestamp);
    match time {
        Ok(Ok(time)) => time.format(&Rfc3339).unwrap_or_default(),
        _ => format!("{seconds} s after 1970"),
    }
}
