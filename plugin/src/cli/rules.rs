//! `linkerd-cni rules`: the rules that a pod would get.

use std::path::Path;

use proxy_init_rules::{Annotated, Config, Family, Overrides, RawConfig, RuleSet, suggestions};
use serde_json::Value;

use super::RulesArguments;

pub(super) fn text(arguments: &RulesArguments) -> Result<String, String> {
    let base =
        read(&arguments.conf).map_err(|why| format!("{}: {why}", arguments.conf.display()))?;
    let annotations = arguments.annotation.iter().cloned().collect();
    let pod = Annotated {
        object: "the command line",
        annotations: &annotations,
    };
    for suggestion in suggestions(pod) {
        eprintln!("linkerd-cni: {suggestion}");
    }
    let overrides = Overrides::read(&[pod]).map_err(|error| error.to_string())?;
    let family = if arguments.ipv6 {
        Family::Ipv6
    } else {
        Family::Ipv4
    };
    Ok(RuleSet::new(&overrides.apply(base), family).render_install())
}

fn read(file: &Path) -> Result<Config, String> {
    let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
    let conf: Value = serde_json::from_str(&text).map_err(|error| format!("not JSON: {error}"))?;
    let linkerd = entry(&conf).ok_or("no entry of type linkerd-cni and no linkerd object in it")?;
    RawConfig::from_value(linkerd)
        .and_then(Config::try_from)
        .map_err(|error| error.to_string())
}

/// The `linkerd` object of a configuration, or of our entry in a list.
fn entry(conf: &Value) -> Option<&Value> {
    let entries = conf["plugins"].as_array().into_iter().flatten();
    let ours = entries.filter(|entry| entry["type"] == "linkerd-cni");
    ours.chain([conf]).find_map(|entry| entry.get("linkerd"))
}
