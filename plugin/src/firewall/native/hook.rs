//! Where the kernel enters a chain.

use proxy_init_rules::Chain;

/// The hooks that matter to new connections (`NF_INET_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hook {
    /// Packets that come in.
    Prerouting = 0,
    /// Packets that a process of the pod sends.
    Output = 3,
}

// === impl Hook ===

impl Hook {
    /// Where connections on their way to this chain come by.
    pub(super) fn of(chain: Chain) -> Self {
        match chain.base() {
            Chain::Prerouting => Self::Prerouting,
            _ => Self::Output,
        }
    }

    pub(super) fn from_number(number: u32) -> Option<Self> {
        let all = [Self::Prerouting, Self::Output];
        all.into_iter().find(|hook| *hook as u32 == number)
    }

    /// The kernel's chain of iptables at this hook.
    pub(super) fn chain(self) -> Chain {
        match self {
            Self::Prerouting => Chain::Prerouting,
            Self::Output => Chain::Output,
        }
    }
}
