//! Go's verdicts, and ours.
//!
//! `fixtures/verdicts.jsonl` holds bundles and chains of certificates that were made with Go's
//! `crypto/x509` (and `openssl`, where that refuses to make one), and for each what Go 1.26 says:
//! `CertPool.AppendCertsFromPEM`, then `Certificate.Verify` as `crypto/tls` calls it.

use std::time::Duration;

use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use serde::Deserialize;
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use crate::{Bundle, Refusal, pem, verifier::Verifier};

const VERDICTS: &str = include_str!("../fixtures/verdicts.jsonl");

#[derive(Deserialize)]
struct Case {
    name: String,
    /// A character is a byte.
    roots: String,
    chain: String,
    server: String,
    at: String,
    /// Why Go does not trust the server; empty if it does.
    go: String,
}

impl Case {
    fn all() -> Vec<Self> {
        let cases = VERDICTS.lines().map(serde_json::from_str);
        cases.collect::<Result<_, _>>().unwrap()
    }

    fn bundle(&self) -> Bundle {
        let bytes: Vec<u8> = self
            .roots
            .chars()
            .map(|c| u8::try_from(c).unwrap())
            .collect();
        Bundle::read(&bytes)
    }

    /// As a connection at that time would end.
    fn verdict(&self) -> Result<(), Refusal> {
        let blocks = pem::blocks(self.chain.as_bytes());
        let mut chain = blocks
            .into_iter()
            .map(|block| CertificateDer::from(block.content.unwrap().1));
        let certificate = chain.next().unwrap();
        let sent: Vec<_> = chain.collect();
        let server = ServerName::try_from(self.server.as_str()).unwrap();
        let at = OffsetDateTime::parse(&self.at, &Rfc3339).unwrap();
        let at = Duration::from_secs(at.unix_timestamp().try_into().unwrap());
        let verifier = Verifier::new(self.bundle());
        verifier.judge(&certificate, &sent, &server, UnixTime::since_unix_epoch(at))
    }
}

/// What Go trusts and we do not; README.md says why. There is nothing that it does not trust and we
/// do.
const NOT_SUPPORTED: [&str; 6] = [
    "signed by rsa1024 with SHA256-RSA",
    "signed by p224 with ECDSA-SHA256",
    "a CA as server, issued by the CA",
    "a CA as server, issued by P-521",
    "chain, of a CA as server",
    "leaf with critical policies",
];

#[test]
fn a_server_is_trusted_if_and_only_if_go_trusts_it() {
    let cases = Case::all();
    let differing = cases.iter().filter_map(|case| {
        let verdict = case.verdict();
        let differs = verdict.is_ok() != case.go.is_empty();
        let supported = !NOT_SUPPORTED.contains(&case.name.as_str());
        (differs == supported).then(|| format!("{}: {verdict:?}, Go: {:?}", case.name, case.go))
    });
    assert_eq!(differing.collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn a_bundle_is_empty_if_and_only_if_go_finds_no_certificate_in_it() {
    let cases = Case::all();
    for case in cases
        .iter()
        .filter(|case| case.name.starts_with("bundle: "))
    {
        let go = case.go == "no certificate in the roots";
        assert_eq!(case.bundle().is_empty(), go, "{}", case.name);
    }
}

#[test]
fn what_is_skipped_is_told_with_line_and_reason() {
    let complaint = |name: &str| {
        let cases = Case::all();
        let case = cases.iter().find(|case| case.name == name).unwrap();
        case.bundle().complaint()
    };
    for (name, expected) in [
        ("bundle: good", None),
        ("bundle: garbage around", None),
        (
            "bundle: cut block before",
            Some("the block in line 1 is skipped: it is not a certificate, or a damaged one"),
        ),
        (
            "bundle: bad base64 after",
            Some("the block in line 11 is skipped: it is not base64"),
        ),
        (
            "bundle: block without end before",
            Some("the block in line 1 is skipped: it has no end"),
        ),
        (
            "bundle: private key before",
            Some("the block in line 1 is skipped: it is a \"PRIVATE KEY\", not a CERTIFICATE"),
        ),
        (
            "bundle: headers",
            Some("the block in line 1 is skipped: it has headers"),
        ),
        (
            "bundle: text after END",
            Some("the block in line 1 is skipped: text stands behind its end"),
        ),
    ] {
        assert_eq!(complaint(name).as_deref(), expected, "{name}");
    }
}
