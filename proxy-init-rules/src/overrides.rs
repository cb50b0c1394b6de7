//! Which values hold for a pod (rules.md 2): the pod's annotations, the namespace's, the network
//! configuration, first hit wins.

use ipnet::IpNet;

use crate::{
    annotation::{
        Annotated, AnnotationError, MOST_BYTES, PROXY_GID, PROXY_UID, SKIP_INBOUND_PORTS,
        SKIP_INTERFACES, SKIP_OUTBOUND_PORTS, SKIP_OUTBOUND_SUBNETS, SKIP_SUBNETS,
    },
    config::{Config, Id},
    interface::Interface,
    port::{Excerpt, PortRange, trim, unique},
    subnet,
};

/// What the annotations of a pod and its namespace change.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Overrides {
    skip_inbound_ports: Option<Vec<PortRange>>,
    skip_outbound_ports: Option<Vec<PortRange>>,
    skip_subnets: Option<Vec<IpNet>>,
    skip_outbound_subnets: Option<Vec<IpNet>>,
    skip_interfaces: Option<Vec<Interface>>,
    proxy_uid: Option<Option<Id>>,
    proxy_gid: Option<Option<Id>>,
}

impl Overrides {
    /// Reads the annotations of `objects`, which are in order of precedence: the pod, then its
    /// namespace. An annotation of a later object that an earlier one has too is not looked at.
    ///
    /// # Errors
    /// The first value that does not parse: silence here would mean traffic in the clear, or a
    /// pod that hangs.
    pub fn read(objects: &[Annotated<'_>]) -> Result<Self, AnnotationError> {
        Ok(Self {
            skip_inbound_ports: first(objects, SKIP_INBOUND_PORTS, ports)?,
            skip_outbound_ports: first(objects, SKIP_OUTBOUND_PORTS, ports)?,
            skip_subnets: first(objects, SKIP_SUBNETS, subnets)?,
            skip_outbound_subnets: first(objects, SKIP_OUTBOUND_SUBNETS, subnets)?,
            skip_interfaces: first(objects, SKIP_INTERFACES, |text| {
                Interface::parse_list(text).map_err(|e| e.to_string())
            })?,
            proxy_uid: first(objects, PROXY_UID, id)?,
            proxy_gid: first(objects, PROXY_GID, id)?,
        })
    }

    /// The configuration with these changes: inbound ports are added (replacing them would take
    /// away the proxy's own 4190 and 4191), everything else replaces.
    #[must_use]
    pub fn apply(self, mut config: Config) -> Config {
        if let Some(ports) = self.skip_inbound_ports {
            config.inbound_ports_to_ignore.extend(ports);
            config.inbound_ports_to_ignore = unique(config.inbound_ports_to_ignore);
        }
        if let Some(ports) = self.skip_outbound_ports {
            config.outbound_ports_to_ignore = ports;
        }
        if let Some(subnets) = self.skip_subnets {
            config.subnets_to_ignore = subnets;
        }
        if let Some(subnets) = self.skip_outbound_subnets {
            config.outbound_subnets_to_ignore = subnets;
        }
        if let Some(interfaces) = self.skip_interfaces {
            config.interfaces_to_ignore = interfaces;
        }
        if let Some(uid) = self.proxy_uid {
            config.proxy_uid = uid;
        }
        if let Some(gid) = self.proxy_gid {
            config.proxy_gid = gid;
        }
        config
    }
}

impl Config {
    /// Leaves these outbound ports alone too: those of the API server, for a pod of the control
    /// plane.
    pub fn also_ignore_outbound(&mut self, ports: impl IntoIterator<Item = PortRange>) {
        self.outbound_ports_to_ignore.extend(ports);
        self.outbound_ports_to_ignore = unique(std::mem::take(&mut self.outbound_ports_to_ignore));
    }
}

pub(crate) fn first<T>(
    objects: &[Annotated<'_>],
    annotation: &'static str,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<Option<T>, AnnotationError> {
    let hit = objects
        .iter()
        .find_map(|of| of.get(annotation).map(|text| (of.object, text)));
    let Some((object, text)) = hit else {
        return Ok(None);
    };
    // A block of YAML (`|`) ends with a line end.
    let text = text.trim_matches([' ', '\t', '\r', '\n']);
    let checked = if text.len() > MOST_BYTES {
        Err(format!("is longer than {MOST_BYTES} bytes"))
    } else {
        parse(text)
    };
    checked.map(Some).map_err(|reason| AnnotationError {
        annotation,
        object: object.to_owned(),
        reason,
    })
}

fn ports(text: &str) -> Result<Vec<PortRange>, String> {
    PortRange::parse_list(text).map_err(|e| e.to_string())
}

fn subnets(text: &str) -> Result<Vec<IpNet>, String> {
    subnet::parse_list(text).map_err(|e| e.to_string())
}

fn id(text: &str) -> Result<Option<Id>, String> {
    let digits = trim(text);
    let unsigned = digits.strip_prefix('-').unwrap_or(digits);
    let is_number = !unsigned.is_empty() && unsigned.bytes().all(|byte| byte.is_ascii_digit());
    is_number
        .then(|| digits.parse().ok())
        .flatten()
        .and_then(|number| Id::from_number(number).ok())
        .ok_or_else(|| {
            format!(
                "{} is not an id (1..=4294967294, 0 for none)",
                Excerpt::new(text)
            )
        })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::config::RawConfig;

    fn config() -> Config {
        let raw = RawConfig::from_value(&json!({
            "incoming-proxy-port": 4143, "outgoing-proxy-port": 4140, "proxy-uid": 2102,
            "inbound-ports-to-ignore": ["4190", "4191"], "outbound-ports-to-ignore": ["3306"],
            "subnets-to-ignore": ["192.0.2.0/24"],
            "outbound-subnets-to-ignore": ["198.51.100.0/24"],
            "interfaces-to-ignore": ["net1"], "outbound-ports-to-redirect": [80],
        }));
        Config::try_from(raw.unwrap()).unwrap()
    }

    fn annotations(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect()
    }

    fn read(pod: &[(&str, &str)], namespace: &[(&str, &str)]) -> Result<Config, AnnotationError> {
        let (pod, namespace) = (annotations(pod), annotations(namespace));
        let objects = [
            Annotated {
                object: "pod ns/web",
                annotations: &pod,
            },
            Annotated {
                object: "namespace ns",
                annotations: &namespace,
            },
        ];
        Ok(Overrides::read(&objects)?.apply(config()))
    }

    fn list(ports: &[PortRange]) -> String {
        ports
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(",")
    }

    #[test]
    fn inbound_is_added_and_the_rest_replaces() {
        let config = read(
            &[
                (SKIP_INBOUND_PORTS, "8081, 4190"),
                (SKIP_OUTBOUND_PORTS, "25"),
                (SKIP_SUBNETS, "10.0.0.0/8"),
                (SKIP_OUTBOUND_SUBNETS, "172.16.0.0/12,fd00::/8"),
                (SKIP_INTERFACES, "net2, tun+"),
                (PROXY_UID, "1000"),
                (PROXY_GID, "1001"),
            ],
            &[],
        )
        .unwrap();
        assert_eq!(list(&config.inbound_ports_to_ignore), "4190,4191,8081");
        assert_eq!(list(&config.outbound_ports_to_ignore), "25");
        assert_eq!(config.subnets_to_ignore, ["10.0.0.0/8".parse().unwrap()]);
        let outbound = ["172.16.0.0/12", "fd00::/8"].map(|net| net.parse().unwrap());
        assert_eq!(config.outbound_subnets_to_ignore, outbound);
        let interfaces = ["net2", "tun+"].map(|name| Interface::parse(name).unwrap());
        assert_eq!(config.interfaces_to_ignore, interfaces);
        assert_eq!(config.proxy_uid.map(Id::get), Some(1000));
        assert_eq!(config.proxy_gid.map(Id::get), Some(1001));
    }

    #[test]
    fn the_pod_wins_over_its_namespace_key_by_key() {
        let pod = [(SKIP_OUTBOUND_PORTS, "")];
        let namespace = [
            (SKIP_OUTBOUND_PORTS, "garbage"),
            (SKIP_INBOUND_PORTS, "9000-9010"),
        ];
        let config = read(&pod, &namespace).unwrap();
        assert_eq!(list(&config.outbound_ports_to_ignore), "");
        assert_eq!(list(&config.inbound_ports_to_ignore), "4190,4191,9000-9010");
    }

    #[test]
    fn a_bad_value_names_annotation_object_and_item() {
        let error = read(&[], &[(SKIP_INBOUND_PORTS, "8081,80a")]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "annotation config.linkerd.io/skip-inbound-ports of namespace ns: \
             \"80a\" is not a port (0..=65535) or a range such as 8000-8010"
        );
    }

    #[test]
    fn line_ends_around_a_value_are_trimmed_and_those_inside_are_not() {
        for around in ["\n", "\r\n", "\n\n", " \t\r\n"] {
            let block = |value: &str| format!("{around}{value}{around}");
            for (key, value) in [
                (SKIP_INBOUND_PORTS, "8081, 9000-9010"),
                (SKIP_OUTBOUND_PORTS, "25"),
                (SKIP_SUBNETS, "10.0.0.0/8,fd00::/8"),
                (SKIP_OUTBOUND_SUBNETS, "10.0.0.0/8"),
                (SKIP_INTERFACES, "net2,tun+"),
                (PROXY_UID, "1000"),
                (PROXY_GID, "-1"),
                (SKIP_OUTBOUND_PORTS, ""),
            ] {
                let plain = read(&[(key, value)], &[]).unwrap();
                assert_eq!(read(&[(key, &block(value))], &[]).unwrap(), plain, "{key}");
            }
            for (key, value) in [
                (SKIP_INBOUND_PORTS, "8081,\n9000"),
                (SKIP_OUTBOUND_PORTS, "25\r\n587"),
                (SKIP_SUBNETS, "10.0.0.0/8\n,fd00::/8"),
                (SKIP_OUTBOUND_SUBNETS, "10.0.0.0/8,\r\nfd00::/8"),
                (SKIP_INTERFACES, "net2\nnet3"),
                (PROXY_UID, "1000\n0"),
            ] {
                assert!(read(&[(key, &block(value))], &[]).is_err(), "{key}");
            }
        }
    }

    #[test]
    fn hostile_values_are_errors() {
        let long = "80,".repeat(1 << 19);
        for (key, value) in [
            (SKIP_SUBNETS, "10.0.0.0/8 -j ACCEPT\nCOMMIT"),
            (SKIP_INBOUND_PORTS, "80\n-A OUTPUT -j ACCEPT"),
            (SKIP_OUTBOUND_PORTS, "80\" -j ACCEPT"),
            (SKIP_OUTBOUND_PORTS, "80\0"),
            (SKIP_INBOUND_PORTS, "٨٠"),
            (SKIP_INBOUND_PORTS, &long),
            (SKIP_OUTBOUND_SUBNETS, "10.0.0.0/8 -j ACCEPT\nCOMMIT"),
            (SKIP_INTERFACES, "net1 -j ACCEPT"),
            (SKIP_INTERFACES, "net1\n-A OUTPUT -j ACCEPT"),
            (SKIP_INTERFACES, "net1\" -j ACCEPT"),
            (SKIP_INTERFACES, "-t"),
            (SKIP_INTERFACES, "!net1"),
            (SKIP_INTERFACES, "+"),
            (SKIP_INTERFACES, &long),
            (PROXY_UID, "2102 -j ACCEPT"),
            (PROXY_UID, "+2102"),
            (PROXY_UID, "２１０２"),
            (PROXY_UID, ""),
            (PROXY_UID, "-"),
            (PROXY_UID, "2102\n2103"),
            (PROXY_GID, "4294967295"),
            (PROXY_GID, "99999999999999999999"),
        ] {
            assert!(read(&[(key, value)], &[]).is_err(), "{key}");
        }
    }

    #[test]
    fn line_ends_around_a_value_are_none_of_it() {
        let block = [
            (SKIP_OUTBOUND_PORTS, "25, 587\n"),
            (SKIP_SUBNETS, "\r\n10.0.0.0/8\r\n"),
            (PROXY_UID, "\n5\n"),
        ];
        let config = read(&block, &[]).unwrap();
        assert_eq!(list(&config.outbound_ports_to_ignore), "25,587");
        assert_eq!(config.subnets_to_ignore, ["10.0.0.0/8".parse().unwrap()]);
        assert_eq!(config.proxy_uid.map(Id::get), Some(5));
    }

    #[test]
    fn an_id_of_zero_or_less_takes_the_rule_away() {
        for value in ["0", "-1", " -5 "] {
            assert_eq!(read(&[(PROXY_UID, value)], &[]).unwrap().proxy_uid, None);
        }
    }

    #[test]
    fn ports_of_the_api_server_are_added_once() {
        let mut config = config();
        config.also_ignore_outbound([443, 3306, 6443].map(PortRange::single));
        assert_eq!(list(&config.outbound_ports_to_ignore), "3306,443,6443");
    }
}
