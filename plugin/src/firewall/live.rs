//! Every `nat` table that the kernel has for a family, whoever filled it.

use proxy_init_rules::{Family, NatTable};

use super::{Backend as _, BackendKind, Failure, Native, iptables};
use crate::netns;

/// The `nat` tables of one family.
#[derive(Debug)]
pub(crate) struct Live {
    /// The family.
    pub family: Family,
    /// By the programs that show them.
    pub tables: Vec<(BackendKind, NatTable)>,
}

/// Reads all `nat` tables of a family in the namespace of the calling thread, and brings none into
/// being.
///
/// # Errors
/// None can be read, or there are none of ours and one may not be read.
pub(crate) fn live(family: Family) -> Result<Live, Failure> {
    let mut tables: Vec<(BackendKind, NatTable)> = Vec::new();
    let mut failure = None;
    let native = Native::default();
    match native.read(family) {
        Ok(table) if table.chains().is_empty() => {}
        Ok(table) => tables.push((BackendKind::Native, table)),
        Err(error) => failure = Some(error),
    }
    let programs = readable(family);
    if programs.is_empty() && failure.is_none() && !is_for_programs(&native, family)? {
        return Ok(Live { family, tables });
    }
    for kind in programs_or_first(programs) {
        match kind.backend().peek(family) {
            // The plain programs are one of the other two.
            Ok(table) if kind == BackendKind::Plain && is_known(&tables, &table) => {}
            Ok(table) => tables.push((kind, table)),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    match failure {
        Some(failure) if tables.is_empty() => Err(failure),
        // What nobody may read may be there; a table that the kernel does not have is not.
        Some(failure) if failure.is_forbidden() && !tables.iter().any(|(_, t)| t.has_ours()) => {
            Err(failure)
        }
        _ => Ok(Live { family, tables }),
    }
}

fn is_known(tables: &[(BackendKind, NatTable)], table: &NatTable) -> bool {
    tables.iter().any(|(_, known)| known == table)
}

/// Whether there is something that only a program could show: chains of ours in tables of iptables,
/// or a legacy table.
fn is_for_programs(native: &Native, family: Family) -> Result<bool, Failure> {
    Ok(native.with_leftovers()?.contains(&family) || netns::has_legacy_nat(family))
}

/// Both kinds of tables of programs, through the plain ones where others are missing.
fn readable(family: Family) -> Vec<BackendKind> {
    let is_there = |kind: &BackendKind| iptables::can_read(*kind, family);
    let mut kinds = vec![BackendKind::Nft, BackendKind::Legacy];
    if kinds.iter().all(is_there) {
        return kinds;
    }
    kinds.push(BackendKind::Plain);
    kinds.retain(is_there);
    kinds
}

/// Without any, the first will say what is missing.
fn programs_or_first(programs: Vec<BackendKind>) -> Vec<BackendKind> {
    if programs.is_empty() {
        vec![BackendKind::Nft]
    } else {
        programs
    }
}
