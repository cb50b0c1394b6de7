//! The signatures that are verified: those of ring, and with the curves' own crates what ring leaves
//! out, ECDSA on P-521 and ECDSA with SHA-512.

use ecdsa::signature::hazmat::PrehashVerifier as _;
use rustls::{
    SignatureScheme,
    crypto::WebPkiSupportedAlgorithms,
    pki_types::{AlgorithmIdentifier, InvalidSignature, SignatureVerificationAlgorithm, alg_id},
};
use sha2::{Digest as _, Sha256, Sha384, Sha512};
use webpki::ring;

type Algorithm = &'static dyn SignatureVerificationAlgorithm;

/// All of them, and those that each scheme of TLS stands for. In TLS 1.2 a scheme of ECDSA says
/// nothing of the curve.
pub(crate) static SUPPORTED: WebPkiSupportedAlgorithms = WebPkiSupportedAlgorithms {
    all: &[
        ring::ECDSA_P256_SHA256,
        ring::ECDSA_P256_SHA384,
        P256_SHA512,
        ring::ECDSA_P384_SHA256,
        ring::ECDSA_P384_SHA384,
        P384_SHA512,
        P521_SHA256,
        P521_SHA384,
        P521_SHA512,
        ring::ED25519,
        ring::RSA_PSS_2048_8192_SHA256_LEGACY_KEY,
        ring::RSA_PSS_2048_8192_SHA384_LEGACY_KEY,
        ring::RSA_PSS_2048_8192_SHA512_LEGACY_KEY,
        ring::RSA_PKCS1_2048_8192_SHA256,
        ring::RSA_PKCS1_2048_8192_SHA384,
        ring::RSA_PKCS1_2048_8192_SHA512,
        ring::RSA_PKCS1_2048_8192_SHA256_ABSENT_PARAMS,
        ring::RSA_PKCS1_2048_8192_SHA384_ABSENT_PARAMS,
        ring::RSA_PKCS1_2048_8192_SHA512_ABSENT_PARAMS,
    ],
    mapping: &[
        (
            SignatureScheme::ECDSA_NISTP384_SHA384,
            &[
                ring::ECDSA_P384_SHA384,
                ring::ECDSA_P256_SHA384,
                P521_SHA384,
            ],
        ),
        (
            SignatureScheme::ECDSA_NISTP256_SHA256,
            &[
                ring::ECDSA_P256_SHA256,
                ring::ECDSA_P384_SHA256,
                P521_SHA256,
            ],
        ),
        (
            SignatureScheme::ECDSA_NISTP521_SHA512,
            &[P521_SHA512, P384_SHA512, P256_SHA512],
        ),
        (SignatureScheme::ED25519, &[ring::ED25519]),
        (
            SignatureScheme::RSA_PSS_SHA512,
            &[ring::RSA_PSS_2048_8192_SHA512_LEGACY_KEY],
        ),
        (
            SignatureScheme::RSA_PSS_SHA384,
            &[ring::RSA_PSS_2048_8192_SHA384_LEGACY_KEY],
        ),
        (
            SignatureScheme::RSA_PSS_SHA256,
            &[ring::RSA_PSS_2048_8192_SHA256_LEGACY_KEY],
        ),
        (
            SignatureScheme::RSA_PKCS1_SHA512,
            &[ring::RSA_PKCS1_2048_8192_SHA512],
        ),
        (
            SignatureScheme::RSA_PKCS1_SHA384,
            &[ring::RSA_PKCS1_2048_8192_SHA384],
        ),
        (
            SignatureScheme::RSA_PKCS1_SHA256,
            &[ring::RSA_PKCS1_2048_8192_SHA256],
        ),
    ],
};

static P256_SHA512: Algorithm = &Ecdsa {
    key: alg_id::ECDSA_P256,
    signature: alg_id::ECDSA_SHA512,
    verify: |key, message, signature| p256(key, &Sha512::digest(message), signature),
};

static P384_SHA512: Algorithm = &Ecdsa {
    key: alg_id::ECDSA_P384,
    signature: alg_id::ECDSA_SHA512,
    verify: |key, message, signature| p384(key, &Sha512::digest(message), signature),
};

static P521_SHA256: Algorithm = &Ecdsa {
    key: alg_id::ECDSA_P521,
    signature: alg_id::ECDSA_SHA256,
    verify: |key, message, signature| p521(key, &Sha256::digest(message), signature),
};

static P521_SHA384: Algorithm = &Ecdsa {
    key: alg_id::ECDSA_P521,
    signature: alg_id::ECDSA_SHA384,
    verify: |key, message, signature| p521(key, &Sha384::digest(message), signature),
};

static P521_SHA512: Algorithm = &Ecdsa {
    key: alg_id::ECDSA_P521,
    signature: alg_id::ECDSA_SHA512,
    verify: |key, message, signature| p521(key, &Sha512::digest(message), signature),
};

/// Verifies with a key's point, of a message, a signature in DER.
type Verify = fn(&[u8], &[u8], &[u8]) -> ecdsa::Result<()>;

/// ECDSA on one curve with one hash.
#[derive(Debug)]
struct Ecdsa {
    key: AlgorithmIdentifier,
    signature: AlgorithmIdentifier,
    verify: Verify,
}

impl SignatureVerificationAlgorithm for Ecdsa {
    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        self.key
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        self.signature
    }

    fn verify_signature(
        &self,
        public_key: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), InvalidSignature> {
        (self.verify)(public_key, message, signature).map_err(|_| InvalidSignature)
    }
}

fn p256(key: &[u8], hash: &[u8], signature: &[u8]) -> ecdsa::Result<()> {
    let key = p256::ecdsa::VerifyingKey::from_sec1_bytes(key)?;
    key.verify_prehash(hash, &p256::ecdsa::Signature::from_der(signature)?)
}

fn p384(key: &[u8], hash: &[u8], signature: &[u8]) -> ecdsa::Result<()> {
    let key = p384::ecdsa::VerifyingKey::from_sec1_bytes(key)?;
    key.verify_prehash(hash, &p384::ecdsa::Signature::from_der(signature)?)
}

fn p521(key: &[u8], hash: &[u8], signature: &[u8]) -> ecdsa::Result<()> {
    let key = p521::ecdsa::VerifyingKey::from_sec1_bytes(key)?;
    key.verify_prehash(hash, &p521::ecdsa::Signature::from_der(signature)?)
}
