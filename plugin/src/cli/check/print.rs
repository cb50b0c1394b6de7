//! For people: a table, then each difference and note in full.

use super::row::{Meshed, Row, State};
use crate::cli::{
    screen::{Screen, Style},
    table::{Cell, Table},
};

const NARROW: [&str; 5] = ["NAMESPACE", "POD", "MESHED", "BACKEND", "CHECK"];
/// The column of what the check came to.
const VERDICT: usize = 4;

const WIDE: [&str; 9] = [
    "NAMESPACE",
    "POD",
    "MESHED",
    "BACKEND",
    "CHECK",
    "INTERFACE",
    "CONTAINER",
    "ADDED",
    "NETNS",
];

pub(super) fn table(rows: &[Row], is_wide: bool, screen: Screen) -> String {
    if rows.is_empty() {
        return "no attachment is known on this node\n".to_owned();
    }
    let mut table = Table::new(if is_wide { &WIDE } else { &NARROW }, VERDICT);
    for row in rows {
        let mut cells = narrow(row);
        if is_wide {
            cells.extend(wide(row));
        }
        table.push(cells);
    }
    let (nobodys, others): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| is_nobodys(row));
    let remarks = others.iter().map(|row| remarks(row, screen));
    table.render(screen) + &remarks.collect::<String>() + &about_nobodys(nobodys.len(), screen)
}

/// A namespace of which nothing is known: there may be many, and one remark is enough.
fn is_nobodys(row: &Row) -> bool {
    let is_only_there = row.netns.is_some() && row.container_id.is_none();
    row.state == State::Unknown && row.pod.is_none() && is_only_there
}

fn about_nobodys(count: usize, screen: Screen) -> String {
    let what = match count {
        0 => return String::new(),
        1 => "1 network namespace has no redirect rules and is".to_owned(),
        more => format!("{more} network namespaces have no redirect rules and are"),
    };
    let text = format!("{what} no pod's that anybody here knows of");
    format!("\n{}", screen.wrap(&text, 0))
}

fn narrow(row: &Row) -> Vec<Cell> {
    let pod = row.pod.as_ref();
    let name = pod.map(|pod| pod.name.clone());
    vec![
        Cell::new(or_dash(pod.map(|pod| pod.namespace.clone()))),
        // Of a namespace that nobody names, the path is all there is.
        Cell::new(name.unwrap_or_else(|| or_dash(anonymous(row)))),
        Cell::new(match &row.meshed {
            Meshed::Yes => "yes",
            Meshed::No(why) => why,
            Meshed::Unknown => "?",
        }),
        Cell::new(or_dash(row.backend.map(|backend| backend.to_string()))),
        verdict(row),
    ]
}

fn verdict(row: &Row) -> Cell {
    match (row.state, row.findings.len()) {
        (State::Ok, _) => Cell::styled("ok", Style::Good),
        (State::Different, 1) => Cell::styled("1 difference", Style::Bad),
        (State::Different, count) => Cell::styled(format!("{count} differences"), Style::Bad),
        (State::Unknown, _) => Cell::styled("not known", Style::Doubtful),
        (State::Gone, _) => Cell::styled("namespace gone", Style::Doubtful),
        (State::Failed, _) => Cell::styled("not readable", Style::Bad),
    }
}

fn wide(row: &Row) -> Vec<Cell> {
    let netns = row.netns.as_ref().map(|path| path.display().to_string());
    let to_the_second = |time: &String| time.split('.').next().map(str::to_owned);
    let cells = [
        row.ifname.clone(),
        row.container_id.clone(),
        row.time.as_ref().and_then(to_the_second),
        netns,
    ];
    cells.map(|cell| Cell::new(or_dash(cell))).into()
}

fn anonymous(row: &Row) -> Option<String> {
    let netns = row.netns.as_ref().map(|path| path.display().to_string());
    netns.or_else(|| row.container_id.clone())
}

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

/// What does not fit into a column.
fn remarks(row: &Row, screen: Screen) -> String {
    if row.findings.is_empty() && row.notes.is_empty() {
        return String::new();
    }
    let pod = row.pod.as_ref().map(ToString::to_string);
    let name = or_dash(pod.or_else(|| anonymous(row)));
    let findings = row.findings.iter().map(|finding| &finding.text);
    let lines = findings.chain(&row.notes);
    let lines: String = lines.map(|line| screen.wrap(line, 2)).collect();
    format!("\n{}\n{lines}", screen.paint(&name, Style::Heading))
}
