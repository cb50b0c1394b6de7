//! The `linkerd` object of the plugin's network configuration (rules.md 1).

use std::{fmt, num::NonZeroU32};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    interface::Interface,
    port::{Port, PortRange},
};

mod read;

/// The object as it stands on the wire: every key optional, every value unchecked. Unknown keys
/// are kept in `other`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[expect(
    missing_docs,
    reason = "the names are the keys, which `Config` documents"
)]
pub struct RawConfig {
    pub incoming_proxy_port: Value,
    pub outgoing_proxy_port: Value,
    pub proxy_uid: Value,
    pub proxy_gid: Value,
    pub ports_to_redirect: Value,
    pub inbound_ports_to_ignore: Value,
    pub outbound_ports_to_ignore: Value,
    pub subnets_to_ignore: Value,
    pub outbound_ports_to_redirect: Value,
    pub outbound_subnets_to_ignore: Value,
    pub interfaces_to_ignore: Value,
    pub simulate: Value,
    pub use_wait_flag: Value,
    pub iptables_mode: Value,
    pub ipv6: Value,
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// The object, checked: what everything but the parser works with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Config {
    /// Where the proxy takes the pod's inbound connections.
    pub incoming_proxy_port: Port,
    /// Where the proxy takes the pod's outbound connections.
    pub outgoing_proxy_port: Port,
    /// Who the proxy runs as; its own connections are left alone. `None`: no such rule.
    pub proxy_uid: Option<Id>,
    /// The proxy's group, likewise.
    pub proxy_gid: Option<Id>,
    /// The only inbound ports to redirect; empty: all of them.
    pub ports_to_redirect: Vec<Port>,
    /// Inbound ports that are left alone.
    pub inbound_ports_to_ignore: Vec<PortRange>,
    /// Outbound ports that are left alone.
    pub outbound_ports_to_ignore: Vec<PortRange>,
    /// Source subnets, of either family, whose inbound connections are left alone.
    pub subnets_to_ignore: Vec<IpNet>,
    /// The only outbound ports to redirect; empty: all of them.
    pub outbound_ports_to_redirect: Vec<Port>,
    /// Destination subnets, of either family, to which outbound connections are left alone.
    pub outbound_subnets_to_ignore: Vec<IpNet>,
    /// Interfaces whose connections are left alone, in both directions.
    pub interfaces_to_ignore: Vec<Interface>,
    /// Only say what would be done.
    pub simulate: bool,
    /// Kept for compatibility: the wait for the xtables lock is always on and always bounded.
    pub use_wait_flag: bool,
    /// What sets the rules.
    pub iptables_mode: IptablesMode,
    /// Whether IPv6 is redirected too.
    pub ipv6: bool,
}

/// A user or group id that the kernel can match, 1..=4294967294.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Id(NonZeroU32);

/// What sets the rules: which iptables programs are asked first, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum IptablesMode {
    /// `iptables-legacy-restore` and its like.
    #[default]
    Legacy,
    /// `iptables-nft-restore` and its like.
    Nft,
    /// `iptables-restore`, whatever the node's distribution means by it.
    Plain,
    /// No program: nftables, by netlink.
    Native,
    /// The first that works in the pod's namespace.
    Auto,
}

/// A value of the `linkerd` object that cannot be used. Names the key, the value and what would
/// be right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("linkerd{}: {reason}", dotted(.key))]
pub struct ConfigError {
    key: &'static str,
    reason: String,
}

// === impl RawConfig ===

impl RawConfig {
    /// Reads the `linkerd` object of a network configuration.
    ///
    /// # Errors
    /// The value is not an object.
    pub fn from_value(value: &Value) -> Result<Self, ConfigError> {
        let whole = |reason: String| ConfigError { key: "", reason };
        match value {
            Value::Object(_) => Self::deserialize(value).map_err(|e| whole(e.to_string())),
            other => Err(whole(format!("is {}, not an object", read::kind(other)))),
        }
    }
}

// === impl Config ===

impl TryFrom<RawConfig> for Config {
    type Error = ConfigError;

    /// Checks every value.
    ///
    /// # Errors
    /// The first value that is missing though required, of the wrong type, or out of range.
    fn try_from(raw: RawConfig) -> Result<Self, ConfigError> {
        Ok(Self {
            incoming_proxy_port: read::port("incoming-proxy-port", &raw.incoming_proxy_port)?,
            outgoing_proxy_port: read::port("outgoing-proxy-port", &raw.outgoing_proxy_port)?,
            proxy_uid: read::id("proxy-uid", &raw.proxy_uid)?,
            proxy_gid: read::id("proxy-gid", &raw.proxy_gid)?,
            ports_to_redirect: read::ports("ports-to-redirect", &raw.ports_to_redirect)?,
            inbound_ports_to_ignore: read::ranges(
                "inbound-ports-to-ignore",
                &raw.inbound_ports_to_ignore,
            )?,
            outbound_ports_to_ignore: read::ranges(
                "outbound-ports-to-ignore",
                &raw.outbound_ports_to_ignore,
            )?,
            subnets_to_ignore: read::subnets("subnets-to-ignore", &raw.subnets_to_ignore)?,
            outbound_ports_to_redirect: read::ports(
                "outbound-ports-to-redirect",
                &raw.outbound_ports_to_redirect,
            )?,
            outbound_subnets_to_ignore: read::subnets(
                "outbound-subnets-to-ignore",
                &raw.outbound_subnets_to_ignore,
            )?,
            interfaces_to_ignore: read::interfaces(
                "interfaces-to-ignore",
                &raw.interfaces_to_ignore,
            )?,
            simulate: read::flag("simulate", &raw.simulate)?,
            use_wait_flag: read::flag("use-wait-flag", &raw.use_wait_flag)?,
            iptables_mode: read::mode("iptables-mode", &raw.iptables_mode)?,
            ipv6: read::flag("ipv6", &raw.ipv6)?,
        })
    }
}

// === impl Id ===

impl Id {
    /// An id from its number: 0 and negative numbers mean "no rule".
    ///
    /// # Errors
    /// The number is beyond what the kernel has ids for; it is handed back.
    pub fn from_number(number: i64) -> Result<Option<Self>, i64> {
        match u32::try_from(number.max(0)) {
            Ok(id) if id < u32::MAX => Ok(NonZeroU32::new(id).map(Self)),
            _ => Err(number),
        }
    }

    /// The number.
    #[must_use]
    pub fn get(self) -> u32 {
        self.0.get()
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

// === impl IptablesMode ===

impl IptablesMode {
    /// The mode as it is written in a configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Nft => "nft",
            Self::Plain => "plain",
            Self::Native => "native",
            Self::Auto => "auto",
        }
    }
}

impl fmt::Display for IptablesMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

// === impl ConfigError ===

impl ConfigError {
    /// The key below `linkerd`; empty if it is the object itself that cannot be used.
    #[must_use]
    pub fn key(&self) -> &'static str {
        self.key
    }
}

fn dotted(key: &str) -> String {
    if key.is_empty() {
        String::new()
    } else {
        format!(".{key}")
    }
}

#[cfg(test)]
mod tests;
