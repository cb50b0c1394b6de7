//! `PEER.md`, the list of intended differences: read, and held against what was found. Pure.

use std::collections::BTreeSet;

use crate::difference::Differences;
use crate::matrix::Case;

const TABLE: &str = include_str!("../../PEER.md");

/// An intended difference.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// What differs, for people.
    pub(crate) title: String,
    /// All of its cells that must say something.
    pub(crate) cells: Vec<String>,
    /// In which cases: those that have all values of one of these.
    pub(crate) cases: Vec<BTreeSet<String>>,
    /// In what it shows there.
    pub(crate) aspects: BTreeSet<String>,
}

/// What was found of one case.
pub(crate) struct Found<'a> {
    pub(crate) case: &'a Case,
    pub(crate) differences: Differences,
}

/// The rows of the list.
pub(crate) fn rows() -> Vec<Row> {
    let lines = TABLE.lines().filter(|line| line.starts_with('|'));
    let bodies =
        lines.filter(|line| !line.starts_with("| ---") && !line.starts_with("| Difference"));
    bodies.map(row).collect()
}

fn row(line: &str) -> Row {
    let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
    let [title, .., cases, seen] = cells.as_slice() else {
        panic!("too few cells: {line}");
    };
    Row {
        title: (*title).to_owned(),
        cells: cells.iter().map(|cell| (*cell).to_owned()).collect(),
        cases: quoted(cases).map(values).collect(),
        aspects: quoted(seen).map(str::to_owned).collect(),
    }
}

fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

fn values(words: &str) -> BTreeSet<String> {
    words.split(' ').map(str::to_owned).collect()
}

// === impl Row ===

impl Row {
    pub(crate) fn is_about(&self, case: &Case) -> bool {
        self.cases
            .iter()
            .any(|values| values.is_subset(&case.values))
    }
}

/// What is wrong with the list: differences that it does not name, then those that it names and that
/// are not there. Empty if it is right.
pub(crate) fn complaints(rows: &[Row], found: &[Found<'_>]) -> Vec<String> {
    let unlisted = found.iter().flat_map(|of| {
        let listed = |aspect: &String| {
            let about = rows.iter().filter(|row| row.is_about(of.case));
            about.into_iter().any(|row| row.aspects.contains(aspect))
        };
        let not = of
            .differences
            .iter()
            .filter(move |(aspect, _)| !listed(aspect));
        not.map(|(aspect, how)| {
            format!(
                "not in PEER.md: `{aspect}` of `{}`\n  {how}",
                of.case.name()
            )
        })
    });
    unlisted
        .chain(rows.iter().flat_map(|row| stale(row, found)))
        .collect()
}

/// Each of a row's aspects, and each of its sorts of cases, must be seen once at least.
fn stale(row: &Row, found: &[Found<'_>]) -> Vec<String> {
    let seen = |values: &BTreeSet<String>, aspect: &String| {
        let about = found.iter().filter(|of| values.is_subset(&of.case.values));
        about
            .into_iter()
            .any(|of| of.differences.contains_key(aspect))
    };
    let say = |what: String| format!("in PEER.md, and no longer so: {what} (row {:?})", row.title);
    let aspects = row.aspects.iter();
    let aspects = aspects.filter(|aspect| !row.cases.iter().any(|values| seen(values, aspect)));
    let cases = row.cases.iter();
    let cases = cases.filter(|values| !row.aspects.iter().any(|aspect| seen(values, aspect)));
    let aspects = aspects.map(|aspect| say(format!("`{aspect}`")));
    let cases = cases.map(|values| say(format!("any of it with {values:?}")));
    aspects.chain(cases).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::cases;

    fn listed(cases: &str, aspects: &str) -> Row {
        row(&format!("| what | so | thus | why | {cases} | {aspects} |"))
    }

    fn found(value: &str, aspects: &[&str]) -> Found<'static> {
        let all = Box::leak(Box::new(cases()));
        let case = all.iter().find(|case| case.values.contains(value));
        let differences = aspects
            .iter()
            .map(|aspect| ((*aspect).to_owned(), String::new()));
        Found {
            case: case.expect("there is such a case"),
            differences: differences.collect(),
        }
    }

    #[test]
    fn what_is_found_as_listed_is_fine() {
        let rows = [listed(
            "`inbound=all` `inbound=many`",
            "`ADD` `OUTPUT order`",
        )];
        let found = [
            found("inbound=all", &["ADD"]),
            found("inbound=many", &["ADD", "OUTPUT order"]),
            found("inbound=single", &[]),
        ];
        assert_eq!(complaints(&rows, &found), Vec::<String>::new());
    }

    #[test]
    fn a_difference_that_is_not_listed_is_named_with_its_case() {
        let rows = [listed("`inbound=all`", "`ADD`")];
        for (value, aspect) in [("inbound=all", "OUTPUT order"), ("inbound=many", "ADD")] {
            let found = [found("inbound=all", &["ADD"]), found(value, &[aspect])];
            let said = complaints(&rows, &found);
            assert_eq!(said.len(), 1, "{said:?}");
            assert!(
                said[0].contains(value) && said[0].contains(aspect),
                "{said:?}"
            );
        }
    }

    #[test]
    fn a_listed_difference_that_no_longer_occurs_is_named() {
        let none = complaints(
            &[listed("`inbound=all`", "`ADD`")],
            &[found("inbound=all", &[])],
        );
        assert!(
            none.iter().any(|said| said.contains("no longer so: `ADD`")),
            "{none:?}"
        );
        // Of two aspects, or two sorts of cases, one alone is not enough.
        let found = [found("inbound=all", &["ADD"]), found("inbound=many", &[])];
        let aspect = complaints(&[listed("`inbound=all`", "`ADD` `OUTPUT order`")], &found);
        assert_eq!(aspect.len(), 1, "{aspect:?}");
        let case = complaints(&[listed("`inbound=all` `inbound=many`", "`ADD`")], &found);
        assert_eq!(case.len(), 1, "{case:?}");
    }

    #[test]
    fn values_in_one_pair_of_quotes_must_all_hold() {
        let row = listed("`ipv6=on inbound=all`", "`ADD`");
        let about: Vec<Case> = cases()
            .into_iter()
            .filter(|case| row.is_about(case))
            .collect();
        assert!(!about.is_empty());
        assert!(about.iter().all(|case| case.values.contains("ipv6=on")));
    }
}
