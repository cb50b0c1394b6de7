//! The node's executable, called on the node: what runtimes call that do CHECK,
//! and what a person calls.

use std::fs;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use linkerd_cni_integration::plugin::{DEADLINE, PATH};
use linkerd_cni_integration::process::{Finished, finish};
use serde_json::Value;

use crate::machine::Machine;
use crate::pod::Sandbox;

/// CHECK of a running sandbox by the executable that the node has now, with the
/// configuration, arguments and result that the runtime kept from ADD. An error is
/// what it printed.
pub(crate) fn check(machine: &Machine, sandbox: &Sandbox) -> Result<(), String> {
    let id = &sandbox.id;
    let kept = kept(machine, id);
    let list = list_of(&kept);
    let mut config = list["plugins"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(config["type"], "linkerd-cni", "{list}");
    config["cniVersion"] = list["cniVersion"].clone();
    config["name"] = list["name"].clone();
    config["prevResult"] = kept["result"].clone();
    let arguments = kept["cniArgs"].as_array().unwrap().iter();
    let arguments: Vec<String> = arguments
        .map(|pair| {
            format!(
                "{}={}",
                pair[0].as_str().unwrap(),
                pair[1].as_str().unwrap()
            )
        })
        .collect();
    let variables = [
        ("CNI_COMMAND", "CHECK".to_owned()),
        ("CNI_CONTAINERID", id.clone()),
        ("CNI_NETNS", sandbox.path.clone()),
        ("CNI_IFNAME", "eth0".to_owned()),
        ("CNI_ARGS", arguments.join(";")),
        ("CNI_PATH", machine.node.bin_dir().display().to_string()),
    ];
    outcome(&call(machine, &[], &variables, &config.to_string()))
}

/// The plugins of the list that a sandbox was started with, in their order.
pub(crate) fn started_with(machine: &Machine, id: &str) -> Vec<String> {
    let list = list_of(&kept(machine, id));
    let plugins = list["plugins"].as_array().unwrap().iter();
    let types = plugins.map(|plugin| plugin["type"].as_str().unwrap().to_owned());
    types.collect()
}

/// `linkerd-cni check`: every attachment of the node.
pub(crate) fn check_all(machine: &Machine) -> Result<(), String> {
    outcome(&call(machine, &["check", "-o", "json"], &[], ""))
}

/// What libcni keeps of an attachment.
fn kept(machine: &Machine, id: &str) -> Value {
    let kept = format!("/var/lib/cni/results/net-{id}-eth0");
    let kept = fs::read(machine.namespaces.path(kept)).unwrap();
    serde_json::from_slice(&kept).unwrap()
}

fn list_of(kept: &Value) -> Value {
    let list = STANDARD.decode(kept["config"].as_str().unwrap()).unwrap();
    serde_json::from_slice(&list).unwrap()
}

fn call(
    machine: &Machine,
    arguments: &[&str],
    variables: &[(&str, String)],
    input: &str,
) -> Finished {
    let mut command = machine.namespaces.command(machine.node.executable());
    command.args(arguments).env_clear().env("PATH", PATH);
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    finish(&mut command, input.as_bytes(), DEADLINE).unwrap()
}

fn outcome(finished: &Finished) -> Result<(), String> {
    if finished.status.is_some_and(|status| status.success()) {
        return Ok(());
    }
    let said = [&finished.stdout[..], &finished.stderr].concat();
    Err(String::from_utf8_lossy(&said).into_owned())
}
