//! Every configuration as it was before us (installer.md 5).

use std::ffi::OsStr;

use super::{
    Change, Files, Finding, INTERFACE_MODE, Plan, is_configuration, is_list, is_original, list_of,
    original_of, single_of, text,
};
use crate::conflist;

/// What is to be done so that no file holds an entry of ours.
///
/// Not only configurations: a list under another name (Cilium renames foreign
/// ones to `*.cilium_bak`, a swapped link leaves its old target) may come back
/// one day, and would then name an executable that is gone.
#[must_use]
pub fn removal(files: &Files) -> Plan {
    let mut plan = Plan::default();
    for name in files.keys().filter(|name| is_original(name)) {
        put_back(files, name, &mut plan);
    }
    for name in files.keys() {
        drop_unfinished(files, name, &mut plan);
    }
    for (name, found) in files {
        let gone = plan
            .changes
            .iter()
            .any(|c| matches!(c, Change::Delete { file } if file == name));
        if gone || is_original(name) {
            continue;
        }
        if name == INTERFACE_MODE {
            plan.changes.push(Change::Delete { file: name.clone() });
        } else if let Some(text) = found.text().and_then(conflist::unchain) {
            plan.changes.push(Change::Rewrite {
                file: name.clone(),
                text,
            });
        }
    }
    plan
}

/// Puts the original of a converted file back, unless somebody has changed
/// things since: then theirs stays.
fn put_back(files: &Files, original: &OsStr, plan: &mut Plan) {
    let Some(single) = single_of(original) else {
        return;
    };
    let list = list_of(&single);
    let Some(text_before) = text(files, original) else {
        return;
    };
    let converted = text(files, &list).is_some_and(|l| conflist::is_conversion(l, text_before));
    let delete = |file: &OsStr| Change::Delete {
        file: file.to_owned(),
    };
    match (files.contains_key(&single), converted) {
        (false, true) => plan.changes.extend([
            Change::Rename { from: original.to_owned(), to: single, over: false },
            delete(&list),
        ]),
        (true, true) => plan.changes.extend([delete(&list), delete(original)]),
        (true, false) => plan.changes.push(delete(original)),
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

/// Removes the list of a conversion that was cut short: its single
/// configuration is still in its place.
fn drop_unfinished(files: &Files, single: &OsStr, plan: &mut Plan) {
    let list = list_of(single);
    let unfinished = is_configuration(single)
        && !is_list(single)
        && !files.contains_key(&original_of(single))
        && matches!((text(files, single), text(files, &list)), (Some(single), Some(list))
            if conflist::is_conversion(list, single) && conflist::unchain(list).is_some());
    if unfinished {
        plan.changes.push(Change::Delete { file: list });
    }
}
