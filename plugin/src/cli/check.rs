//! `linkerd-cni check`: the kernel against what each pod should have.

use super::{
    CheckArguments, DIFFERENT, Format, IMPOSSIBLE, Outcome, need_root, screen::Screen,
    select::select,
};

mod inquiry;
mod json;
mod judge;
mod look;
mod print;
mod row;

use inquiry::Inquiry;
use row::{Row, State};

/// Looks first, at all namespaces at once; asks afterwards, one question at a time.
pub(super) fn run(arguments: &CheckArguments, screen: Screen) -> Result<Outcome, String> {
    need_root("check")?;
    let known = select(&arguments.which)?;
    let seen = look::at(&known);
    let mut inquiry = Inquiry::new(&arguments.node);
    let rows: Vec<Row> = known
        .iter()
        .zip(seen)
        .map(|(known, seen)| judge::row(known, seen, &mut inquiry))
        .collect();
    let text = match arguments.output {
        Format::Json => json::text(&rows),
        Format::Table => print::table(&rows, false, screen),
        Format::Wide => print::table(&rows, true, screen),
    };
    let is_about_one = arguments.which.pod.is_some() || arguments.which.netns.is_some();
    let code = code(&rows, is_about_one);
    Ok(Outcome { text, code })
}

fn code(rows: &[Row], is_about_one: bool) -> u8 {
    let any = |state: State| rows.iter().any(|row| row.state == state);
    if any(State::Different) {
        DIFFERENT
    } else if any(State::Failed) || (is_about_one && any(State::Gone)) {
        IMPOSSIBLE
    } else {
        0
    }
}
