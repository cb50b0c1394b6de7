//! What a certificate says of itself, as far as the verifier of chains does not look at it.

use rustls::pki_types::UnixTime;
use x509_cert::{
    Version,
    certificate::{CertificateInner, Raw},
    der::{Decode as _, asn1::ObjectIdentifier, oid::AssociatedOid},
    ext::pkix::{BasicConstraints, ExtendedKeyUsage, KeyUsage},
    time::Time,
};

use crate::key;

/// `id-kp-serverAuth`, and `anyExtendedKeyUsage`.
const SERVERS: [ObjectIdentifier; 2] = [
    ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.1"),
    ObjectIdentifier::new_unwrap("2.5.29.37.0"),
];

/// The extensions below 2.5.29 that Go knows (`parse.go`, `processExtensions`).
const KNOWN: [u32; 12] = [14, 15, 17, 19, 30, 31, 32, 33, 35, 36, 37, 54];

/// A certificate that was read whole.
pub(crate) struct Certificate(CertificateInner<Raw>);

/// Why a certificate is not valid at some time. In seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Untimely {
    NotBefore(u64),
    NotAfter(u64),
}

// === impl Certificate ===

impl Certificate {
    pub(crate) fn read(der: &[u8]) -> Option<Self> {
        CertificateInner::from_der(der).ok().map(Self)
    }

    /// Whether it is valid then, to the second.
    pub(crate) fn is_valid_at(&self, now: UnixTime) -> Result<(), Untimely> {
        let validity = self.0.tbs_certificate().validity();
        let seconds = |time: Time| time.to_unix_duration().as_secs();
        let (start, end) = (seconds(validity.not_before), seconds(validity.not_after));
        match now.as_secs() {
            now if now < start => Err(Untimely::NotBefore(start)),
            now if now > end => Err(Untimely::NotAfter(end)),
            _ => Ok(()),
        }
    }

    /// Whether it may be used by a server, or by one whom its owner certifies: it does not say for
    /// what it is, or says that.
    pub(crate) fn is_for_servers(&self) -> bool {
        match self.extension::<ExtendedKeyUsage>() {
            Ok(Some(ExtendedKeyUsage(purposes))) => purposes.iter().any(|p| SERVERS.contains(p)),
            Ok(None) => true,
            Err(()) => false,
        }
    }

    /// Whether its key may sign certificates (`x509.Certificate.CheckSignatureFrom`). Those of
    /// version 1 do not say.
    pub(crate) fn may_sign(&self) -> bool {
        let authority = match self.extension::<BasicConstraints>() {
            Ok(Some(constraints)) => constraints.ca,
            Ok(None) => self.0.tbs_certificate().version() != Version::V3,
            Err(()) => false,
        };
        authority
            && match self.extension::<KeyUsage>() {
                Ok(Some(usage)) => usage.0.is_empty() || usage.key_cert_sign(),
                Ok(None) => true,
                Err(()) => false,
            }
    }

    /// Whether so many authorities may stand between it and a server.
    pub(crate) fn allows(&self, intermediates: usize) -> bool {
        match self.extension::<BasicConstraints>() {
            Ok(Some(constraints)) => constraints
                .path_len_constraint
                .is_none_or(|most| intermediates <= usize::from(most)),
            Ok(None) => true,
            Err(()) => false,
        }
    }

    /// Whether it demands something that is not known here.
    pub(crate) fn demands_unknown(&self) -> bool {
        let extensions = self.0.tbs_certificate().extensions();
        let is_known = |id: &ObjectIdentifier| {
            id.parent().is_some_and(|arc| arc.to_string() == "2.5.29")
                && id.arcs().last().is_some_and(|last| KNOWN.contains(&last))
        };
        extensions
            .into_iter()
            .flatten()
            .any(|extension| extension.critical && !is_known(&extension.extn_id))
    }

    /// What of its key is not supported, if anything is not.
    pub(crate) fn unsupported_key(&self) -> Option<String> {
        key::unsupported(self.0.tbs_certificate().subject_public_key_info())
    }

    /// `None` if it has none, an error if it is malformed.
    fn extension<'a, T: x509_cert::der::Decode<'a> + AssociatedOid>(
        &'a self,
    ) -> Result<Option<T>, ()> {
        let found = self.0.tbs_certificate().get_extension::<T>();
        found
            .map(|found| found.map(|(_, extension)| extension))
            .map_err(|_| ())
    }
}
