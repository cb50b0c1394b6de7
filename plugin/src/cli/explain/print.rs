//! An explanation in words.

use proxy_init_rules::{End, Outcome, Walk, walk::Step};

use super::Explanation;
use crate::{
    cli::{
        screen::{Screen, Style},
        table::{Cell, Table},
    },
    firewall::BackendKind,
};

pub(super) fn text(explanation: &Explanation, screen: Screen) -> String {
    let mut text = heading(explanation);
    if !explanation.is_of_pod {
        text.push_str("note: neither address is the pod's; taken for one that the pod sends\n");
    }
    for (backend, walk) in &explanation.walks {
        text.push_str(&format!("\n{backend}:\n"));
        text.push_str(&steps(walk, screen));
    }
    text.push('\n');
    text.push_str(&end(&explanation.walks, screen));
    text
}

fn heading(explanation: &Explanation) -> String {
    let connection = &explanation.connection;
    let from = match connection.from_port {
        Some(port) => std::net::SocketAddr::new(connection.from, port).to_string(),
        None => connection.from.to_string(),
    };
    let over = connection.interface.as_deref().unwrap_or("?");
    let (way, to) = (connection.way, connection.to);
    let base = way.base();
    format!("TCP {from} -> {to}, {way} (interface {over}), meets {base}\n")
}

fn steps(walk: &Walk, screen: Screen) -> String {
    let mut table = Table::new(&["CHAIN", "RULE", "", "WHAT IT SAYS"]);
    for step in &walk.steps {
        let (word, style) = match &step.outcome {
            Outcome::Matched => ("matched", Style::Good),
            Outcome::Passed(_) => ("no", Style::Plain),
            Outcome::Unknown(_) => ("not known", Style::Doubtful),
        };
        let indent = "  ".repeat(step.depth);
        table.push(vec![
            Cell::new(format!("{indent}{}", step.at.chain)),
            Cell::new(step.at.number.to_string()),
            Cell::styled(word, style),
            Cell::new(said(step)),
        ]);
    }
    table.render(screen)
}

fn said(step: &Step) -> String {
    match &step.outcome {
        Outcome::Matched => step.text.clone(),
        Outcome::Passed(why) | Outcome::Unknown(why) => format!("{} [{why}]", step.text),
    }
}

/// Where it ends: with the first table that does anything to it. Two kinds of tables are met one
/// after the other, and one that leaves a connection alone does not keep it from the next.
fn end(walks: &[(BackendKind, Walk)], screen: Screen) -> String {
    let mut doing = walks
        .iter()
        .filter(|(_, walk)| !matches!(walk.end, End::Untouched { .. }));
    let (first, second) = (doing.next(), doing.next());
    let ends = match first.or(walks.first()) {
        Some((_, walk)) => walk.end.to_string(),
        None => "untouched (there is no rule)".to_owned(),
    };
    let mut text = format!("{} {ends}\n", screen.paint("ends:", Style::Heading));
    if let (Some((one, _)), Some((two, _))) = (first, second) {
        text.push_str(&format!(
            "note: both {one} and {two} take it, and the one that was set up first comes first\n"
        ));
    }
    for step in walks.iter().flat_map(|(_, walk)| walk.doubts()) {
        text.push_str(&format!(
            "note: unless {} takes it elsewhere, which cannot be told from here\n",
            step.at
        ));
    }
    text
}
