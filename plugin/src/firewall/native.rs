//! nftables by netlink, without any program (plugin.md 3).
//!
//! The rules stand in a table of our own, with chains of the same names as in the `nat` tables of
//! iptables. Whatever has to change does so in one transaction, for both families: what is killed
//! half-way has done all of it or nothing.

use std::cell::OnceCell;

use netlink_bindings::nftables::{Nfgenmsg, Request};
use proxy_init_rules::{Family, NatTable, RuleSet};

use super::{Backend, Failure, Installed};

mod decode;
mod encode;
mod error;
mod expression;
mod foreign;
mod hook;
mod message;
mod removal;
mod snapshot;
mod socket;
mod table;
mod view;

pub(crate) use error::NativeError;
pub(crate) use foreign::Overtaker;
use message::Batch;
use snapshot::Snapshot;
use socket::Netfilter;
use table::{Kind, Layout, Table};

/// How often a transaction is made anew while somebody else changes what it is about.
const ATTEMPTS: usize = 3;

/// Our way to nf_tables in the namespace of the calling thread. What it has read it keeps: use it
/// for one question.
#[derive(Default)]
pub(crate) struct Native {
    seen: OnceCell<Snapshot>,
}

/// What nf_tables has of ours.
pub(crate) struct Presence {
    /// Whether there are tables of our own, and something in them.
    pub(crate) has_rules: bool,
    /// Families in which chains of ours stand in tables of iptables.
    pub(crate) leftovers: Vec<Family>,
}

// === impl Native ===

impl Native {
    /// Families in which chains of ours stand in tables of iptables.
    ///
    /// # Errors
    /// The rules cannot be read.
    pub(crate) fn with_leftovers(&self) -> Result<Vec<Family>, Failure> {
        Ok(leftovers(self.seen()?))
    }

    fn seen(&self) -> Result<&Snapshot, Failure> {
        if let Some(seen) = self.seen.get() {
            return Ok(seen);
        }
        let seen = Snapshot::whole(&mut Netfilter::open()?)?;
        Ok(self.seen.get_or_init(|| seen))
    }
}

impl Backend for Native {
    fn install(&self, rules: &RuleSet) -> Result<Installed, Failure> {
        install(std::slice::from_ref(rules))
    }

    fn read(&self, family: Family) -> Result<NatTable, Failure> {
        view::of_ours(self.seen()?, family).map_err(|source| Failure::Unreadable {
            command: "nf_tables".to_owned(),
            source,
        })
    }

    fn peek(&self, family: Family) -> Result<NatTable, Failure> {
        self.read(family)
    }

    fn overtakers(&self, family: Family) -> Vec<Overtaker> {
        let seen = self.seen();
        seen.map_or(Vec::new(), |seen| foreign::overtakers(seen, family))
    }

    /// A table for both families goes as a whole.
    fn remove(&self, family: Family) -> Result<bool, Failure> {
        remove_tables(&[family])
    }
}

/// What nf_tables has of ours in the namespace of the calling thread.
///
/// # Errors
/// It cannot be read.
pub(crate) fn presence() -> Result<Presence, Failure> {
    let seen = Snapshot::names(&mut Netfilter::open()?)?;
    Ok(Presence {
        has_rules: seen.chains.iter().any(|chain| chain.place.is_ours()),
        leftovers: leftovers(&seen),
    })
}

fn leftovers(seen: &Snapshot) -> Vec<Family> {
    let holds = |family: &Family| {
        let mut chains = seen.leftovers();
        chains.any(|chain| chain.place.kind.holds(*family))
    };
    Family::ALL.into_iter().filter(holds).collect()
}

/// Whether nf_tables answers, in the namespace of the calling thread. Nothing is changed by that.
///
/// # Errors
/// It does not.
pub(crate) fn is_usable() -> Result<(), NativeError> {
    let request = Request::new().op_getgen_do(&Nfgenmsg::new());
    Netfilter::open()?.ask(&request)
}

/// Puts the rules of all these families into the kernel, in place of any that nftables has of
/// ours, whoever set them: all in one transaction. The rule sets have to be joined.
///
/// # Errors
/// Nothing has changed.
pub(crate) fn install(sets: &[RuleSet]) -> Result<Installed, Failure> {
    let mut netfilter = Netfilter::open()?;
    match install_as(&mut netfilter, sets, Layout::Shared) {
        Err(error) if error.is_unknown_chain() => {
            Ok(install_as(&mut netfilter, sets, Layout::Apart)?)
        }
        done => Ok(done?),
    }
}

/// Takes our tables of these families out, in one transaction; whether there were any.
///
/// # Errors
/// Nothing has changed.
pub(crate) fn remove_tables(families: &[Family]) -> Result<bool, Failure> {
    let is_meant = |kind: Kind| families.iter().any(|family| kind.holds(*family));
    Ok(remove(|snapshot, batch| {
        removal::of_tables(batch, snapshot, is_meant)
    })?)
}

/// Takes chains of ours out of tables of iptables in nftables, with the jumps to them; whether
/// there were any.
///
/// # Errors
/// Nothing has changed.
pub(crate) fn remove_leftovers() -> Result<bool, Failure> {
    Ok(remove(|snapshot, batch| {
        removal::of_leftovers(batch, snapshot)
    })?)
}

fn install_as(
    netfilter: &mut Netfilter,
    sets: &[RuleSet],
    layout: Layout,
) -> Result<Installed, NativeError> {
    let tables = Table::all(sets, layout);
    again_after_a_race(|| {
        let there = Snapshot::outline(netfilter)?;
        let mut batch = Batch::new();
        let tables_gone = removal::of_tables(&mut batch, &there, |_| true);
        let chains_gone = removal::of_leftovers(&mut batch, &there);
        let mut next_set = 0;
        for table in &tables {
            encode::table(&mut batch, table, &mut next_set);
        }
        netfilter.commit(batch)?;
        Ok(if tables_gone || chains_gone {
            Installed::Replaced
        } else {
            Installed::Fresh
        })
    })
}

fn remove(what: impl Fn(&Snapshot, &mut Batch) -> bool) -> Result<bool, NativeError> {
    let mut netfilter = Netfilter::open()?;
    again_after_a_race(|| {
        let there = Snapshot::outline(&mut netfilter)?;
        let mut batch = Batch::new();
        let is_any = what(&there, &mut batch);
        if is_any {
            netfilter.commit(batch)?;
        }
        Ok(is_any)
    })
}

fn again_after_a_race<T>(
    mut work: impl FnMut() -> Result<T, NativeError>,
) -> Result<T, NativeError> {
    for _ in 1..ATTEMPTS {
        match work() {
            Err(error) if error.is_a_race() => {}
            done => return done,
        }
    }
    work()
}

#[cfg(test)]
mod tests;
