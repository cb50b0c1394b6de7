//! Taking our rules out again.

use proxy_init_rules::Family;

use super::{BackendKind, Failure};
use crate::exec;

/// What a withdrawal came to.
#[derive(Debug, Default)]
pub(crate) struct Withdrawal {
    /// Where rules were found and taken out.
    pub removed: Vec<(BackendKind, Family)>,
    /// What did not go well; the rest was done all the same.
    pub failures: Vec<Failure>,
}

/// Takes our rules of these families out of the namespace of the calling thread, whichever of the
/// backends holds them. Goes on after a failure.
#[must_use]
pub(crate) fn withdraw(backends: &[BackendKind], families: &[Family]) -> Withdrawal {
    let mut withdrawal = Withdrawal::default();
    let mut patience = exec::DEADLINE;
    for kind in backends {
        for family in families {
            match kind.backend_with(patience).remove(*family) {
                Ok(true) => withdrawal.removed.push((*kind, *family)),
                Ok(false) => {}
                Err(failure) => {
                    patience = failure.patience(patience);
                    withdrawal.failures.push(failure);
                }
            }
        }
    }
    withdrawal
}
