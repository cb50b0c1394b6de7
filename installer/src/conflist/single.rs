//! A single configuration (`.conf`) becomes a list.
//!
//! The list keeps the network's own `name` and `cniVersion`: another name
//! would orphan the addresses that `host-local` leased under the old one and
//! the results that runtimes cached (installer.md 3). The plugin's text goes
//! in as it stands, as libcni's `ConfListFromConf` does it.

use super::{
    Configuration, Entry, Layout, OUR_TYPE, Unfit, elements, is_ours, keys, object, same::same,
    scan::Value,
};

/// The list for a single configuration, our entry second.
///
/// # Errors
///
/// Why the text is no single configuration that can be chained.
pub fn convert(text: &[u8], entry: &Entry) -> Result<Vec<u8>, Unfit> {
    let document = object(text)?;
    named(document)?;
    let layout = Layout::of_document(text, document);
    let kept = ["cniVersion", "name"].into_iter().filter_map(|key| {
        let value = keys::field(document, key)?;
        Some(
            [
                format!("\"{key}\"{}", layout.colon()).as_bytes(),
                value.raw(),
            ]
            .concat(),
        )
    });
    let members: Vec<_> = kept.chain([plugins(document, entry, &layout)]).collect();
    Ok([
        format!("{{{}", layout.break_at(1)).as_bytes(),
        &members.join(layout.comma_at(1).as_bytes()),
        format!("{}}}", layout.break_at(0)).as_bytes(),
        &text[document.span().end..],
    ]
    .concat())
}

fn plugins(document: Value<'_>, entry: &Entry, layout: &Layout) -> Vec<u8> {
    let inner = layout.deeper(2);
    let line = inner.break_at(0);
    [
        format!("\"plugins\"{}[{line}", layout.colon()).as_bytes(),
        &indented(document.raw(), line.trim_start_matches(['\r', '\n'])),
        format!(
            "{}{}{}]",
            layout.comma_at(2),
            entry.render(&inner),
            layout.break_at(1)
        )
        .as_bytes(),
    ]
    .concat()
}

/// Whether a list is what `convert` made of a single configuration, whatever
/// our entry said then. If not, somebody has changed one of the two since.
#[must_use]
pub fn is_conversion(list: &[u8], single: &[u8]) -> bool {
    let (Ok(list), Ok(single)) = (object(list), object(single)) else {
        return false;
    };
    let Ok(plugins) = elements(list) else {
        return false;
    };
    let others: Vec<_> = plugins.iter().filter(|p| !is_ours(**p)).collect();
    let agrees = |key| match (list.get(key), keys::field(single, key)) {
        (Some(a), Some(b)) => same(a, b),
        (None, None) => true,
        _ => false,
    };
    let alone = list
        .members()
        .all(|(key, _)| ["cniVersion", "name", "plugins"].iter().any(|k| key.is(k)));
    alone
        && agrees("name")
        && agrees("cniVersion")
        && matches!(others[..], [one] if same(*one, single))
}

/// Whether a list looks like what `convert` makes, of whatever it was made.
#[must_use]
pub fn is_some_conversion(list: &[u8]) -> bool {
    if !matches!(super::read(list, true), Ok(Configuration::List { .. })) {
        return false;
    }
    let plugins = object(list).and_then(elements).unwrap_or_default();
    let first = plugins.iter().find(|plugin| !is_ours(**plugin));
    first.is_some_and(|first| is_conversion(list, first.raw()))
}

pub(super) fn read(document: Value<'_>, kind: String) -> Result<Configuration, Unfit> {
    match kind.as_str() {
        "loopback" => Ok(Configuration::Loopback),
        OUR_TYPE => Err(Unfit::StandsAlone),
        _ => named(document).map(|()| Configuration::Single { kind }),
    }
}

fn named(document: Value<'_>) -> Result<(), Unfit> {
    match keys::text(document, "name") {
        Some(name) if !name.is_empty() => Ok(()),
        _ => Err(Unfit::NoName),
    }
}

/// A JSON text with its lines moved in; a JSON string holds no line end.
fn indented(text: &[u8], by: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for line in text.split_inclusive(|b| *b == b'\n') {
        if !out.is_empty() && line.iter().any(|b| !b.is_ascii_whitespace()) {
            out.extend_from_slice(by.as_bytes());
        }
        out.extend_from_slice(line);
    }
    out
}
