//! `FAULTS.md` names real tests: one at least in each row, and each test of this
//! directory in one row at least.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const TABLE: &str = include_str!("../../FAULTS.md");

/// What stands in the cells of one row.
struct Row {
    input: &'static str,
    cells: usize,
    tests: Vec<String>,
}

#[test]
fn every_row_names_tests_that_exist() {
    let rows = rows();
    assert!(rows.len() > 30, "only {} rows were found", rows.len());
    for row in rows {
        assert_eq!(row.cells, 4, "{}", row.input);
        assert!(!row.tests.is_empty(), "no test: {}", row.input);
        for test in &row.tests {
            assert!(exists(test), "there is no test {test}: {}", row.input);
        }
    }
}

#[test]
fn every_test_of_faults_is_in_a_row() {
    let named: BTreeSet<String> = rows().into_iter().flat_map(|row| row.tests).collect();
    for module in ["calls", "programs", "races", "shortage", "sizes"] {
        let source = fs::read_to_string(file("faults", module)).expect("the source is there");
        for name in tests_in(&source) {
            let test = format!("faults::{module}::{name}");
            assert!(named.contains(&test), "{test} is in no row");
        }
    }
}

/// The rows of every table, without heads and rulers.
fn rows() -> Vec<Row> {
    let lines = TABLE.lines().filter(|line| line.starts_with('|'));
    let bodies = lines.filter(|line| !line.starts_with("| ---") && !line.starts_with("| Input"));
    bodies.map(row).collect()
}

fn row(line: &'static str) -> Row {
    let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
    let last = cells.last().copied().unwrap_or_default();
    let words = last.split('`').skip(1).step_by(2);
    Row {
        input: cells[0],
        cells: cells.len(),
        tests: words.map(str::to_owned).collect(),
    }
}

/// Whether there is a test of this name (`target::module::name`).
fn exists(test: &str) -> bool {
    let [target, module, name] = test.split("::").collect::<Vec<_>>()[..] else {
        return false;
    };
    fs::read_to_string(file(target, module))
        .is_ok_and(|source| tests_in(&source).any(|found| found == name))
}

fn file(target: &str, module: &str) -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    tests.join(target).join(module).with_extension("rs")
}

/// The names of the functions that are marked as tests.
fn tests_in(source: &str) -> impl Iterator<Item = &str> {
    source.split("#[test]\n").skip(1).filter_map(|after| {
        let function = after.split_once("fn ")?.1;
        Some(function.split_once('(')?.0)
    })
}
