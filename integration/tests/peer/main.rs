//! The same configurations for the Go plugin and for ours: the rules as the kernel has them and real
//! connections differ in what `PEER.md` lists, and in nothing else.
//!
//! The Go plugin is the executable that `REFERENCE_CNI_BIN` names. A model of it, made from the list,
//! takes its place in every run, so that list and rules cannot part unseen.

use std::env;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread;

use crate::difference::Differences;
use crate::list::{Found, complaints, rows};
use crate::matrix::{Case, cases};
use crate::outcome::{Outcome, Plugin};

mod difference;
mod list;
mod matrix;
mod model;
mod outcome;

/// Names the executable of the Go plugin.
const REFERENCE: &str = "REFERENCE_CNI_BIN";

/// Cases at once; most of each is waiting.
const AT_ONCE: usize = 4;

#[test]
fn the_go_plugin_differs_in_what_is_listed_and_in_nothing_else() {
    let Some(executable) = env::var_os(REFERENCE).filter(|path| !path.is_empty()) else {
        // Past the harness, which keeps what a test prints that does not fail.
        let _ = writeln!(
            io::stderr(),
            "-- NOT RUN: comparison with the Go plugin's executable ({REFERENCE} names none)"
        );
        return;
    };
    let executable = PathBuf::from(executable);
    assert!(executable.is_file(), "{REFERENCE}: no {executable:?}");
    differs_as_listed(&Plugin::Other(executable));
}

#[test]
fn what_the_list_says_of_the_go_plugin_differs_as_listed() {
    differs_as_listed(&Plugin::Model);
}

#[test]
fn the_list_names_cases_and_differences_that_there_are() {
    let (rows, cases, aspects) = (rows(), cases(), difference::aspects());
    assert!(rows.len() > 5, "only {} rows were found", rows.len());
    for row in rows {
        assert_eq!(row.cells.len(), 6, "{}", row.title);
        assert!(
            row.cells.iter().all(|cell| !cell.is_empty()),
            "{}",
            row.title
        );
        assert!(
            !row.cases.is_empty() && !row.aspects.is_empty(),
            "{}",
            row.title
        );
        for values in &row.cases {
            let is_there = cases.iter().any(|case| values.is_subset(&case.values));
            assert!(is_there, "no case has {values:?}: {}", row.title);
        }
        for aspect in &row.aspects {
            assert!(
                aspects.contains(aspect),
                "there is no {aspect}: {}",
                row.title
            );
        }
    }
}

#[test]
fn no_two_configurations_are_the_same() {
    let mut names: Vec<String> = cases().iter().map(Case::name).collect();
    assert!(names.len() > 300, "only {} configurations", names.len());
    let all = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), all);
}

fn differs_as_listed(reference: &Plugin) {
    let cases = cases();
    let found = compare(&cases, reference);
    let found: Vec<Found<'_>> = cases
        .iter()
        .zip(found)
        .map(|(case, differences)| Found { case, differences })
        .collect();
    let wrong = complaints(&rows(), &found);
    assert!(
        wrong.is_empty(),
        "{} of {} configurations differ; {} complaints:\n{}",
        found.iter().filter(|of| !of.differences.is_empty()).count(),
        cases.len(),
        wrong.len(),
        wrong.join("\n")
    );
}

/// For each case, in what the two plugins differ.
fn compare(cases: &[Case], reference: &Plugin) -> Vec<Differences> {
    static OURS: OnceLock<Vec<Outcome>> = OnceLock::new();
    let theirs = outcomes(cases, reference);
    let ours = OURS.get_or_init(|| outcomes(cases, &Plugin::Ours));
    let both = theirs.iter().zip(ours);
    both.map(|(theirs, ours)| difference::between(theirs, ours))
        .collect()
}

/// What becomes of each case with this plugin.
fn outcomes(cases: &[Case], plugin: &Plugin) -> Vec<Outcome> {
    let next = AtomicUsize::new(0);
    let all = Mutex::new(vec![Outcome::default(); cases.len()]);
    let work = || {
        while let Some((at, case)) = take(cases, &next) {
            let outcome = Outcome::of(&case.setup, plugin);
            all.lock().expect("no thread panicked")[at] = outcome;
        }
    };
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(work);
        }
    });
    all.into_inner().expect("no thread panicked")
}

fn take<'a>(cases: &'a [Case], next: &AtomicUsize) -> Option<(usize, &'a Case)> {
    let at = next.fetch_add(1, Ordering::Relaxed);
    cases.get(at).map(|case| (at, case))
}
