//! Taking our rules out again.

use proxy_init_rules::Family;

use super::{BackendKind, Failure, native, supersede};
use crate::{exec, netns};

/// What a withdrawal came to.
#[derive(Debug, Default)]
pub(crate) struct Withdrawal {
    /// Where rules were found and taken out.
    pub removed: Vec<(BackendKind, Family)>,
    /// What did not go well; the rest was done all the same.
    pub failures: Vec<Failure>,
}

/// Takes our rules out of the namespace of the calling thread, whoever set them. Looks first, so
/// that it starts no program where there is nothing for it to do.
#[must_use]
pub(crate) fn withdraw_any() -> Withdrawal {
    let mut withdrawal = Withdrawal::default();
    match native::presence() {
        Ok(there) => {
            withdrawal.note(
                BackendKind::Native,
                &Family::ALL,
                native::remove_tables(&Family::ALL),
            );
            withdrawal.note(
                BackendKind::Nft,
                &there.leftovers,
                native::remove_leftovers(),
            );
        }
        Err(failure) => withdrawal.failures.push(failure),
    }
    for family in Family::ALL {
        if netns::has_legacy_nat(family) {
            let removed = supersede::remove_legacy(family);
            withdrawal.note(BackendKind::Legacy, &[family], removed);
        }
    }
    withdrawal
}

/// Takes our rules of these families out of the namespace of the calling thread, where this backend
/// holds them. Goes on after a failure. What nf_tables holds needs no program to be taken out.
#[must_use]
pub(crate) fn withdraw(kind: BackendKind, families: &[Family]) -> Withdrawal {
    let mut withdrawal = Withdrawal::default();
    if kind == BackendKind::Native {
        withdrawal.note(kind, families, native::remove_tables(families));
        return withdrawal;
    }
    let mut patience = exec::DEADLINE;
    for family in families {
        let removed = match kind.backend_with(patience).remove(*family) {
            Err(Failure::Missing { .. }) if kind != BackendKind::Legacy => {
                native::remove_leftovers()
            }
            done => done,
        };
        if let Err(failure) = &removed {
            patience = failure.patience(patience);
        }
        withdrawal.note(kind, &[*family], removed);
    }
    withdrawal
}

// === impl Withdrawal ===

impl Withdrawal {
    fn note(&mut self, kind: BackendKind, families: &[Family], done: Result<bool, Failure>) {
        match done {
            Ok(true) => self.removed.extend(families.iter().map(|of| (kind, *of))),
            Ok(false) => {}
            Err(failure) => self.failures.push(failure),
        }
    }
}
