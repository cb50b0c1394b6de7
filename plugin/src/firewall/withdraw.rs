//! Taking our rules out again.

use proxy_init_rules::Family;

use super::{Backend as _, BackendKind, Failure, Native, native, supersede};
use crate::netns;

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
    let native = Native::default();
    match native.with_leftovers() {
        Ok(families) => {
            withdrawal.note(BackendKind::Native, &Family::ALL, |family| {
                native.remove(family)
            });
            withdrawal.note(BackendKind::Nft, &families, |_| native::remove_leftovers());
        }
        Err(failure) => withdrawal.failures.push(failure),
    }
    let legacy = Family::ALL
        .into_iter()
        .filter(|family| netns::has_legacy_nat(*family));
    let legacy: Vec<Family> = legacy.collect();
    withdrawal.note(BackendKind::Legacy, &legacy, supersede::remove_legacy);
    withdrawal
}

/// Takes our rules of these families out of the namespace of the calling thread, where this backend
/// holds them. Goes on after a failure. What nf_tables holds needs no program to be taken out.
#[must_use]
pub(crate) fn withdraw(kind: BackendKind, families: &[Family]) -> Withdrawal {
    let mut withdrawal = Withdrawal::default();
    let backend = kind.backend();
    withdrawal.note(kind, families, |family| match backend.remove(family) {
        Err(Failure::Missing { .. }) if kind != BackendKind::Legacy => native::remove_leftovers(),
        done => done,
    });
    withdrawal
}

// === impl Withdrawal ===

impl Withdrawal {
    fn note(
        &mut self,
        kind: BackendKind,
        families: &[Family],
        remove: impl Fn(Family) -> Result<bool, Failure>,
    ) {
        for family in families {
            match remove(*family) {
                Ok(true) => self.removed.push((kind, *family)),
                Ok(false) => {}
                Err(failure) => self.failures.push(failure),
            }
        }
    }
}
