//! Cuts our entries out of a text, and puts one in.

use std::ops::Range;

use super::{is_ours, scan::Value};

/// The parts of the text that our entries take up, each with the comma and the
/// whitespace that parts it from its neighbour: before it, or, at the head of
/// the list, after it. That is just what `chain` puts in.
pub(super) fn cuts(plugins: &[Value<'_>]) -> Vec<Range<usize>> {
    let head = plugins.iter().take_while(|p| is_ours(**p)).count();
    let cut = |(i, plugin): (usize, &Value<'_>)| match plugins.get(i + 1) {
        _ if i >= head && i > 0 => plugins[i - 1].span().end..plugin.span().end,
        Some(next) => plugin.span().start..next.span().start,
        None => plugin.span(),
    };
    plugins
        .iter()
        .enumerate()
        .filter(|(_, p)| is_ours(**p))
        .map(cut)
        .collect()
}

/// The text without the cuts, and with something put in at a place outside.
pub(super) fn splice(text: &[u8], cuts: &[Range<usize>], added: Option<(usize, &str)>) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + added.map_or(0, |(_, a)| a.len()));
    let mut at = 0;
    let place = added.map_or(text.len(), |(place, _)| place);
    for cut in cuts.iter().filter(|cut| cut.start < place) {
        out.extend_from_slice(&text[at..cut.start]);
        at = cut.end;
    }
    out.extend_from_slice(&text[at..place]);
    out.extend_from_slice(added.map_or("", |(_, a)| a).as_bytes());
    at = place;
    for cut in cuts.iter().filter(|cut| cut.start >= place) {
        out.extend_from_slice(&text[at..cut.start]);
        at = cut.end;
    }
    out.extend_from_slice(&text[at..]);
    out
}
