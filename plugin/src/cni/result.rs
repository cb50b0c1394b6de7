//! The result of the plugins before us, passed on as it came in.

use std::net::IpAddr;

use serde_json::Value;

use super::{Code, Error, Version, members::Members};

/// `prevResult`, member by member as it was written.
#[derive(Debug, Clone, Default)]
pub struct PreviousResult(Members);

impl PreviousResult {
    /// Reads a result.
    ///
    /// # Errors
    /// It is not a JSON object.
    pub(super) fn parse(text: &str) -> Result<Self, Error> {
        serde_json::from_str(text).map(Self).map_err(|error| {
            Error::new(
                Code::InvalidConfig,
                "prevResult is not an object; the plugin before this one printed no CNI result",
            )
            .with_details(error.to_string())
        })
    }

    /// The JSON document for standard output: the same result, in the version of the
    /// configuration. Without a previous one: the least that is valid in that version.
    #[must_use]
    pub fn document(previous: Option<&Self>, version: Version) -> String {
        let mut members = match previous {
            Some(Self(members)) => members.clone(),
            None => serde_json::from_str(r#"{"dns":{}}"#).unwrap_or_default(),
        };
        members.set("cniVersion", &version.to_string());
        serde_json::to_string(&members).unwrap_or_default()
    }

    /// The addresses that the plugins before us gave the pod. Both layouts are understood: `ips`
    /// (from 0.3.0), and `ip4` and `ip6` (before).
    #[must_use]
    pub fn addresses(&self) -> Vec<IpAddr> {
        let member = |name: &str| -> Value {
            let text = self.0.get(name).map_or("null", |raw| raw.get());
            serde_json::from_str(text).unwrap_or_default()
        };
        let ips = member("ips");
        let modern = ips
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|ip| ip["address"].as_str());
        let [ip4, ip6] = ["ip4", "ip6"].map(member);
        let former = [ip4["ip"].as_str(), ip6["ip"].as_str()];
        modern
            .chain(former.into_iter().flatten())
            .filter_map(|address| address.split('/').next()?.parse().ok())
            .collect()
    }

    /// Whether one of them is of IPv6.
    #[must_use]
    pub fn has_ipv6(&self) -> bool {
        self.addresses().iter().any(IpAddr::is_ipv6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed_on(text: &str) -> String {
        PreviousResult::document(
            Some(&PreviousResult::parse(text).unwrap()),
            Version::new(0, 3, 1),
        )
    }

    #[test]
    fn everything_but_the_version_stays_as_it_was_written() {
        assert_eq!(
            passed_on(
                r#"{"x":1e3,"cniVersion":"1.0.0","big":18446744073709551616,"caf\u00e9":[1.10,null]}"#
            ),
            r#"{"x":1e3,"cniVersion":"0.3.1","big":18446744073709551616,"café":[1.10,null]}"#
        );
        assert_eq!(passed_on("{}"), r#"{"cniVersion":"0.3.1"}"#);
        assert_eq!(
            passed_on(r#"{"cniVersion":"1.0.0","a":1,"cniVersion":"0.4.0"}"#),
            r#"{"cniVersion":"0.3.1","a":1}"#
        );
    }

    #[test]
    fn without_one_the_least_valid_result_is_made() {
        let document = PreviousResult::document(None, Version::new(0, 2, 0));
        assert_eq!(document, r#"{"cniVersion":"0.2.0","dns":{}}"#);
    }

    #[test]
    fn addresses_are_found_in_both_layouts() {
        let [v4, v6] = ["10.0.0.2", "fd00::2"].map(|ip| ip.parse::<IpAddr>().unwrap());
        for (text, expected) in [
            (
                r#"{"ips":[{"address":"10.0.0.2/24"},{"address":"fd00::2/64"}]}"#,
                &[v4, v6][..],
            ),
            (r#"{"ips":[{"version":"6","address":"fd00::2/64"}]}"#, &[v6]),
            (
                r#"{"ip4":{"ip":"10.0.0.2/24"},"ip6":{"ip":"fd00::2/64"}}"#,
                &[v4, v6],
            ),
            (r#"{"ips":[{"address":"10.0.0.2/24"}]}"#, &[v4]),
            (r#"{"ips":"fd00::2/64"}"#, &[]),
            (
                r#"{"ips":[5,{"address":5},{"address":"x/24"}],"ip6":7}"#,
                &[],
            ),
            ("{}", &[]),
        ] {
            let result = PreviousResult::parse(text).unwrap();
            assert_eq!(result.addresses(), expected, "{text}");
            assert_eq!(result.has_ipv6(), expected.contains(&v6), "{text}");
        }
    }
}
