//! Runs a list of plugins the way libcni does.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Map, Value};

use crate::process::{self, Finished};

/// How long one plugin of the list may take.
const DEADLINE: Duration = Duration::from_secs(60);

/// A conflist and where its executables are.
#[derive(Clone, Debug)]
pub struct Chain {
    /// The parsed conflist.
    pub conflist: Value,
    /// Directories to look for executables in, first wins.
    pub bin_dirs: Vec<PathBuf>,
}

/// One interface of one container.
#[derive(Clone, Debug)]
pub struct Attachment {
    /// `CNI_CONTAINERID`.
    pub container_id: String,
    /// `CNI_NETNS`.
    pub netns: PathBuf,
    /// `CNI_IFNAME`.
    pub ifname: String,
    /// `CNI_ARGS`.
    pub args: String,
}

/// A CNI error that a plugin of the list answered with.
#[derive(Clone, Debug)]
pub struct ChainError {
    /// The plugin's `type`.
    pub plugin: String,
    /// The error object.
    pub error: Value,
}

// === impl Chain ===

impl Chain {
    /// ADD, first plugin to last: each gets its predecessor's result. Returns
    /// the last one's.
    ///
    /// # Errors
    ///
    /// If a plugin answers with an error ([`ChainError`]) or not at all.
    pub fn add(&self, attachment: &Attachment) -> Result<Value> {
        let mut result = None;
        for plugin in self.plugins()? {
            result = Some(self.call("ADD", plugin, attachment, result.as_ref())?);
        }
        result.context("the list has no plugin")
    }

    /// CHECK, first plugin to last, with the cached result of ADD.
    ///
    /// # Errors
    ///
    /// As [`Chain::add`].
    pub fn check(&self, attachment: &Attachment, cached: &Value) -> Result<()> {
        for plugin in self.plugins()? {
            self.call("CHECK", plugin, attachment, Some(cached))?;
        }
        Ok(())
    }

    /// DEL, last plugin to first, with the cached result of ADD.
    ///
    /// # Errors
    ///
    /// As [`Chain::add`].
    pub fn del(&self, attachment: &Attachment, cached: Option<&Value>) -> Result<()> {
        for plugin in self.plugins()?.iter().rev() {
            self.call("DEL", plugin, attachment, cached)?;
        }
        Ok(())
    }

    fn plugins(&self) -> Result<&Vec<Value>> {
        let plugins = self.conflist.get("plugins").and_then(Value::as_array);
        plugins.context("the conflist has no list of plugins")
    }

    fn call(
        &self,
        verb: &str,
        plugin: &Value,
        attachment: &Attachment,
        previous: Option<&Value>,
    ) -> Result<Value> {
        let kind = plugin["type"].as_str().context("a plugin has no type")?;
        let mut command = process::command(self.find(kind)?);
        let path = std::env::join_paths(&self.bin_dirs)?;
        command
            .env("CNI_COMMAND", verb)
            .env("CNI_CONTAINERID", &attachment.container_id)
            .env("CNI_NETNS", &attachment.netns)
            .env("CNI_IFNAME", &attachment.ifname)
            .env("CNI_ARGS", &attachment.args)
            .env("CNI_PATH", path);
        let input = self.injected(plugin, previous)?.to_string();
        let finished = process::finish(&mut command, input.as_bytes(), DEADLINE)?;
        answer(kind, &finished)
    }

    fn find(&self, kind: &str) -> Result<PathBuf> {
        let mut candidates = self.bin_dirs.iter().map(|directory| directory.join(kind));
        let found = candidates.find(|path| path.is_file());
        found.with_context(|| format!("no executable {kind} in {:?}", self.bin_dirs))
    }

    /// The plugin's own part with name, version and previous result added, as
    /// libcni's `buildOneConfig` does.
    fn injected(&self, plugin: &Value, previous: Option<&Value>) -> Result<Value> {
        let mut config = plugin
            .as_object()
            .context("a plugin is not an object")?
            .clone();
        config.insert("name".to_owned(), self.conflist["name"].clone());
        config.insert("cniVersion".to_owned(), self.conflist["cniVersion"].clone());
        if let Some(previous) = previous {
            config.insert("prevResult".to_owned(), previous.clone());
        }
        Ok(Value::Object(config))
    }
}

// === impl ChainError ===

impl std::fmt::Display for ChainError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}: {}", self.plugin, self.error)
    }
}

impl std::error::Error for ChainError {}

fn answer(kind: &str, finished: &Finished) -> Result<Value> {
    let status = finished
        .status
        .with_context(|| format!("{kind} hung and was killed"))?;
    let text = String::from_utf8_lossy(&finished.stdout);
    if text.trim().is_empty() && status.success() {
        return Ok(Value::Object(Map::new()));
    }
    let json: Value = serde_json::from_str(&text).with_context(|| {
        let log = String::from_utf8_lossy(&finished.stderr);
        format!("{kind} ({status}) printed no JSON: {text}\n{log}")
    })?;
    if status.success() {
        return Ok(json);
    }
    if json.get("code").is_none() {
        bail!("{kind} ({status}) printed no CNI error: {json}");
    }
    Err(anyhow!(ChainError {
        plugin: kind.to_owned(),
        error: json,
    }))
}

/// Takes `plugin` out of a conflist, or leaves it as it is.
pub fn conflist_with(other: &Value, ours: &Value) -> Value {
    let mut conflist = other.clone();
    if let Some(plugins) = conflist.get_mut("plugins").and_then(Value::as_array_mut) {
        plugins.push(ours.clone());
    }
    conflist
}

/// Where Debian puts the reference plugins (`containernetworking-plugins`).
pub fn reference_plugins() -> &'static Path {
    Path::new("/usr/lib/cni")
}
