//! Every configuration as it was before us (installer.md 5).

use std::ffi::OsStr;

use super::{
    Change, Files, Finding, INTERFACE_MODE, Plan, ignored::singles_of, is_list, is_original,
    list_before, list_of, original_of, single_of, text,
};
use crate::conflist;

/// What is to be done so that no file holds an entry of ours. The steps do not
/// depend on each other; what depends on one is in the plan after it.
///
/// Not only configurations: a list under another name (Cilium renames foreign
/// ones to `*.cilium_bak`, a swapped link leaves its old target) may come back
/// one day, and would then name an executable that is gone.
#[must_use]
pub fn removal(files: &Files) -> Plan {
    let mut plan = Plan::default();
    for (name, found) in files {
        let delete = || Change::Delete { file: name.clone() };
        if is_original(name) {
            put_back(files, name, &mut plan);
            continue;
        }
        match made_from_single(files, name) {
            Made::Waits => {}
            Made::Over => plan.changes.push(delete()),
            Made::No if name == INTERFACE_MODE => plan.changes.push(delete()),
            Made::No => plan
                .changes
                .extend(
                    found
                        .text()
                        .and_then(conflist::unchain)
                        .map(|text| Change::TakeOut {
                            file: name.clone(),
                            text,
                        }),
                ),
        }
    }
    plan
}

/// Whether we made a list from a single configuration. Without an original
/// beside it we did not, whatever it looks like.
enum Made {
    No,
    /// Yes; it stays until the original is back in its place.
    Waits,
    /// Yes, and the single configuration is there: it is no longer needed.
    Over,
}

fn made_from_single(files: &Files, list: &OsStr) -> Made {
    let Some(text_of_list) = text(files, list).filter(|_| is_list(list)) else {
        return Made::No;
    };
    let from = |name: &OsStr| text(files, name).map(|t| conflist::is_conversion(text_of_list, t));
    for single in singles_of(list) {
        match (from(&original_of(&single)), from(&single)) {
            (Some(true), None) => return Made::Waits,
            (Some(_), Some(_)) if conflist::is_some_conversion(text_of_list) => return Made::Over,
            _ => {}
        }
    }
    Made::No
}

/// Puts the original of a converted file back, unless somebody has changed
/// things since: then theirs stays.
fn put_back(files: &Files, original: &OsStr, plan: &mut Plan) {
    let (Some(single), Some(before)) = (single_of(original), text(files, original)) else {
        return;
    };
    let list = list_of(&single);
    let of_single = files.contains_key(&single);
    let made = |list: &[u8]| {
        conflist::is_conversion(list, before) || of_single && conflist::is_some_conversion(list)
    };
    let lists = [&list, &list_before(&single)];
    let converted = lists.iter().any(|list| text(files, list).is_some_and(made));
    match (of_single, converted) {
        (false, true) => plan.changes.push(Change::PutBack { original: original.to_owned(), single }),
        // The list goes first: it is known by its original.
        (true, true) => {}
        (true, false) => plan.changes.push(Change::Delete { file: original.to_owned() }),
        (false, false) => plan.findings.push(Finding {
            file: original.to_owned(),
            what: format!(
                "kept, and not put back: {} was changed or removed since; delete it if it is not needed",
                list.display()
            ),
            fault: false,
        }),
    }
}
