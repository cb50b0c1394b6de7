//! Changes a CNI configuration: text in, text out.
//!
//! Other people's files are edited, never read and printed: every byte that is
//! not our entry stays as it was (installer.md 3). So the functions here look
//! up where in the text the elements of `plugins` begin and end, cut our own
//! out and put the new one in, and `unchain` undoes `chain` byte for byte.

mod keys;
mod layout;
mod same;
mod scan;
mod single;
mod splice;
mod tree;

#[cfg(test)]
mod tests;

pub use layout::Layout;
pub use scan::Fault;
pub use single::{convert, is_conversion, is_some_conversion};
pub use tree::Tree;

use same::same;
use scan::{Kind, Value};
use splice::{cuts, splice};
pub(crate) use tree::quoted;

/// The type of our plugin, by which our entries are known.
pub const OUR_TYPE: &str = "linkerd-cni";

/// What a usable configuration is (installer.md 3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Configuration {
    /// A list with these plugins, ours not counted.
    List {
        /// The `type` of each plugin that is not ours.
        types: Vec<String>,
    },
    /// A single plugin, as `.conf` files hold it.
    Single {
        /// The plugin's `type`.
        kind: String,
    },
    /// Nothing but `loopback`: never chained, no reason to warn.
    Loopback,
}

/// Why a file is left alone. The runtime cannot load such a file either.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// Not JSON, or not yet: empty or half-written.
    #[error("not JSON (yet): {0}")]
    NotJson(#[from] Fault),
    /// JSON, but no object.
    #[error("not a JSON object")]
    NotAnObject,
    /// `name` is missing, empty or not a string.
    #[error("`name` is missing or not a string: no runtime loads a network without one")]
    NoName,
    /// A key of a list in another case.
    #[error("`{found}` has to be `{key}`: no runtime reads that key of a list in another case")]
    Misspelt {
        /// As it is.
        found: String,
        /// As it has to be.
        key: &'static str,
    },
    /// Neither `plugins` nor `type`.
    #[error("neither a list (`plugins`) nor a plugin (`type`)")]
    Neither,
    /// `plugins` is there, but not as a list.
    #[error("`plugins` is not a list")]
    PluginsNotAList,
    /// `plugins` has nothing (but possibly our entry) in it.
    #[error("`plugins` holds no plugin to chain behind")]
    NoPlugin,
    /// An entry of `plugins` is not an object with a `type`.
    #[error("entry {0} of `plugins` is not an object with a `type`")]
    BadEntry(usize),
    /// A single configuration of ours, as the dropped interface mode wrote it.
    #[error(
        "a configuration of linkerd-cni that stands alone: remove it, it gives pods no network"
    )]
    StandsAlone,
}

/// What is chained: the filled-in template with the installer's own name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry(Tree);

// === impl Entry ===

impl Entry {
    /// Takes what `template` made.
    #[must_use]
    pub fn new(tree: Tree) -> Self {
        Self(tree)
    }

    /// The entry in a layout.
    #[must_use]
    pub fn render(&self, layout: &Layout) -> String {
        self.0.render(layout)
    }

    fn is(&self, value: Value<'_>) -> bool {
        let text = self.render(&Layout::compact());
        Value::document(text.as_bytes()).is_ok_and(|own| same(own, value))
    }
}

/// Reads a configuration. With `list` it has to be one (a `.conflist`);
/// without, a `type` makes it a single configuration, as libcni has it.
///
/// # Errors
///
/// Why the file is to be left alone.
pub fn read(text: &[u8], list: bool) -> Result<Configuration, Unfit> {
    let document = object(text)?;
    match (keys::text(document, "type"), document.get("plugins")) {
        (Some(kind), _) if !list && !kind.is_empty() => single::read(document, kind),
        (_, Some(plugins)) => read_list(document, plugins),
        (_, None) => Err(misspelt(document, "plugins", Unfit::Neither)),
    }
}

/// Puts `entry` at the end of a list and takes every other entry of ours out;
/// `None` if it is in its place already.
///
/// Its place is anywhere behind the plugin that makes the interface, and not
/// only the last: others want to be last too, and two programs that both insist
/// on it would rewrite the file for ever. What we return is the result that we
/// were given, so whatever stands behind us is none the wiser.
///
/// # Errors
///
/// Why the text is no list that can be chained.
pub fn chain(text: &[u8], entry: &Entry) -> Result<Option<Vec<u8>>, Unfit> {
    let document = object(text)?;
    let plugins = elements(document)?;
    let (ours, others): (Vec<_>, Vec<_>) = plugins.iter().copied().partition(|p| is_ours(*p));
    if matches!(ours[..], [one] if entry.is(one)) && behind_interface(&plugins) {
        return Ok(None);
    }
    let last = *others.last().ok_or(Unfit::NoPlugin)?;
    let (layout, gap) = Layout::of_element(text, document, last);
    let added = format!(",{gap}{}", entry.render(&layout));
    Ok(Some(splice(
        text,
        &cuts(&plugins),
        Some((last.span().end, &added)),
    )))
}

/// Takes every entry of ours out of a list; `None` if there is none, or if the
/// text is no list.
#[must_use]
pub fn unchain(text: &[u8]) -> Option<Vec<u8>> {
    let plugins = elements(object(text).ok()?).ok()?;
    let cuts = cuts(&plugins);
    (!cuts.is_empty()).then(|| splice(text, &cuts, None))
}

/// Whether a list has `entry` in its place, and no other of ours.
#[must_use]
pub fn is_chained(text: &[u8], entry: &Entry) -> bool {
    matches!(chain(text, entry), Ok(None))
}

/// Whether an entry of ours stands behind the plugin that makes the interface: the first that is
/// not `loopback`, if there is another at all. The others (portmap, bandwidth, tuning, firewall,
/// other meshes') work on an interface that is there: without the result of one before them they
/// fail, so none of them can be the first.
fn behind_interface(plugins: &[Value<'_>]) -> bool {
    let others = || (0..plugins.len()).filter(|i| !is_ours(plugins[*i]));
    let is_loopback = |i: &usize| type_of(plugins[*i]).is_some_and(|kind| kind == "loopback");
    let first = others()
        .find(|i| !is_loopback(i))
        .or_else(|| others().next_back());
    let ours = plugins.iter().position(|plugin| is_ours(*plugin));
    first.is_some_and(|first| ours > Some(first))
}

fn object(text: &[u8]) -> Result<Value<'_>, Unfit> {
    let document = Value::document(text)?;
    match document.kind() {
        Kind::Object => Ok(document),
        _ => Err(Unfit::NotAnObject),
    }
}

fn read_list(document: Value<'_>, plugins: Value<'_>) -> Result<Configuration, Unfit> {
    if plugins.kind() != Kind::Array {
        return Err(Unfit::PluginsNotAList);
    }
    let types = plugins
        .elements()
        .enumerate()
        .map(|(i, p)| type_of(p).ok_or(Unfit::BadEntry(i)))
        .collect::<Result<Vec<_>, _>>()?;
    let types: Vec<_> = types.into_iter().filter(|t| t != OUR_TYPE).collect();
    if types.is_empty() {
        return Err(Unfit::NoPlugin);
    }
    if types.iter().all(|t| t == "loopback") {
        return Ok(Configuration::Loopback);
    }
    named(document)?;
    Ok(Configuration::List { types })
}

fn named(document: Value<'_>) -> Result<(), Unfit> {
    match document.get("name").and_then(Value::string) {
        Some(name) if !name.is_empty() => Ok(()),
        _ => Err(misspelt(document, "name", Unfit::NoName)),
    }
}

fn misspelt(list: Value<'_>, key: &'static str, otherwise: Unfit) -> Unfit {
    keys::misspelt(list, key).map_or(otherwise, |found| Unfit::Misspelt { found, key })
}

fn elements(document: Value<'_>) -> Result<Vec<Value<'_>>, Unfit> {
    match document.get("plugins") {
        Some(plugins) if plugins.kind() == Kind::Array => Ok(plugins.elements().collect()),
        Some(_) => Err(Unfit::PluginsNotAList),
        None => Err(Unfit::Neither),
    }
}

fn type_of(plugin: Value<'_>) -> Option<String> {
    keys::text_of_plugin(plugin, "type").filter(|t| !t.is_empty())
}

fn is_ours(plugin: Value<'_>) -> bool {
    type_of(plugin).is_some_and(|t| t == OUR_TYPE)
}
