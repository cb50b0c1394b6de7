//! Programming and reading the kernel, from inside the pod's namespace (plugin.md 3).

use std::{fmt, process::ExitStatus, time::Duration};

use proxy_init_rules::{Family, IptablesMode, NatTable, ParseError, RuleSet};
use serde::{Deserialize, Serialize};

use crate::exec::{self, ExecError};

mod apply;
mod choice;
mod iptables;
mod live;
mod native;
mod simulate;
mod supersede;
mod withdraw;

pub(crate) use apply::{Applied, ApplyError, Order, apply};
pub(crate) use choice::order;
pub(crate) use iptables::is_installed;
pub(crate) use live::{Live, live};
pub(crate) use native::{Native, NativeError, Overtaker, is_usable};
pub(crate) use withdraw::{Withdrawal, withdraw, withdraw_any};

/// A way to reach the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum BackendKind {
    /// `iptables-legacy-restore` and its like.
    Legacy,
    /// `iptables-nft-restore` and its like.
    Nft,
    /// `iptables-restore`, whichever of the two that is on this host.
    Plain,
    /// nftables by netlink, without any program.
    Native,
    /// None: the rules only go to the log.
    Simulate,
}

/// Whether a transaction found the namespace fresh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Installed {
    /// There was nothing of ours.
    Fresh,
    /// Rules of ours were there and have been replaced.
    Replaced,
}

/// Sets, reads and removes rules. Every method works in the namespace of the calling thread.
pub(crate) trait Backend {
    /// Puts the rules into the kernel, in place of any that are there, as one transaction.
    ///
    /// # Errors
    /// Nothing has changed.
    fn install(&self, rules: &RuleSet) -> Result<Installed, Failure>;

    /// The `nat` table as it is.
    ///
    /// # Errors
    /// It cannot be read.
    fn read(&self, family: Family) -> Result<NatTable, Failure>;

    /// The same without bringing a table into being: a legacy one would be there for good once it
    /// has been asked for.
    ///
    /// # Errors
    /// It cannot be read.
    fn peek(&self, family: Family) -> Result<NatTable, Failure>;

    /// What takes connections away before our rules see them: rules of nftables in tables of others.
    /// None where they cannot be read: then there are no such tables.
    fn overtakers(&self, family: Family) -> Vec<Overtaker> {
        Native::default().overtakers(family)
    }

    /// Takes our rules out; whether there were any.
    ///
    /// # Errors
    /// Nothing has changed.
    fn remove(&self, family: Family) -> Result<bool, Failure>;
}

/// Why a backend could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The program is not on this host.
    #[error("{program} is not installed")]
    Missing {
        /// Its name.
        program: String,
    },
    /// Somebody holds the xtables lock.
    #[error("{command}: the xtables lock is held by another program for longer than 5 s")]
    Locked {
        /// The command line.
        command: String,
    },
    /// The program said no.
    #[error("{command} ended with {status}: {stderr}{hint}")]
    Refused {
        /// The command line.
        command: String,
        /// How it ended.
        status: ExitStatus,
        /// What it said.
        stderr: String,
        /// What is likely missing.
        hint: String,
    },
    /// The program said yes and did nothing.
    #[error("{command} reported success, but its rules are not in the kernel")]
    Idle {
        /// The command line.
        command: String,
    },
    /// The program did not run.
    #[error(transparent)]
    Exec(#[from] ExecError),
    /// nf_tables said no.
    #[error(transparent)]
    Native(#[from] NativeError),
    /// The program printed something that is no table.
    #[error("{command} printed something else than a table")]
    Unreadable {
        /// The command line.
        command: String,
        /// What was not understood.
        source: ParseError,
    },
}

// === impl BackendKind ===

impl BackendKind {
    /// The backend itself.
    #[must_use]
    pub(crate) fn backend(self) -> Box<dyn Backend> {
        self.backend_with(exec::DEADLINE)
    }

    /// The same, waiting at most this long for each of its programs.
    #[must_use]
    fn backend_with(self, patience: Duration) -> Box<dyn Backend> {
        match self {
            Self::Simulate => Box::new(simulate::Simulate),
            Self::Native => Box::new(native::Native::default()),
            _ => Box::new(iptables::Iptables::new(self, patience)),
        }
    }

    /// The one that a configuration asks for; `None`: any that works.
    #[must_use]
    pub(crate) fn configured(mode: IptablesMode) -> Option<Self> {
        match mode {
            IptablesMode::Legacy => Some(Self::Legacy),
            IptablesMode::Nft => Some(Self::Nft),
            IptablesMode::Plain => Some(Self::Plain),
            IptablesMode::Native => Some(Self::Native),
            IptablesMode::Auto => None,
        }
    }
}

// === impl Failure ===

impl Failure {
    /// Whether the kernel refused us for want of rights.
    #[must_use]
    fn is_forbidden(&self) -> bool {
        match self {
            Self::Refused { stderr, .. } => stderr.contains("you must be root"),
            Self::Native(error) => error.is_forbidden(),
            _ => false,
        }
    }

    /// How long to wait for the programs that come after this failure.
    #[must_use]
    fn patience(&self, so_far: Duration) -> Duration {
        match self {
            Self::Exec(ExecError::Hung { .. }) => exec::AFTER_A_HANG,
            _ => so_far,
        }
    }
}

impl fmt::Display for BackendKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Legacy => "legacy",
            Self::Nft => "nft",
            Self::Plain => "plain",
            Self::Native => "native",
            Self::Simulate => "simulate",
        })
    }
}
