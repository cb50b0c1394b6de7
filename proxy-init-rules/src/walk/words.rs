//! Where a connection ends, in words.

use std::fmt;

use super::{End, Place, Way};
use crate::rule::Chain;

impl End {
    /// Where it ends, in a word that does not change between releases.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Proxy { side, .. } if side.base() == Chain::Prerouting => "proxy-inbound",
            Self::Proxy { .. } => "proxy-outbound",
            Self::Untouched { .. } => "untouched",
            Self::Elsewhere { .. } => "elsewhere",
            Self::Dropped { .. } => "dropped",
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Proxy { side, port, by } => {
                let side = match side.base() {
                    Chain::Prerouting => "inbound",
                    _ => "outbound",
                };
                write!(f, "proxy {side}, port {port} ({by})")
            }
            Self::Untouched { by: Some(by) } => write!(f, "untouched ({by} leaves it alone)"),
            Self::Untouched { by: None } => f.write_str("untouched (no rule is about it)"),
            Self::Elsewhere { action, by } => {
                write!(f, "somewhere else: {action} ({by}, which is not ours)")
            }
            Self::Dropped { by } => write!(f, "dropped ({by})"),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rule {} of {}", self.number, self.chain)
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Inbound => "inbound",
            Self::Outbound => "outbound",
            Self::Loopback => "over loopback",
        })
    }
}
