//! From what is known and seen of an attachment to its row.

use super::{
    inquiry::Inquiry,
    look::Seen,
    row::{Meshed, Row, State},
};
use crate::{
    attachments::Known,
    check::without_rules,
    cni::PodRef,
    comparison::{self, Finding},
    decision::{self, Pass},
    firewall::{BackendKind, Live},
    record::{Decision, Record},
    resolve::Resolution,
};

pub(super) fn row(known: &Known, seen: Seen, inquiry: &mut Inquiry) -> Row {
    let row = Row::of(known);
    match (&known.record, seen) {
        (_, Seen::Gone) => row.noted(
            State::Gone,
            "the network namespace is gone; DEL or GC drops what is left of it",
        ),
        (_, Seen::Failed(why)) => row.noted(State::Failed, why),
        (Some(record), seen) => recorded(row, record, seen),
        (None, Seen::Tables(tables, clear)) => {
            unrecorded(row, known, &tables, inquiry).remarked(clear)
        }
        (None, _) => row.noted(
            State::Unknown,
            "no record of it can be read, and nobody names its network namespace",
        ),
    }
}

fn recorded(row: Row, record: &Record, seen: Seen) -> Row {
    match (&record.decision, seen) {
        (Decision::Pass { why }, _) => row.fine(Meshed::No(why.to_string())),
        (Decision::Redirect { backend, .. }, Seen::Compared(findings, clear)) => {
            let notes = record.decision.notes().iter().cloned();
            row.compared(Some(*backend), findings)
                .remarked(notes.chain(clear))
        }
        (Decision::Redirect { backend, .. }, _) if *backend == BackendKind::Simulate => {
            let row = row.noted(State::Ok, "simulated: its rules only went to the log");
            row.compared(Some(*backend), Vec::new())
                .remarked(record.decision.notes().iter().cloned())
        }
        (Decision::Redirect { .. }, _) => {
            row.noted(State::Unknown, "its record names no network namespace")
        }
    }
}

fn unrecorded(row: Row, known: &Known, tables: &[Live], inquiry: &mut Inquiry) -> Row {
    match (&known.pod, comparison::backend_of(tables)) {
        (Some(pod), None) => unredirected(row, known, pod, inquiry),
        (Some(pod), Some(backend)) => redirected(row, known, pod, backend, tables, inquiry),
        (None, Some(backend)) => by_shape(row, backend, tables, "nobody says which pod this is"),
        (None, None) if known.is_no_pod => row.fine(Meshed::No(Pass::NotKubernetes.to_string())),
        (None, None) => row.noted(
            State::Unknown,
            "no redirect rules; nobody says which pod this is, if it is one",
        ),
    }
}

fn unredirected(row: Row, known: &Known, pod: &PodRef, inquiry: &mut Inquiry) -> Row {
    if let Some(why) = inquiry.exempt(pod) {
        return row.fine(Meshed::No(why.to_string()));
    }
    match inquiry.is_meshed(pod) {
        Ok(Err(why)) => row.fine(Meshed::No(why.to_string())),
        Ok(Ok(())) => {
            let was_left_out = known.was_chained == Some(false);
            let note = "linkerd-cni was not in its list of plugins when it started";
            let row = row.remarked(was_left_out.then(|| note.to_owned()));
            row.compared(None, vec![Finding::of_pod("no-rules", without_rules(pod))])
        }
        Err(why) => row.noted(
            State::Unknown,
            format!("no redirect rules; whether it is meshed nobody tells: {why}"),
        ),
    }
}

fn redirected(
    row: Row,
    known: &Known,
    pod: &PodRef,
    backend: BackendKind,
    tables: &[Live],
    inquiry: &mut Inquiry,
) -> Row {
    let row = Row {
        backend: Some(backend),
        ..row
    };
    match inquiry.resolve(pod) {
        Ok(Resolution::Meshed(meshed)) => {
            let has_ipv6 = known.addresses.iter().any(|ip| ip.is_ipv6());
            let found = comparison::without_record(&meshed.config, has_ipv6, tables);
            let ifname = known.ifname.as_deref();
            let left_alone = ifname.and_then(|name| decision::left_alone(&meshed.config, name));
            row.compared(Some(backend), found.unwrap_or_default())
                .remarked(meshed.warnings.into_iter().chain(left_alone))
        }
        Ok(Resolution::Pass(why @ Pass::InitContainer)) => row.fine(Meshed::No(why.to_string())),
        Ok(Resolution::Pass(why)) => {
            let text = format!("the pod has redirect rules though it should not: {why}");
            let row = row.differing(vec![Finding::of_pod("unexpected", text)]);
            Row {
                meshed: Meshed::No(why.to_string()),
                ..row
            }
        }
        Err(why) => by_shape(row, backend, tables, &why),
    }
}

/// Without knowing what the rules should be: whether each chain is there and jumped to.
fn by_shape(row: Row, backend: BackendKind, tables: &[Live], why: &str) -> Row {
    let all = tables.iter().flat_map(|live| &live.tables);
    let ours = all.filter(|(_, table)| table.has_ours());
    let findings: Vec<Finding> = ours
        .flat_map(|(_, table)| proxy_init_rules::difference(&table.rule_set(), table))
        .map(|difference| Finding::from(&difference))
        .collect();
    let note = format!("only looked at for chains and jumps, as no record says more: {why}");
    row.compared(Some(backend), findings).remarked([note])
}
