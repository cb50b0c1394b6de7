//! What can go wrong between nf_tables and us.

use std::{fmt, io};

use nix::errno::Errno;

/// Why nf_tables did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum NativeError {
    /// There is no way to nf_tables.
    #[error("no netlink socket to nf_tables: {0} (is the kernel module nfnetlink loaded?)")]
    Socket(io::Error),
    /// The kernel was not reached.
    #[error("nf_tables could not be asked: {0}")]
    Exchange(io::Error),
    /// The kernel said no.
    #[error("nf_tables refused {subject}: {}{}{}", .errno.desc(), said(.message), hint(*.errno))]
    Refused {
        /// What it was about.
        subject: Subject,
        /// The kernel's answer.
        errno: Errno,
        /// Its own words, if it had any.
        message: Option<String>,
    },
    /// The kernel did not answer.
    #[error("nf_tables did not answer within 5 s")]
    Silent,
    /// Somebody else changed the rules whenever we read them.
    #[error("the rules of nf_tables changed each time they were read")]
    Unstable,
    /// An answer that is no netlink message.
    #[error("nf_tables answered with something that is no netlink message")]
    Unreadable,
}

/// What a request was about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// The transaction as a whole.
    Transaction,
    /// Reading.
    Reading,
    /// The making of a table.
    Table(String),
    /// The making of a chain.
    Chain(String),
    /// The making of a set of ports.
    Ports(String),
    /// The making of a rule.
    Rule(String),
    /// Taking something out.
    Removal(String),
}

// === impl NativeError ===

impl NativeError {
    /// Whether it will be so until somebody does something about it.
    #[must_use]
    pub(crate) fn is_lasting(&self) -> bool {
        match self {
            Self::Socket(error) => matches!(
                Errno::from_raw(error.raw_os_error().unwrap_or_default()),
                Errno::EPROTONOSUPPORT | Errno::EAFNOSUPPORT | Errno::EPERM | Errno::EACCES
            ),
            // `EINVAL`: nobody is there who knows the request.
            Self::Refused { errno, .. } => {
                matches!(errno, Errno::EINVAL | Errno::EOPNOTSUPP | Errno::EPERM)
            }
            Self::Exchange(_) | Self::Silent | Self::Unstable | Self::Unreadable => false,
        }
    }

    /// Whether the kernel refused us for want of rights.
    #[must_use]
    pub(crate) fn is_forbidden(&self) -> bool {
        let forbidden = [Errno::EPERM, Errno::EACCES];
        match self {
            Self::Refused { errno, .. } => forbidden.contains(errno),
            Self::Socket(error) | Self::Exchange(error) => {
                let errno = error.raw_os_error().map(Errno::from_raw);
                errno.is_some_and(|errno| forbidden.contains(&errno))
            }
            Self::Silent | Self::Unstable | Self::Unreadable => false,
        }
    }

    /// Whether what was to be made is there already.
    #[must_use]
    pub(super) fn is_there_already(&self) -> bool {
        matches!(
            self,
            Self::Refused {
                errno: Errno::EEXIST,
                subject: Subject::Table(_),
                ..
            }
        )
    }

    /// Whether the kernel knows no chain of that kind: before 5.2 there is no `nat` for both
    /// families in one table.
    #[must_use]
    pub(super) fn is_unknown_chain(&self) -> bool {
        let unknown = [Errno::ENOENT, Errno::EOPNOTSUPP, Errno::EINVAL];
        matches!(
            self,
            Self::Refused { errno, subject: Subject::Chain(_), .. } if unknown.contains(errno)
        )
    }

    /// Whether somebody else changed something between our look and our deed.
    #[must_use]
    pub(super) fn is_a_race(&self) -> bool {
        let gone = [Errno::ENOENT, Errno::EBUSY];
        let is_removal = matches!(
            self,
            Self::Refused { errno, subject: Subject::Removal(_), .. } if gone.contains(errno)
        );
        is_removal || self.is_there_already()
    }
}

fn said(message: &Option<String>) -> String {
    let said = message.as_ref().map(|message| format!(" ({message})"));
    said.unwrap_or_default()
}

fn hint(errno: Errno) -> &'static str {
    match errno {
        Errno::ENOENT | Errno::EOPNOTSUPP | Errno::EINVAL | Errno::EPROTONOSUPPORT => {
            " (are the kernel modules nf_tables, nft_chain_nat and nft_redir loaded?)"
        }
        Errno::EPERM => " (CAP_NET_ADMIN over the namespace is needed)",
        _ => "",
    }
}

// === impl Subject ===

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Transaction => f.write_str("the transaction"),
            Self::Reading => f.write_str("to show its rules"),
            Self::Table(name) => write!(f, "table {name}"),
            Self::Chain(name) => write!(f, "chain {name}"),
            Self::Ports(name) => write!(f, "a set of ports for {name}"),
            Self::Rule(name) => write!(f, "a rule of {name}"),
            Self::Removal(name) => write!(f, "the removal of {name}"),
        }
    }
}
