//! Values as people write them; an error says how.

use std::net::{IpAddr, SocketAddr};

use proxy_init_rules::Interface;

/// An address, and a port if it is known.
#[derive(Debug, Clone, Copy)]
pub(in crate::cli) struct Source {
    pub(in crate::cli) ip: IpAddr,
    pub(in crate::cli) port: Option<u16>,
}

pub(super) fn pod(text: &str) -> Result<(String, String), String> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() => {
            Ok((namespace.to_owned(), name.to_owned()))
        }
        _ => Err("write NAMESPACE/NAME, such as emojivoto/web-5f86686c4d-ftsbw".to_owned()),
    }
}

pub(super) fn source(text: &str) -> Result<Source, String> {
    let whole = text.parse::<SocketAddr>().map(|address| Source {
        ip: address.ip(),
        port: Some(address.port()),
    });
    let alone = |_| text.parse().map(|ip| Source { ip, port: None });
    whole
        .or_else(alone)
        .map_err(|_| "write 10.244.1.2, 10.244.1.2:40000, fd00::2 or [fd00::2]:40000".to_owned())
}

pub(super) fn target(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| "write 10.244.1.2:8080 or [fd00::2]:8080".to_owned())
}

pub(super) fn interface(text: &str) -> Result<String, String> {
    match Interface::parse(text) {
        Ok(one) if !one.is_start() => Ok(one.to_string()),
        _ => Err("write the name of one interface, such as net1".to_owned()),
    }
}

pub(super) fn key_value(text: &str) -> Result<(String, String), String> {
    let pair = text
        .split_once('=')
        .ok_or_else(|| format!("{text:?} is no KEY=VALUE"))?;
    Ok((pair.0.to_owned(), pair.1.to_owned()))
}
