//! Servers of which it is known whether Go trusts them, with their keys.
//!
//! The same file as the table of `api-server-trust`; the ones with a key can be met on a connection.

use serde::Deserialize;

const VERDICTS: &str = include_str!("../../api-server-trust/fixtures/verdicts.jsonl");

/// A server, and whom its client trusts.
#[derive(Clone, Debug, Deserialize)]
pub struct Case {
    /// What is particular about it.
    pub name: String,
    /// The certificates that its client trusts, as PEM.
    pub roots: String,
    /// What the server shows, as PEM, its own certificate first.
    pub chain: String,
    /// Its key, as PEM, for those that can be met.
    #[serde(default)]
    pub key: String,
    /// As what it is spoken to.
    server: String,
    /// Why Go does not trust it; empty if it does.
    pub go: String,
}

// === impl Case ===

impl Case {
    /// Those that can be met at 127.0.0.1 today, by a server whose key ring can use.
    ///
    /// # Panics
    ///
    /// If the file cannot be read.
    pub fn all() -> Vec<Self> {
        let cases = VERDICTS.lines().map(serde_json::from_str::<Self>);
        cases
            .map(|case| case.expect("a case"))
            .filter(|case| !case.key.is_empty() && case.server == "127.0.0.1")
            .filter(|case| !["server key p521"].contains(&case.name.as_str()))
            .filter(|case| !(case.name.starts_with("itself") && case.name.ends_with("p521")))
            .collect()
    }

    /// The one with this name.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn named(name: &str) -> Self {
        let case = Self::all().into_iter().find(|case| case.name == name);
        case.unwrap_or_else(|| panic!("there is no case {name:?}"))
    }
}
