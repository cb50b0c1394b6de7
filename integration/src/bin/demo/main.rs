//! The main job, where anyone can watch it: a node, somebody else's network, the
//! installer, a pod, real connections, and no trace left. Started by
//! `./integration/demo`.

use std::process::ExitCode;

use anyhow::{Context, Result};
use linkerd_cni_integration::api_server::{ApiServer, TOKEN};
use linkerd_cni_integration::chain::ChainError;
use linkerd_cni_integration::fixtures;
use linkerd_cni_integration::rules::{self, Family, Tables};
use linkerd_cni_integration::traffic::{As, Listener, connect, connect_as};
use serde_json::Value;

use crate::installer::Installer;
use crate::narrator::Narrator;
use crate::node::{NETWORK, Node, drop_in};
use crate::pod::{INBOUND, OUTBOUND, Pod, WEB, addresses, at};

mod installer;
mod narrator;
mod node;
mod pod;

/// The user that the proxy runs as.
const PROXY: u32 = 2102;

fn main() -> ExitCode {
    let mut narrator = Narrator::new();
    let outcome = tell(&mut narrator);
    narrator.end(&outcome);
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn tell(narrator: &mut Narrator) -> Result<()> {
    narrator.chapter("A node without a network");
    let node = Node::new()?;
    let before = node.snapshot()?;
    let api = ApiServer::start();
    for object in ["meshed", "namespace", "service-kubernetes"] {
        api.put(fixtures::pod(object));
    }
    let installer = Installer::start(&node, &api)?;
    narrator.say("The installer is running, and waits: there is nothing to chain to.");
    let waiting = !node.conflist().exists() && no_configuration(&node)?;
    narrator.verify(
        "no CNI configuration, so no pod is scheduled here yet",
        waiting,
    )?;

    narrator.chapter("Another plugin drops its configuration");
    drop_in(&node.conflist(), NETWORK)?;
    narrator.say("10-demo.conflist: the real bridge and host-local plugins.");
    let conflist = installer.chained(&node)?;
    narrator.verify("linkerd-cni is now the last plugin of the list", true)?;
    narrator.show(&serde_json::to_string_pretty(ours(&conflist)?)?);

    let pod = Pod::new(&node, conflist);
    let result = starts(narrator, &pod, &api)?;
    connects(narrator, &pod, &result)?;
    is_checked(narrator, &pod, &result)?;
    ends(narrator, &pod, &result)?;

    narrator.chapter("Uninstall");
    narrator.say("The installer is told to end, and its DaemonSet is gone. All it said:");
    let log = installer.leave()?;
    narrator.show(&log);
    narrator.verify("the token is not in its log", !log.contains(TOKEN))?;
    let with_theirs = node.snapshot()?;
    let mut expected = before;
    expected.insert(node.conflist(), NETWORK.as_bytes().to_vec());
    let restored = with_theirs == expected;
    narrator.verify("both directories are as they were, byte for byte", restored)
}

fn starts(narrator: &mut Narrator, pod: &Pod, api: &ApiServer) -> Result<Value> {
    narrator.chapter("A meshed pod starts: ADD through the whole chain");
    let result = pod.add().context("ADD")?;
    for (address, gateway) in addresses(&result)? {
        narrator.say(&format!(
            "bridge and host-local: {address} behind {gateway}"
        ));
    }
    let requests = api.requests();
    for request in requests
        .iter()
        .filter(|request| request.target.contains("emojivoto"))
    {
        narrator.say(&format!("asked: {} {}", request.method, request.target));
    }
    narrator.say("The rules in the pod's namespace, as iptables-save prints them:");
    let saved = rules::save(&pod.netns, Tables::Nft, Family::V4);
    narrator.show(&saved);
    for family in [Family::V4, Family::V6] {
        let saved = rules::save(&pod.netns, Tables::Nft, family);
        let both = saved.contains("--to-ports 4143") && saved.contains("--to-ports 4140");
        narrator.verify(
            &format!("{family}: inbound and outbound are redirected"),
            both,
        )?;
    }
    narrator.verify("the decision is on record", pod.has_record())?;
    Ok(result)
}

fn connects(narrator: &mut Narrator, pod: &Pod, result: &Value) -> Result<()> {
    narrator.chapter("Real connections");
    let _in_the_pod = pod.listeners();
    let _on_the_node = [Family::V4, Family::V6].map(|family| Listener::here(family, 80));
    for (address, gateway) in addresses(result)? {
        let meant = at(address, WEB);
        let landed = connect(meant)?;
        let through = landed.port == INBOUND && landed.original == Some(meant);
        let what = format!(
            "node -> {meant} lands on :{}, meant for {meant}",
            landed.port
        );
        narrator.verify(&what, through)?;

        let meant = at(gateway, 80);
        let landed = connect_as(&pod.netns, As::APP, meant)?;
        let through = landed.port == OUTBOUND && landed.original == Some(meant);
        let what = format!(
            "app -> {meant} lands on :{}, meant for {meant}",
            landed.port
        );
        narrator.verify(&what, through)?;

        let landed = connect_as(&pod.netns, As::user(PROXY), meant)?;
        let passes = landed.port == 80 && landed.original.is_none();
        let what = format!("proxy (uid {PROXY}) -> {meant} passes, untouched");
        narrator.verify(&what, passes)?;
    }
    Ok(())
}

fn is_checked(narrator: &mut Narrator, pod: &Pod, result: &Value) -> Result<()> {
    narrator.chapter("CHECK");
    pod.check(result).context("CHECK")?;
    narrator.verify("CHECK finds everything in its place", true)?;
    narrator.say("Somebody deletes the first rule of PROXY_INIT_REDIRECT ...");
    let payload = "*nat\n-D PROXY_INIT_REDIRECT 1\nCOMMIT\n";
    rules::restore(&pod.netns, Tables::Nft, Family::V4, payload);
    let error = pod.check(result).err().context("CHECK saw nothing")?;
    let error: ChainError = error.downcast()?;
    narrator.show(error.error["msg"].as_str().unwrap_or_default());
    narrator.show(error.error["details"].as_str().unwrap_or_default());
    narrator.verify("CHECK fails with code 101", error.error["code"] == 101)?;
    let named = error.error.to_string().contains("4191,4190,222,5432:5433");
    narrator.verify("and names the rule that is missing", named)
}

fn ends(narrator: &mut Narrator, pod: &Pod, result: &Value) -> Result<()> {
    narrator.chapter("The pod ends: DEL, last plugin first");
    pod.del(result).context("DEL")?;
    let left = rules::effective(&pod.netns);
    narrator.verify("no rule of ours is left", left.is_empty())?;
    narrator.verify("the record is gone", !pod.has_record())?;
    let links = pod.netns.run("ip", &["-brief", "link"])?;
    narrator.verify("and so is the interface", !links.contains("eth0"))
}

fn ours(conflist: &Value) -> Result<&Value> {
    let plugins = conflist["plugins"].as_array().context("no plugins")?;
    plugins.last().context("no plugin")
}

fn no_configuration(node: &Node) -> Result<bool> {
    let mut entries = std::fs::read_dir(node.net_dir())?;
    Ok(entries.all(|entry| {
        entry.is_ok_and(|entry| {
            let path = entry.path();
            path.extension()
                .is_none_or(|e| e != "conf" && e != "conflist" && e != "json")
        })
    }))
}
