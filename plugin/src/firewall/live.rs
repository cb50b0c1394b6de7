//! Every `nat` table that the kernel has for a family, whoever filled it.

use proxy_init_rules::{Family, NatTable};

use super::{BackendKind, Failure, iptables};

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
    for kind in readable(family) {
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

/// Both kinds of tables, through the plain programs where others are missing. Without any, the
/// first will say what is missing.
fn readable(family: Family) -> Vec<BackendKind> {
    let is_there = |kind: &BackendKind| iptables::can_read(*kind, family);
    let mut kinds = vec![BackendKind::Nft, BackendKind::Legacy];
    if kinds.iter().all(is_there) {
        return kinds;
    }
    kinds.push(BackendKind::Plain);
    kinds.retain(is_there);
    if kinds.is_empty() {
        kinds.push(BackendKind::Nft);
    }
    kinds
}
