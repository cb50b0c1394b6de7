//! Every eligible configuration has our entry in its place (installer.md 2, 3).

use std::{
    ffi::{OsStr, OsString},
    path::Path,
};

use super::{
    Change, Executables, Files, Finding, Found, Ignored, Plan, is_configuration, is_list,
    list_before, list_of, original_of, removal,
};
use crate::conflist::{self, Configuration, Entry, Unfit};

/// What is to be done so that every eligible configuration is chained. The
/// steps do not depend on each other; what depends on one is in the plan after
/// it. With
/// `executables`, a list none of whose plugins is among them is left alone:
/// then the bin directory is probably not the one that the runtime uses. From
/// the files that are ignored, an entry of an earlier version is taken out.
#[must_use]
pub fn chaining(
    files: &Files,
    entry: &Entry,
    executables: Option<&Executables>,
    ignored: &Ignored,
) -> Plan {
    let mut chaining = Chaining {
        files,
        entry,
        executables,
        plan: Plan::default(),
    };
    let left: Files = files
        .iter()
        .filter(|(name, _)| ignored.covers(files, name))
        .map(|(name, found)| (name.clone(), found.clone()))
        .collect();
    for (name, found) in files.iter().filter(|(name, _)| is_configuration(name)) {
        if !left.contains_key(name) {
            chaining.file(name, found);
        }
    }
    chaining.ignore(&left, ignored);
    chaining.plan
}

struct Chaining<'a> {
    files: &'a Files,
    entry: &'a Entry,
    executables: Option<&'a Executables>,
    plan: Plan,
}

// === impl Chaining ===

impl Chaining<'_> {
    fn file(&mut self, name: &OsStr, found: &Found) {
        let text = match found {
            Found::Text(text) => text,
            Found::Unreadable(why) => return self.fault(name, format!("cannot be read: {why}")),
        };
        match conflist::read(text, is_list(name)) {
            Ok(Configuration::List { .. }) if !is_list(name) => self.misnamed(name, text),
            Ok(Configuration::List { .. }) if self.is_superseded(name, text) => {
                let file = name.to_owned();
                self.plan.changes.push(Change::Delete { file });
            }
            Ok(Configuration::List { types }) => self.list(name, text, &types),
            Ok(Configuration::Single { kind }) => self.single(name, text, kind),
            Ok(Configuration::Loopback) => {}
            Err(unfit) => self.fault(name, format!("left alone: {unfit}")),
        }
    }

    /// No runtime loads a list that is not in a `.conflist`. An entry of ours that an
    /// earlier version put there goes, as it would if the file were renamed back.
    fn misnamed(&mut self, name: &OsStr, text: &[u8]) {
        self.take_out(name, text);
        let list = list_of(name);
        self.fault(name, format!(
            "left alone: a list is loaded only if its name ends with .conflist; rename the file to {}",
            list.display()
        ));
    }

    fn take_out(&mut self, name: &OsStr, text: &[u8]) {
        let text = conflist::unchain(text);
        self.plan.changes.extend(text.map(|text| Change::TakeOut {
            file: name.to_owned(),
            text,
        }));
    }

    /// Whether this is a list of ours that stood before one that no runtime loaded
    /// (see [`list_before`]), and that one has been mended since.
    fn is_superseded(&self, name: &OsStr, text: &[u8]) -> bool {
        let single = Path::new(name).with_extension("").into_os_string();
        let mended = |found: &Found| matches!(found, Found::Text(_)) && !is_broken(found);
        is_configuration(&single)
            && !is_list(&single)
            && self.files.contains_key(&original_of(&single))
            && conflist::is_some_conversion(text)
            && self.files.get(&list_of(&single)).is_some_and(mended)
    }

    /// Gives back what is ignored, and says that it is.
    fn ignore(&mut self, left: &Files, ignored: &Ignored) {
        let Plan {
            changes, findings, ..
        } = removal(left);
        self.plan.changes.extend(changes);
        self.plan.findings.extend(findings);
        let first = first_loadable(self.files, self.entry).map(|(name, _)| name);
        for name in left.keys().filter(|name| is_configuration(name)) {
            let why = format!("left alone, as IGNORE_CONFIGURATIONS ({ignored}) says");
            if first.as_ref() == Some(name) {
                self.fault(
                    name,
                    format!(
                        "{why}; but the runtime loads the first file by name, which is this one: \
                     rename or remove it, or give the pods' network a name that is sorted before it"
                    ),
                );
            } else {
                self.note(name, why);
            }
        }
    }

    fn list(&mut self, name: &OsStr, text: &[u8], types: &[String]) {
        // A single configuration that was sorted before it has renewed it.
        let renewed = |c: &Change| matches!(c, Change::Rewrite { file, .. } if file == name);
        if self.plan.changes.iter().any(renewed) {
            return;
        }
        match conflist::chain(text, self.entry) {
            Ok(None) => {
                self.plan.chained += 1;
                self.plan.already.insert(name.to_owned());
            }
            Ok(Some(text)) if self.plausible(name, types) => {
                self.chain(Change::Rewrite {
                    file: name.to_owned(),
                    text,
                });
            }
            Ok(Some(_)) => {}
            Err(unfit) => self.fault(name, format!("left alone: {unfit}")),
        }
    }

    fn single(&mut self, name: &OsStr, single: &[u8], kind: String) {
        let list = self.list_for(name);
        match self.beside(name, single, &list) {
            Beside::Nothing if self.plausible(name, &[kind]) => self.begin(name, single, list),
            Beside::Nothing => {}
            Beside::Conversion => self.set_aside(name),
            Beside::OlderConversion => {
                self.convert(name, single, |text| Change::Rewrite { file: list, text });
            }
            Beside::Stranger => self.note(name, format!("left alone: {} is there", list.display())),
        }
    }

    /// The list that a single configuration becomes. One that is broken is not ours to
    /// replace, and the runtime loads the single one, which is sorted before it.
    fn list_for(&self, single: &OsStr) -> OsString {
        let list = list_of(single);
        match self.files.get(&list).is_some_and(is_broken) {
            true => list_before(single),
            false => list,
        }
    }

    /// What is beside a single configuration under the name of its list.
    fn beside(&self, name: &OsStr, single: &[u8], list: &OsStr) -> Beside {
        let kept = self.files.contains_key(&original_of(name));
        match self.files.get(list) {
            None => Beside::Nothing,
            Some(Found::Text(list)) if kept && conflist::is_conversion(list, single) => {
                Beside::Conversion
            }
            // The agent has written its file again since (OVN-Kubernetes does
            // so at every start), and libcni would load that one first.
            Some(Found::Text(list)) if kept && conflist::is_some_conversion(list) => {
                Beside::OlderConversion
            }
            Some(_) => Beside::Stranger,
        }
    }

    /// First a copy of the original is laid aside, then the list is made: by
    /// the copy the list is known as ours, even if the agent writes its file
    /// again in the next moment.
    fn begin(&mut self, name: &OsStr, single: &[u8], list: OsString) {
        let original = original_of(name);
        let like = name.to_owned();
        let create = |file, text| Change::Create { file, text, like };
        match self.files.get(&original) {
            None => self.chain(create(original, single.to_owned())),
            Some(Found::Text(copy)) if copy == single => {
                self.convert(name, single, |text| create(list, text));
            }
            Some(Found::Text(_)) => self.chain(Change::Rewrite {
                file: original,
                text: single.to_owned(),
            }),
            Some(Found::Unreadable(why)) => {
                self.fault(
                    name,
                    format!("left alone: {} cannot be read: {why}", original.display()),
                );
            }
        }
    }

    fn convert(&mut self, name: &OsStr, single: &[u8], change: impl FnOnce(Vec<u8>) -> Change) {
        match conflist::convert(single, self.entry) {
            // The original is moved aside by the next plan, which finds the list
            // there: were it moved after a list that could not be written, the
            // node would have no network.
            Ok(text) => self.chain(change(text)),
            Err(unfit) => self.fault(name, format!("left alone: {unfit}")),
        }
    }

    fn set_aside(&mut self, name: &OsStr) {
        self.plan.changes.push(Change::SetAside {
            single: name.to_owned(),
            original: original_of(name),
        });
    }

    fn chain(&mut self, change: Change) {
        self.plan.chained += 1;
        self.plan.changes.push(change);
    }

    fn plausible(&mut self, name: &OsStr, types: &[String]) -> bool {
        let Some(Executables { dir, names }) = self.executables else {
            return true;
        };
        let found = types.iter().any(|kind| names.contains(kind));
        if !found {
            let types = types.join(", ");
            self.fault(name, format!(
                "not chained: none of its plugins ({types}) is in {dir}, so that is probably not the runtime's \
                 directory; set DEST_CNI_BIN_DIR, or VERIFY_BIN_DIR=false if the runtime has several",
            ));
        }
        found
    }

    fn fault(&mut self, file: &OsStr, what: String) {
        self.plan.findings.push(Finding {
            file: file.to_owned(),
            what,
            fault: true,
        });
    }

    fn note(&mut self, file: &OsStr, what: String) {
        self.plan.findings.push(Finding {
            file: file.to_owned(),
            what,
            fault: false,
        });
    }
}

/// Whether no runtime loads this as a list.
fn is_broken(list: &Found) -> bool {
    list.text()
        .is_some_and(|text| conflist::read(text, true).is_err())
}

enum Beside {
    Nothing,
    /// A list made from just this text: what is missing is the move aside.
    Conversion,
    /// A list made from the original that was moved aside earlier.
    OlderConversion,
    /// Somebody else's list.
    Stranger,
}

/// The first configuration that libcni would load and that gives pods a
/// network, and whether it is chained with `entry`.
#[must_use]
pub fn first_loadable(files: &Files, entry: &Entry) -> Option<(OsString, bool)> {
    files
        .iter()
        .filter(|(name, _)| is_configuration(name))
        .find_map(|(name, found)| {
            let text = found.text()?;
            match conflist::read(text, is_list(name)) {
                Ok(Configuration::List { .. }) if is_list(name) => {
                    Some((name.clone(), conflist::is_chained(text, entry)))
                }
                // libcni takes a list under another extension for a plugin without
                // a type, and goes on to the next file.
                Ok(Configuration::List { .. } | Configuration::Loopback) => None,
                Ok(Configuration::Single { .. }) | Err(Unfit::StandsAlone) => {
                    Some((name.clone(), false))
                }
                Err(_) => None,
            }
        })
}
