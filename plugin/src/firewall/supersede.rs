//! Rules of ours that another backend left in the same namespace: its mode was changed, or another
//! plugin set them. They go once the new ones are in, so that there is no moment without rules.

use proxy_init_rules::Family;

use super::{BackendKind, Failure, iptables, native, native::Presence};
use crate::netns;

/// Takes out what others than `used` hold; what to warn of. In a namespace that has nothing of the
/// kind this starts no process.
pub(super) fn supersede(used: BackendKind) -> Vec<String> {
    let failures = match used {
        BackendKind::Simulate => return Vec::new(),
        // Its transaction has taken out what nf_tables had of ours.
        BackendKind::Native => legacy(),
        BackendKind::Nft => [native(&presence()), legacy()].concat(),
        BackendKind::Legacy => {
            let there = presence();
            [native(&there), nft(&there)].concat()
        }
        BackendKind::Plain => {
            let there = presence();
            [native(&there), other_than_plain(&there)].concat()
        }
    };
    let warning = |failure: String| format!("rules of an earlier backend may be left: {failure}");
    failures.into_iter().map(warning).collect()
}

type Failures = Vec<String>;

/// Without nf_tables there is nothing of ours in it.
fn presence() -> Presence {
    native::presence().unwrap_or(Presence {
        has_rules: false,
        leftovers: Vec::new(),
    })
}

fn native(there: &Presence) -> Failures {
    let removed = there.has_rules.then(|| native::remove_tables(&Family::ALL));
    let failure = removed.and_then(Result::err);
    failure.into_iter().map(in_words).collect()
}

fn nft(there: &Presence) -> Failures {
    let removed = (!there.leftovers.is_empty()).then(native::remove_leftovers);
    let failure = removed.and_then(Result::err);
    failure.into_iter().map(in_words).collect()
}

fn legacy() -> Failures {
    let families = Family::ALL
        .into_iter()
        .filter(|family| netns::has_legacy_nat(*family));
    let failures = families.filter_map(|family| remove_legacy(family).err());
    failures.map(in_words).collect()
}

/// Takes our rules out of a legacy table; whether there were any.
///
/// # Errors
/// There may be some, and they stay.
pub(super) fn remove_legacy(family: Family) -> Result<bool, Failure> {
    let mut backend = BackendKind::Legacy.backend();
    let mut table = backend.peek(family);
    // The host's only programs may be called plain.
    if matches!(table, Err(Failure::Missing { .. }))
        && iptables::is_plain_nft().is_ok_and(|nft| !nft)
    {
        backend = BackendKind::Plain.backend();
        table = backend.peek(family);
    }
    if table?.has_ours() {
        backend.remove(family)
    } else {
        Ok(false)
    }
}

/// The plain programs are one of the two; only if both kinds of tables have rules of ours is it
/// asked which.
fn other_than_plain(there: &Presence) -> Failures {
    let mut in_nft = there.leftovers.iter();
    let is_in_both = in_nft.any(|family| netns::has_legacy_nat(*family));
    match is_in_both.then(iptables::is_plain_nft) {
        None => Vec::new(),
        Some(Ok(true)) => legacy(),
        Some(Ok(false)) => nft(there),
        Some(Err(failure)) => vec![in_words(failure)],
    }
}

fn in_words(failure: Failure) -> String {
    crate::cni::in_words(&failure)
}
