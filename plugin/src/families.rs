//! An address family that nobody redirects: the pod's traffic over it goes around the proxy.

use std::net::IpAddr;

use proxy_init_rules::{Config, Family};

use crate::{
    cni::{Code, Error, PodRef},
    interfaces::{self, Address},
    netns::Namespace,
};

/// What mends it.
const MEND: &str = "IPv6 is redirected in pods that are made with disableIPv6=false in the chart's \
                    values (linkerd.ipv6)";

/// What to warn of before a pod with these addresses (those that the plugins before us gave it) is
/// redirected.
///
/// # Errors
/// It has only IPv6, and only IPv4 would be redirected.
pub(crate) fn admit(
    pod: &PodRef,
    config: &Config,
    given: &[IpAddr],
    namespace: &Namespace,
) -> Result<Option<String>, Error> {
    let Some(ip) = given.iter().find(|ip| is_ipv6(ip) && !config.ipv6) else {
        return Ok(None);
    };
    // Of several networks each has a result of its own.
    let has_ipv4 = given.iter().any(is_ipv4)
        || namespace.enter(|| interfaces::addresses().iter().any(|of| is_ipv4(&of.ip)))?;
    if has_ipv4 || config.simulate {
        return Ok(Some(format!(
            "the pod's traffic over IPv6 ({ip}) does not go through the proxy; {MEND}"
        )));
    }
    Err(Error::new(
        Code::InvalidConfig,
        format!(
            "pod {pod} is not started: it has only IPv6 ({ip}), which is not redirected, so that all \
             its traffic would go around the proxy; {MEND}"
        ),
    ))
}

/// What to say of the namespace of the calling thread, where rules stand for these families.
#[must_use]
pub(crate) fn in_the_clear(redirected: &[Family]) -> Option<String> {
    if redirected.contains(&Family::Ipv6) {
        return None;
    }
    let addresses = interfaces::addresses();
    let Address { ip, interface } = addresses.into_iter().find(|of| is_ipv6(&of.ip))?;
    Some(format!(
        "there are no rules for IPv6, and the pod has the address {ip} ({interface}): its traffic \
         over IPv6 does not go through the proxy; {MEND}"
    ))
}

/// Addresses of the link or of loopback lead nowhere.
fn is_ipv4(ip: &IpAddr) -> bool {
    matches!(ip, IpAddr::V4(ip) if !ip.is_loopback() && !ip.is_link_local())
}

fn is_ipv6(ip: &IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if !ip.is_loopback() && !ip.is_unicast_link_local())
}
