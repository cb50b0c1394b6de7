//! The Go plugin as `PEER.md` and `README.md` describe it: one process of iptables for each rule, as
//! far as the matrix asks. It stands in where its executable is not at hand, so that the list and our
//! own rules are held against each other in every run. It proves nothing about the executable itself.

use anyhow::{Context, Result, bail, ensure};
use linkerd_cni_integration::netns::Netns;
use linkerd_cni_integration::rules::Family;
use serde_json::Value;

use crate::matrix::Setup;

/// Slots of a multiport match.
const SLOTS: usize = 15;

/// The ports of service `default/kubernetes` of the fixtures.
const API_SERVER: [&str; 2] = ["443", "6443"];

/// What ADD works with.
struct Work {
    inbound: Vec<String>,
    outbound: Vec<String>,
    subnets: Vec<String>,
    redirect: Vec<u64>,
    uid: i64,
    gid: i64,
    to: [u64; 2],
    program: &'static str,
}

/// Adds a pod: whether it starts, and why not.
pub(crate) fn add(setup: &Setup, netns: &Netns) -> (bool, String) {
    match try_add(setup, netns) {
        Ok(()) => (true, String::new()),
        Err(error) => (false, format!("{error:#}")),
    }
}

fn try_add(setup: &Setup, netns: &Netns) -> Result<()> {
    let work = Work::read(setup)?;
    if !is_meshed(&setup.pod) || setup.linkerd["simulate"] == true {
        return Ok(());
    }
    work.carry_out(netns, Family::V4)?;
    if setup.linkerd["ipv6"] == true {
        work.carry_out(netns, Family::V6)?;
    }
    Ok(())
}

fn is_meshed(pod: &Value) -> bool {
    let has = |list: &str, name: &str| {
        let all = pod["spec"][list].as_array().into_iter().flatten();
        all.into_iter().any(|container| container["name"] == name)
    };
    let proxy = has("containers", "linkerd-proxy") || has("initContainers", "linkerd-proxy");
    proxy && !has("initContainers", "linkerd-init")
}

/// An annotation that says something: the pod's, else the namespace's.
fn annotation<'a>(setup: &'a Setup, name: &str) -> Option<&'a str> {
    let key = format!("config.linkerd.io/{name}");
    let of = |object: &'a Value| object["metadata"]["annotations"][&key].as_str();
    let said = [of(&setup.pod), of(&setup.namespace)];
    said.into_iter().flatten().find(|value| !value.is_empty())
}

/// A list of strings, replaced by an annotation.
fn list(setup: &Setup, key: &str, name: &str) -> Result<Vec<String>> {
    let configured = setup.linkerd[key].as_array().into_iter().flatten();
    let texts = configured.map(|item| item.as_str().map(str::to_owned));
    let texts: Option<Vec<String>> = texts.collect();
    let texts = texts.with_context(|| format!("{key} is a list of strings"))?;
    let replaced = |value: &str| value.split(',').map(str::to_owned).collect();
    Ok(annotation(setup, name).map_or(texts, replaced))
}

/// A number, replaced by an annotation.
fn id(setup: &Setup, key: &str) -> Result<i64> {
    match annotation(setup, key) {
        Some(text) => text.parse().with_context(|| format!("{key}: {text:?}")),
        None => Ok(setup.linkerd[key].as_i64().unwrap_or_default()),
    }
}

/// What does not parse is left out; spaces do not parse.
fn port(item: &str) -> Option<(u16, u16)> {
    let (low, high) = item.split_once('-').unwrap_or((item, item));
    let (low, high) = (low.parse().ok()?, high.parse().ok()?);
    (low <= high).then_some((low, high))
}

/// What multiport matches take, in the order of the list.
fn groups(items: &[String]) -> Vec<String> {
    let mut groups = vec![Vec::new()];
    let mut left = SLOTS;
    for (low, high) in items.iter().filter_map(|item| port(item)) {
        let (slots, text) = match low == high {
            true => (1, low.to_string()),
            false => (2, format!("{low}:{high}")),
        };
        if slots > left {
            groups.push(Vec::new());
            left = SLOTS;
        }
        left -= slots;
        groups.last_mut().expect("there is one").push(text);
    }
    groups.retain(|group| !group.is_empty());
    groups.iter().map(|group| group.join(",")).collect()
}

// === impl Work ===

impl Work {
    fn read(setup: &Setup) -> Result<Self> {
        let redirect = setup.linkerd["ports-to-redirect"].as_array();
        let redirect: Option<Vec<u64>> =
            redirect.into_iter().flatten().map(Value::as_u64).collect();
        let mut outbound = list(setup, "outbound-ports-to-ignore", "skip-outbound-ports")?;
        if setup.pod["metadata"]["labels"]["linkerd.io/control-plane-component"].is_string() {
            outbound.extend(API_SERVER.map(str::to_owned));
        }
        let number = |key: &str| setup.linkerd[key].as_u64();
        let to = number("incoming-proxy-port").zip(number("outgoing-proxy-port"));
        let (incoming, outgoing) = to.context("no ports of the proxy")?;
        Ok(Self {
            inbound: list(setup, "inbound-ports-to-ignore", "skip-inbound-ports")?,
            outbound,
            subnets: list(setup, "subnets-to-ignore", "skip-subnets")?,
            redirect: redirect.context("ports-to-redirect is a list of numbers")?,
            uid: id(setup, "proxy-uid")?,
            gid: id(setup, "proxy-gid")?,
            to: [incoming, outgoing],
            program: match setup.linkerd["iptables-mode"].as_str() {
                Some("nft") => "tables-nft",
                Some("plain") => "tables",
                _ => "tables-legacy",
            },
        })
    }

    fn carry_out(&self, netns: &Netns, family: Family) -> Result<()> {
        for subnet in &self.subnets {
            ensure!(subnet.contains('/'), "{subnet} is not a valid CIDR address");
        }
        let program = match family {
            Family::V4 => format!("ip{}", self.program),
            Family::V6 => format!("ip6{}", self.program),
        };
        for (command, comment) in self.inbound().into_iter().chain(self.outbound()) {
            let comment = format!("proxy-init/{comment}");
            let mut words = vec!["-t", "nat"];
            words.extend(command.split(' '));
            if command.starts_with("-A") {
                words.extend(["-m", "comment", "--comment", &comment]);
            }
            if let Err(error) = netns.run(&program, &words) {
                bail!("{program} {command}: {error:#}");
            }
        }
        Ok(())
    }

    /// Commands, and their comments.
    fn inbound(&self) -> Vec<(String, String)> {
        const CHAIN: &str = "PROXY_INIT_REDIRECT";
        let mut all = vec![(format!("-N {CHAIN}"), String::new())];
        all.extend(ignored(CHAIN, &self.inbound));
        for subnet in self.subnets.iter().map(|subnet| subnet.trim()) {
            let command = format!("-A {CHAIN} -p all -j RETURN -s {subnet}");
            all.push((command, format!("ignore-subnet-{subnet}")));
        }
        let to = format!("-j REDIRECT --to-ports {}", self.to[0]);
        for port in &self.redirect {
            let command = format!("-A {CHAIN} -p tcp --dport {port} {to}");
            all.push((command, format!("redirect-port-{port}-to-proxy-port")));
        }
        if self.redirect.is_empty() {
            let comment = "redirect-all-incoming-to-proxy-port";
            all.push((format!("-A {CHAIN} -p tcp {to}"), comment.to_owned()));
        }
        let comment = "install-proxy-init-prerouting";
        all.push((format!("-A PREROUTING -j {CHAIN}"), comment.to_owned()));
        all
    }

    fn outbound(&self) -> Vec<(String, String)> {
        const CHAIN: &str = "PROXY_INIT_OUTPUT";
        let mut all = vec![(format!("-N {CHAIN}"), String::new())];
        for (id, option, comment) in [
            (self.uid, "uid", "ignore-proxy-user-id"),
            (self.gid, "gid", "ignore-proxy-group-id"),
        ] {
            if id > 0 {
                let command = format!("-A {CHAIN} -m owner --{option}-owner {id} -j RETURN");
                all.push((command, comment.to_owned()));
            }
        }
        all.push((
            format!("-A {CHAIN} -o lo -j RETURN"),
            "ignore-loopback".to_owned(),
        ));
        all.extend(ignored(CHAIN, &self.outbound));
        let command = format!("-A {CHAIN} -p tcp -j REDIRECT --to-ports {}", self.to[1]);
        all.push((command, "redirect-all-outgoing-to-proxy-port".to_owned()));
        let comment = "install-proxy-init-output";
        all.push((format!("-A OUTPUT -j {CHAIN}"), comment.to_owned()));
        all
    }
}

fn ignored(chain: &str, items: &[String]) -> Vec<(String, String)> {
    let rules = groups(items).into_iter().map(|group| {
        let command = format!("-A {chain} -p tcp -m multiport --dports {group} -j RETURN");
        (command, format!("ignore-port-{group}"))
    });
    rules.collect()
}
