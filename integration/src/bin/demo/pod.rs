//! The pod of the demo: its API object, its namespace, its attachment.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use anyhow::{Context, Result};
use linkerd_cni_integration::chain::{Attachment, Chain};
use linkerd_cni_integration::netns::Netns;
use linkerd_cni_integration::rules::Family;
use linkerd_cni_integration::traffic::Listener;
use serde_json::Value;

use crate::node::Node;

/// The proxy's ports, and one of the application.
pub(crate) const INBOUND: u16 = 4143;
pub(crate) const OUTBOUND: u16 = 4140;
pub(crate) const WEB: u16 = 8080;

/// A pod whose network the chain makes and takes away.
pub(crate) struct Pod {
    pub(crate) netns: Netns,
    pub(crate) attachment: Attachment,
    chain: Chain,
}

// === impl Pod ===

impl Pod {
    pub(crate) fn new(node: &Node, conflist: Value) -> Self {
        let netns = Netns::named("web-meshed".to_owned());
        let attachment = Attachment {
            container_id: "0f1e2d3c4b5a".to_owned(),
            netns: netns.path(),
            ifname: "eth0".to_owned(),
            args: "IgnoreUnknown=1;K8S_POD_NAMESPACE=emojivoto;K8S_POD_NAME=web-meshed".to_owned(),
        };
        let chain = Chain {
            conflist,
            bin_dirs: vec![node.bin_dir()],
        };
        Self {
            netns,
            attachment,
            chain,
        }
    }

    pub(crate) fn add(&self) -> Result<Value> {
        self.chain.add(&self.attachment)
    }

    pub(crate) fn check(&self, result: &Value) -> Result<()> {
        self.chain.check(&self.attachment, result)
    }

    pub(crate) fn del(&self, result: &Value) -> Result<()> {
        self.chain.del(&self.attachment, Some(result))
    }

    /// The proxy's two listeners and the application's own.
    pub(crate) fn listeners(&self) -> Vec<Listener> {
        [Family::V4, Family::V6]
            .into_iter()
            .flat_map(|family| Listener::all(&self.netns, family, &[INBOUND, OUTBOUND, WEB]))
            .collect()
    }

    /// The plugin's record of the attachment.
    pub(crate) fn has_record(&self) -> bool {
        let id = &self.attachment.container_id;
        Path::new("/run/linkerd-cni")
            .join(format!("{id}-eth0.json"))
            .exists()
    }
}

/// The pod's and its gateway's addresses, one pair per family, out of the result.
pub(crate) fn addresses(result: &Value) -> Result<Vec<(IpAddr, IpAddr)>> {
    let ips = result["ips"].as_array().context("the result has no ips")?;
    let pairs = ips.iter().map(|ip| {
        let address = ip["address"].as_str().context("an ip without address")?;
        let gateway = ip["gateway"].as_str().context("an ip without gateway")?;
        let (address, _) = address.split_once('/').context("no prefix length")?;
        Ok((address.parse()?, gateway.parse()?))
    });
    pairs.collect()
}

/// An address and a port, as one.
pub(crate) fn at(ip: IpAddr, port: u16) -> SocketAddr {
    SocketAddr::new(ip, port)
}
