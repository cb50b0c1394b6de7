//! Subnets as users write them (rules.md 1).

use ipnet::IpNet;

use crate::port::{Excerpt, trim, unique};

/// Why a text is not a subnet. Carries the offending text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not a subnet such as 10.0.0.0/8 or fd00::/8 (one address is 192.0.2.1/32)")]
pub struct SubnetError(Excerpt);

/// Reads one IPv4 or IPv6 CIDR. Host bits are dropped, as the kernel does.
///
/// # Errors
/// The text is not a CIDR.
pub fn parse(text: &str) -> Result<IpNet, SubnetError> {
    cidr(trim(text)).ok_or_else(|| SubnetError(Excerpt::new(text)))
}

/// Stricter than `IpNet`'s own parser, which reads `010.0.0.0` as 10.0.0.0 where others read it
/// as 8.0.0.0.
fn cidr(text: &str) -> Option<IpNet> {
    let (address, length) = text.split_once('/')?;
    let is_number = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
    let length = is_number.then(|| length.parse().ok()).flatten()?;
    let net = IpNet::new(address.parse().ok()?, length).ok()?;
    Some(net.trunc())
}

/// Reads a comma-separated list; empty items are skipped, repeated ones dropped.
///
/// # Errors
/// The first item that is not a CIDR.
pub fn parse_list(text: &str) -> Result<Vec<IpNet>, SubnetError> {
    let items = text
        .split(',')
        .filter(|item| !trim(item).is_empty())
        .map(parse);
    Ok(unique(items.collect::<Result<Vec<_>, _>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_families_are_read_and_host_bits_dropped() {
        let nets = parse_list("10.1.2.3/8, fd00::1/8,10.0.0.0/8,,0.0.0.0/0").unwrap();
        let shown: Vec<String> = nets.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["10.0.0.0/8", "fd00::/8", "0.0.0.0/0"]);
    }

    #[test]
    fn other_texts_are_refused_and_quoted() {
        for text in [
            "10.0.0.0/8 -j ACCEPT\nCOMMIT",
            "10.0.0.0/33",
            "fd00::/129",
            "10.0.0.1",
            "10.0.0/8",
            "010.0.0.0/8",
            "example.com/8",
            "10.0.0.0/-8",
            "10.0.0.0/8/8",
            "fe80::%eth0/64",
            "10.0.0.0/8\n",
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(&format!("{text:?}")), "{text:?}: {error}");
        }
    }
}
