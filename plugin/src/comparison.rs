//! The kernel against the rules that should be there, from inside the pod's namespace.

use std::fmt;

use proxy_init_rules::{
    Chain, Config, Difference, Family, NatTable, RuleSet, difference, difference_in_effect,
};

use crate::firewall::{BackendKind, Failure, Live, Overtaker, live};

/// One thing that is not as it should be, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    /// In which table; `None`: it is about the pod as a whole.
    pub family: Option<Family>,
    /// In which chain; `None`: the whole redirect.
    pub chain: Option<Chain>,
    /// What kind of fault, in a word that does not change between releases.
    pub kind: &'static str,
    /// What is wrong.
    pub text: String,
}

/// The differences from recorded rules. One read per family, unless there is nothing where the
/// record says; and a look at whether tables of others come first.
///
/// # Errors
/// The rules cannot be read.
pub(crate) fn with_record(
    kind: BackendKind,
    expected: &[RuleSet],
) -> Result<Vec<Finding>, Failure> {
    let mut findings = Vec::new();
    let backend = kind.backend();
    for rules in expected {
        let family = rules.family();
        let found = backend.read(family)?;
        if found.has_ours() {
            findings.extend(difference(rules, &found).iter().map(Finding::from));
        } else {
            findings.extend(elsewhere(kind, rules, &found));
        }
        let overtakers = backend.overtakers(family).into_iter();
        findings.extend(overtakers.map(|overtaker| Finding::overtaken(family, &overtaker)));
    }
    Ok(findings)
}

/// Nothing is where the record says: somebody may have set the rules again with other programs.
fn elsewhere(recorded: BackendKind, rules: &RuleSet, found: &NatTable) -> Vec<Finding> {
    let family = rules.family();
    let tables = live(family).map(|live| live.tables).unwrap_or_default();
    let Some((real, table)) = tables.iter().find(|(_, table)| table.has_ours()) else {
        return difference(rules, found).iter().map(Finding::from).collect();
    };
    let moved = Finding {
        family: Some(family),
        chain: None,
        kind: "elsewhere",
        text: format!("{family}: the rules are set with {real}, not with {recorded} as recorded"),
    };
    // What the host means by its plain programs may change at any time.
    let moved = Some(moved).filter(|_| recorded != BackendKind::Plain);
    let differences = difference(rules, table);
    moved
        .into_iter()
        .chain(differences.iter().map(Finding::from))
        .collect()
}

/// The differences from the rules that `config` asks for, whoever set those that are there; `None`
/// if there are none at all. IPv6 has to be redirected if the configuration says so and the pod
/// has an address of it.
#[must_use]
pub(crate) fn without_record(
    config: &Config,
    has_ipv6: bool,
    tables: &[Live],
) -> Option<Vec<Finding>> {
    backend_of(tables)?;
    let mut findings = Vec::new();
    for live in tables {
        let is_optional = live.family == Family::Ipv6 && !(config.ipv6 && has_ipv6);
        let rules = RuleSet::new(config, live.family);
        let ours = live.tables.iter().filter(|(_, table)| table.has_ours());
        let compared = ours.map(|(_, table)| difference_in_effect(&rules, table));
        let best = compared.min_by_key(Vec::len);
        let none = || difference(&rules, &NatTable::empty(live.family));
        let found = match best {
            Some(found) => found,
            None if is_optional => Vec::new(),
            None => none(),
        };
        findings.extend(found.iter().map(Finding::from));
    }
    Some(findings)
}

/// Which backend holds rules of ours, in any family.
#[must_use]
pub(crate) fn backend_of(tables: &[Live]) -> Option<BackendKind> {
    let all = tables.iter().flat_map(|live| &live.tables);
    all.filter(|(_, table)| table.has_ours())
        .map(|(kind, _)| *kind)
        .next()
}

/// The families that have rules of ours, whoever set them.
#[must_use]
pub(crate) fn redirected(tables: &[Live]) -> Vec<Family> {
    let has_ours = |live: &&Live| live.tables.iter().any(|(_, table)| table.has_ours());
    tables
        .iter()
        .filter(has_ours)
        .map(|live| live.family)
        .collect()
}

// === impl Finding ===

impl Finding {
    /// What is wrong with a pod as a whole.
    #[must_use]
    pub(crate) fn of_pod(kind: &'static str, text: impl Into<String>) -> Self {
        Self {
            family: None,
            chain: None,
            kind,
            text: text.into(),
        }
    }

    fn overtaken(family: Family, by: &Overtaker) -> Self {
        let Overtaker {
            base,
            table,
            chain,
            priority,
            rule,
        } = by;
        Self {
            family: Some(family),
            chain: Some(*base),
            kind: "overtaken",
            text: format!(
                "{family} {base}: chain {chain} of table {table} (priority {priority}) comes before \
                 ours and takes connections away: {rule}"
            ),
        }
    }
}

impl From<&Difference> for Finding {
    fn from(difference: &Difference) -> Self {
        Self {
            family: Some(difference.family),
            chain: difference.chain,
            kind: difference.fault.kind(),
            text: difference.to_string(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
