//! Where a new TCP connection goes: its way through the live `nat` rules, rule by rule
//! (plugin.md 5).
//!
//! Not only through ours: rules of others are followed as far as their conditions can be told from
//! the connection, and what cannot be told is said. A connection is tracked, so only its first
//! packet meets these rules: `PREROUTING` if it comes in, `OUTPUT` if a process of the pod sends
//! it (over loopback too: what then comes back in has been through the table already).

use std::net::{IpAddr, SocketAddr};

use crate::{parse::NatTable, rule::Chain};

mod condition;
mod target;
mod walker;
mod words;

use walker::Walker;

/// A TCP connection that somebody is about to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connection {
    /// Which way it goes.
    pub way: Way,
    /// Where it comes from.
    pub from: IpAddr,
    /// The port it comes from, if that is known.
    pub from_port: Option<u16>,
    /// Where it is meant to go.
    pub to: SocketAddr,
    /// The interface that it comes in or goes out by, if that is known.
    pub interface: Option<String>,
    /// Whose process sends it. Unknown: taken for a user that no rule is about.
    pub uid: Option<u32>,
    /// The group of that process, likewise.
    pub gid: Option<u32>,
    /// The addresses of the namespace.
    pub own: Vec<IpAddr>,
}

/// Which way a connection goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From outside to the pod.
    Inbound,
    /// From a process of the pod.
    Outbound,
    /// From a process of the pod to the pod itself.
    Loopback,
}

/// The rules that a connection meets, in order, and where it ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Walk {
    /// Every rule it meets.
    pub steps: Vec<Step>,
    /// Where it ends, if no rule that could not be told takes it elsewhere.
    pub end: End,
}

/// One rule that a connection meets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Where the rule stands.
    pub at: Place,
    /// How many jumps led there.
    pub depth: usize,
    /// The rule as it was found.
    pub text: String,
    /// What became of it.
    pub outcome: Outcome,
}

/// Where a rule stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The chain.
    pub chain: String,
    /// From 1.
    pub number: usize,
}

/// Whether a rule is about the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is.
    Matched,
    /// It is not, and why.
    Passed(String),
    /// It cannot be told, and why not. The walk goes on as if it were not.
    Unknown(String),
}

/// Where a connection ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// At a port of the proxy.
    Proxy {
        /// Which of the chains of ours led there: the proxy's inbound or its outbound side.
        side: Chain,
        /// The port.
        port: u16,
        /// The rule.
        by: Place,
    },
    /// Where it was meant to go.
    Untouched {
        /// The rule that left it alone; `None`: no rule was about it.
        by: Option<Place>,
    },
    /// Somewhere else, by a rule that is not ours.
    Elsewhere {
        /// What the rule does with it.
        action: String,
        /// The rule.
        by: Place,
    },
    /// Nowhere.
    Dropped {
        /// The rule.
        by: Place,
    },
}

/// The way of a connection through the table. The table must be of the connection's family.
#[must_use]
pub fn walk(table: &NatTable, connection: &Connection) -> Walk {
    Walker::new(table, connection).run()
}

// === impl Way ===

impl Way {
    /// The kernel's chain that it meets first.
    #[must_use]
    pub fn base(self) -> Chain {
        match self {
            Self::Inbound => Chain::Prerouting,
            Self::Outbound | Self::Loopback => Chain::Output,
        }
    }
}

// === impl Walk ===

impl Walk {
    /// The rules that could take the connection elsewhere, for all that can be told.
    pub fn doubts(&self) -> impl Iterator<Item = &Step> {
        let unknown = |step: &&Step| matches!(step.outcome, Outcome::Unknown(_));
        self.steps.iter().filter(unknown)
    }
}

#[cfg(test)]
mod tests;
