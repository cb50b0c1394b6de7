//! An explanation in words.

use proxy_init_rules::{End, Outcome, Step, Walk};

use super::Explanation;
use crate::{
    cli::screen::{Screen, Style},
    firewall::{BackendKind, Overtaker},
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
    for overtaker in &explanation.overtakers {
        text.push_str(&format!("note: unless {}\n", before_ours(overtaker)));
    }
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

fn before_ours(overtaker: &Overtaker) -> String {
    let Overtaker {
        table,
        chain,
        priority,
        rule,
        ..
    } = overtaker;
    format!(
        "chain {chain} of table {table} (priority {priority}), which comes first, takes it: {rule}"
    )
}

/// The width of the columns between the chain and the rule's text.
const BETWEEN: usize = 6 + 11;

/// A line for each rule; what does not fit the terminal goes on below, nothing is cut.
fn steps(walk: &Walk, screen: Screen) -> String {
    let indented = |step: &Step| format!("{}{}", "  ".repeat(step.depth), step.at.chain);
    let widths = walk.steps.iter().map(|step| indented(step).len());
    let width = widths.max().unwrap_or_default();
    let heading = format!("{:<width$}  RULE  MATCHES    WHAT IT SAYS", "CHAIN");
    let mut text = format!("{}\n", screen.paint(&heading, Style::Heading));
    for step in &walk.steps {
        let (chain, number) = (indented(step), step.at.number);
        let before = format!("{chain:<width$}  {number:>4}  {}  ", verdict(step, screen));
        let said = screen.wrap(&said(step), width + 2 + BETWEEN);
        text.push_str(&before);
        text.push_str(said.trim_start());
    }
    text
}

fn verdict(step: &Step, screen: Screen) -> String {
    let (word, style) = match &step.outcome {
        Outcome::Matched => ("yes", Style::Good),
        Outcome::Passed(_) => ("no", Style::Plain),
        Outcome::Unknown(_) => ("not known", Style::Doubtful),
    };
    screen.paint(&format!("{word:<9}"), style)
}

fn said(step: &Step) -> String {
    let rule = without_comment(&step.text);
    match &step.outcome {
        Outcome::Matched => rule,
        Outcome::Passed(why) | Outcome::Unknown(why) => format!("{rule}  ({why})"),
    }
}

/// A comment says nothing about where a connection goes, and takes the room of what does.
fn without_comment(rule: &str) -> String {
    const COMMENT: &str = "-m comment --comment ";
    let Some((before, rest)) = rule.split_once(COMMENT) else {
        return rule.to_owned();
    };
    let after = match rest.strip_prefix('"') {
        Some(quoted) => quoted.split_once("\" ").map(|(_, after)| after),
        None => rest.split_once(' ').map(|(_, after)| after),
    };
    format!("{before}{}", after.unwrap_or_default())
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
            "note: both {one} and {two} take it, and the one that was set up last comes first\n"
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_left_out() {
        for (rule, shown) in [
            (r#"-p tcp -m comment --comment "a b" -j X"#, "-p tcp -j X"),
            ("-m comment --comment a/b -j X", "-j X"),
            (r#"-j X -m comment --comment "last""#, "-j X "),
            ("-p tcp -j X", "-p tcp -j X"),
        ] {
            assert_eq!(without_comment(rule), shown);
        }
    }
}
