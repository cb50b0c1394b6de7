//! Which CNI code the faults of our own modules have.

use crate::{
    cni::{Code, Error},
    firewall::ApplyError,
    netns::NetnsError,
};

impl From<NetnsError> for Error {
    fn from(error: NetnsError) -> Self {
        let code = match &error {
            NetnsError::Locked { .. } => Code::TryAgainLater,
            NetnsError::Open { .. } | NetnsError::NotANamespace { .. } | NetnsError::Own { .. } => {
                Code::InvalidNamespace
            }
            NetnsError::System { .. } => Code::Io,
        };
        Self::new(code, format!("CNI_NETNS: {error}"))
            .with_details(crate::cni::chain_of_causes(&error))
    }
}

impl From<ApplyError> for Error {
    fn from(error: ApplyError) -> Self {
        let code = match &error {
            ApplyError::Locked(_) => Code::TryAgainLater,
            ApplyError::NoBackend(_) => Code::Rules,
        };
        Self::new(code, error.to_string()).with_details(error.details())
    }
}
