//! `linkerd-cni rules`: the rules that a pod would get.

use proxy_init_rules::{Annotated, Family, Overrides, ProxyPorts, RuleSet, suggestions};

use super::{Outcome, RulesArguments, conf};

pub(super) fn run(arguments: &RulesArguments) -> Result<Outcome, String> {
    let entry = conf::read(&arguments.conf)?;
    let base = entry.config.linkerd();
    let base = base.map_err(|error| format!("{}: {error}", entry.file.display()))?;
    let annotations = arguments.annotation.iter().cloned().collect();
    let pod = Annotated {
        object: "the command line",
        annotations: &annotations,
    };
    for suggestion in suggestions(pod) {
        eprintln!("linkerd-cni: {suggestion}");
    }
    let overrides = Overrides::read(&[pod]).map_err(|error| error.to_string())?;
    let ports = ProxyPorts::annotated(&[pod]).map_err(|error| error.to_string())?;
    let family = if arguments.ipv6 {
        Family::Ipv6
    } else {
        Family::Ipv4
    };
    let rules = RuleSet::new(&ports.apply(overrides.apply(base)), family);
    Ok(Outcome::fine(rules.render_install()))
}
