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
/// being: a legacy table would be there for good once it has been looked for.
///
/// # Errors
/// None can be read.
pub(crate) fn live(family: Family) -> Result<Live, Failure> {
    let mut tables: Vec<(BackendKind, NatTable)> = Vec::new();
    let mut failure = None;
    for kind in wanted(family) {
        match kind.backend().read(family) {
            // The plain programs are one of the other two.
            Ok(table) if kind == BackendKind::Plain && is_known(&tables, &table) => {}
            Ok(table) => tables.push((kind, table)),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    match failure {
        Some(failure) if tables.is_empty() => Err(failure),
        _ => Ok(Live { family, tables }),
    }
}

fn is_known(tables: &[(BackendKind, NatTable)], table: &NatTable) -> bool {
    tables.iter().any(|(_, known)| known == table)
}

fn wanted(family: Family) -> Vec<BackendKind> {
    let is_there = |kind: BackendKind| iptables::can_read(kind, family);
    let has_legacy = iptables::has_legacy_table(family);
    let mut wanted = vec![BackendKind::Nft];
    if has_legacy {
        wanted.push(BackendKind::Legacy);
    }
    let all_there = wanted.iter().all(|kind| is_there(*kind));
    // On a host with the plain programs alone.
    if !all_there && is_there(BackendKind::Plain) {
        wanted.retain(|kind| is_there(*kind));
        wanted.push(BackendKind::Plain);
    }
    wanted
}
