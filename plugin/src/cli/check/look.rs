//! Looking at the kernel: all namespaces, several at once. Nothing is asked of anybody.

use std::{
    path::Path,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use proxy_init_rules::{Family, RuleSet};

use crate::{
    attachments::{Known, identity_of},
    check::{all_tables, in_the_clear},
    cni::in_words,
    comparison::{self, Finding},
    families,
    firewall::{BackendKind, Failure, Live},
    netns::Namespace,
    record::{Decision, Record},
};

/// What the kernel shows of an attachment.
#[derive(Debug)]
pub(super) enum Seen {
    /// Nothing needed to be looked at.
    Nothing,
    /// The namespace is gone.
    Gone,
    /// It could not be looked at, and why not.
    Failed(String),
    /// The differences from the record, and what there is to say of a family without rules.
    Compared(Vec<Finding>, Option<String>),
    /// Without a record: all tables, and likewise.
    Tables(Vec<Live>, Option<String>),
}

/// One for each attachment, in their order.
pub(super) fn at(known: &[Known]) -> Vec<Seen> {
    let next = AtomicUsize::new(0);
    let seen: Mutex<Vec<(usize, Seen)>> = Mutex::default();
    let work = || {
        while let Some((index, one)) = take(known, &next) {
            let found = (index, look(one));
            seen.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(found);
        }
    };
    let helpers = thread::available_parallelism().map_or(1, |count| count.get());
    thread::scope(|scope| {
        for _ in 1..helpers {
            // One thread fewer makes it slower, no more.
            let _ = thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    let mut seen = seen.into_inner().unwrap_or_else(PoisonError::into_inner);
    seen.sort_by_key(|(index, _)| *index);
    seen.into_iter().map(|(_, seen)| seen).collect()
}

fn take<'a>(known: &'a [Known], next: &AtomicUsize) -> Option<(usize, &'a Known)> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    known.get(index).map(|known| (index, known))
}

fn look(known: &Known) -> Seen {
    let Some(path) = &known.netns else {
        return Seen::Nothing;
    };
    if identity_of(path).is_none() {
        return Seen::Gone;
    }
    match rules_of(known.record.as_ref(), path) {
        Ok(seen) => seen,
        Err(why) => Seen::Failed(why),
    }
}

fn rules_of(record: Option<&Record>, path: &Path) -> Result<Seen, String> {
    let read = |failure: Failure| in_words(&failure);
    match record.map(|record| &record.decision) {
        Some(
            Decision::Pass { .. }
            | Decision::Redirect {
                backend: BackendKind::Simulate,
                ..
            },
        ) => Ok(Seen::Nothing),
        Some(Decision::Redirect { backend, rules, .. }) => {
            let expected: Vec<RuleSet> = rules.iter().map(|of| of.rule_set()).collect();
            let families: Vec<Family> = expected.iter().map(RuleSet::family).collect();
            let compare = || {
                let findings = comparison::with_record(*backend, &expected)?;
                Ok(Seen::Compared(findings, families::in_the_clear(&families)))
            };
            inside(path, compare)?.map_err(read)
        }
        None => inside(path, tables)?.map_err(read),
    }
}

fn tables() -> Result<Seen, Failure> {
    let tables = all_tables()?;
    let clear = in_the_clear(&tables);
    Ok(Seen::Tables(tables, clear))
}

fn inside<T: Send>(path: &Path, work: impl FnOnce() -> T + Send) -> Result<T, String> {
    let namespace = Namespace::open(path).map_err(|error| in_words(&error))?;
    namespace.enter(work).map_err(|error| in_words(&error))
}
