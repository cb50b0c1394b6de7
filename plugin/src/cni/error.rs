//! Errors as the runtime gets them: `{cniVersion, code, msg, details}`.

use rscni_types::types::ErrorResult;

use super::Version;

/// The codes of plugin.md 1: those of the CNI specification, and ours from 100.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the codes' meanings")]
pub enum Code {
    IncompatibleVersion = 1,
    Environment = 4,
    Io = 5,
    Decode = 6,
    InvalidConfig = 7,
    InvalidNamespace = 8,
    TryAgainLater = 11,
    NotAvailable = 50,
    NotAvailableLimitedConnectivity = 51,
    Rules = 100,
    Difference = 101,
    Annotation = 102,
    Refused = 103,
    Internal = 104,
}

/// An error with its code. The message says what is wrong and how to mend it; the details hold
/// the whole chain of causes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{msg}")]
pub struct Error {
    code: Code,
    msg: String,
    details: String,
}

impl Error {
    /// An error without further causes.
    #[must_use]
    pub fn new(code: Code, msg: impl Into<String>) -> Self {
        Self {
            code,
            msg: msg.into(),
            details: String::new(),
        }
    }

    /// An error whose message and causes are those of `source`.
    #[must_use]
    pub fn from_source(code: Code, source: &(dyn std::error::Error + 'static)) -> Self {
        Self::new(code, source.to_string()).with_details(chain_of_causes(source))
    }

    /// The same error with these details.
    #[must_use]
    pub fn with_details(mut self, details: impl Into<String>) -> Self {
        self.details = details.into();
        self
    }

    /// The code.
    #[must_use]
    pub fn code(&self) -> Code {
        self.code
    }

    /// What led to it; empty if there is nothing more to say.
    #[must_use]
    pub fn details(&self) -> &str {
        &self.details
    }

    /// The JSON document for standard output.
    #[must_use]
    pub fn document(&self, version: Version) -> String {
        // The crate's own variants fix the message and leave us the details; `Custom` carries
        // both, under any code.
        let error = rscni_types::error::Error::Custom(
            self.code as u32,
            self.msg.clone(),
            self.details.clone(),
        );
        serde_json::to_string(&ErrorResult::new(version, &error)).unwrap_or_default()
    }
}

/// The causes below an error, outermost first.
#[must_use]
pub fn chain_of_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut causes: Vec<String> = Vec::new();
    let mut next = error.source();
    while let Some(cause) = next {
        let text = cause.to_string();
        // Wrappers often repeat the text of what they wrap.
        if causes.last().is_none_or(|last| *last != text) {
            causes.push(text);
        }
        next = cause.source();
    }
    causes.join(": ")
}
