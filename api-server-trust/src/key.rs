//! Keys and algorithms by name.

use x509_cert::{
    der::{
        Decode as _, Header, SliceReader,
        asn1::{ObjectIdentifier, UintRef},
    },
    spki::SubjectPublicKeyInfoOwned,
};

/// Sizes of RSA that are verified, in bits.
const RSA: std::ops::RangeInclusive<usize> = 2048..=8192;

const RSA_ENCRYPTION: &str = "1.2.840.113549.1.1.1";
const ELLIPTIC_CURVE: &str = "1.2.840.10045.2.1";
const SUPPORTED: [&str; 4] = [
    "1.2.840.10045.3.1.7",
    "1.3.132.0.34",
    "1.3.132.0.35",
    "1.3.101.112",
];

/// What is met in the field and is not supported.
const NAMES: [(&str, &str); 14] = [
    ("1.2.840.113549.1.1.4", "MD5 with RSA"),
    ("1.2.840.113549.1.1.5", "SHA-1 with RSA"),
    ("1.2.840.113549.1.1.14", "SHA-224 with RSA"),
    ("1.2.840.113549.1.1.10", "RSA-PSS with these parameters"),
    ("1.2.840.10045.4.1", "ECDSA with SHA-1"),
    ("1.2.840.10045.4.3.1", "ECDSA with SHA-224"),
    ("1.2.840.10040.4.1", "DSA"),
    ("1.3.101.113", "Ed448"),
    ("1.3.132.0.33", "ECDSA on P-224"),
    ("1.3.132.0.10", "ECDSA on secp256k1"),
    ("1.3.36.3.3.2.8.1.1.7", "ECDSA on brainpoolP256r1"),
    ("2.16.840.1.101.3.4.3.17", "ML-DSA-44"),
    ("2.16.840.1.101.3.4.3.18", "ML-DSA-65"),
    ("2.16.840.1.101.3.4.3.19", "ML-DSA-87"),
];

/// The name of an algorithm, of which the content of an `AlgorithmIdentifier` is given; else its
/// object identifier.
pub(crate) fn algorithm(identifier: &[u8]) -> String {
    let id =
        SliceReader::new(identifier).and_then(|mut reader| <ObjectIdentifier>::decode(&mut reader));
    id.map_or_else(
        |_| "an algorithm that is malformed".to_owned(),
        |id| name(&id.to_string()),
    )
}

/// What is not supported of a key, if anything is not.
pub(crate) fn unsupported(key: &SubjectPublicKeyInfoOwned) -> Option<String> {
    let id = key.algorithm.oid.to_string();
    match id.as_str() {
        RSA_ENCRYPTION => {
            let bits = bits(key.subject_public_key.raw_bytes());
            (!RSA.contains(&bits)).then(|| format!("RSA with a key of {bits} bits"))
        }
        ELLIPTIC_CURVE => {
            let curve = key.algorithm.parameters.as_ref();
            let curve = curve.and_then(|any| any.decode_as().ok());
            let curve = curve.map(|curve: ObjectIdentifier| curve.to_string());
            match curve {
                Some(curve) if SUPPORTED.contains(&curve.as_str()) => None,
                Some(curve) => Some(name(&curve)),
                None => Some("ECDSA on a curve without a name".to_owned()),
            }
        }
        other => (!SUPPORTED.contains(&other)).then(|| name(other)),
    }
}

fn name(id: &str) -> String {
    let known = NAMES.iter().find(|(known, _)| *known == id);
    known.map_or_else(
        || format!("the algorithm {id}"),
        |(_, name)| (*name).to_owned(),
    )
}

/// Of the modulus of an `RSAPublicKey`; 0 if it is none.
fn bits(key: &[u8]) -> usize {
    let modulus = SliceReader::new(key).and_then(|mut reader| {
        Header::decode(&mut reader)?;
        UintRef::decode(&mut reader)
    });
    modulus.map_or(0, |modulus| {
        let bytes = modulus.as_bytes();
        let zeros = bytes.first().map_or(0, |first| first.leading_zeros());
        bytes.len() * 8 - usize::try_from(zeros).unwrap_or(0)
    })
}
