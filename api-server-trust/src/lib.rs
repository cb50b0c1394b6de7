//! The client of an API server. It trusts the servers that Go's clients (kubelet, kubectl) trust
//! with the same kubeconfig, and says in words why it does not trust another.
//!
//! rustls and its verifier of certificates are made for the public web. What a cluster's own
//! authority makes, and Go takes, differs from that in three ways, which are mended here:
//!
//! - [`Bundle`]: text with certificates is read block by block, and one that is of no use does not
//!   spoil the others;
//! - the verifier: a certificate that is itself in the bundle is trusted, whatever it is, as long
//!   as name, dates and purpose are right; an authority in the bundle is judged too;
//! - signatures with ECDSA on P-521, or with SHA-512, are verified.
//!
//! Nothing here reads a file or a clock: rustls passes the time at which it verifies.

mod algorithms;
mod bundle;
mod certificate;
mod client;
mod key;
mod pem;
mod refusal;
mod verifier;

pub use bundle::{Bundle, Skipped};
pub use client::{ClientError, client};
pub use refusal::{Refusal, Whose};

#[cfg(test)]
mod tests;
