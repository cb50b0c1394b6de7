//! The ports on which the proxy of one pod listens, as linkerd's annotations say.

use crate::{
    annotation::{
        ADMIN_PORT, Annotated, AnnotationError, CONTROL_PORT, INBOUND_PORT, OUTBOUND_PORT,
    },
    config::Config,
    overrides::first,
    port::{Excerpt, Port, PortRange, trim},
};

/// What the proxy listens for on a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listener {
    /// The pod's inbound connections.
    Inbound,
    /// The pod's outbound connections.
    Outbound,
    /// Probes and metrics, which come to it directly.
    Admin,
    /// Taps, which come to it directly.
    Control,
}

/// Where the proxy listens, as far as somebody says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProxyPorts {
    /// For the pod's inbound connections.
    pub inbound: Option<Port>,
    /// For its outbound ones.
    pub outbound: Option<Port>,
    /// For probes and metrics.
    pub admin: Option<Port>,
    /// For taps.
    pub control: Option<Port>,
}

// === impl Listener ===

impl Listener {
    /// All four.
    pub const ALL: [Self; 4] = [Self::Inbound, Self::Outbound, Self::Admin, Self::Control];

    /// The annotation that says on which port.
    #[must_use]
    pub fn annotation(self) -> &'static str {
        match self {
            Self::Inbound => INBOUND_PORT,
            Self::Outbound => OUTBOUND_PORT,
            Self::Admin => ADMIN_PORT,
            Self::Control => CONTROL_PORT,
        }
    }

    /// What it is called in a sentence.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Inbound => "inbound",
            Self::Outbound => "outbound",
            Self::Admin => "admin",
            Self::Control => "control",
        }
    }

    /// What the annotation of `objects` says, which are in order of precedence.
    ///
    /// # Errors
    /// It is there and is no port.
    pub fn annotated(self, objects: &[Annotated<'_>]) -> Result<Option<Port>, AnnotationError> {
        first(objects, self.annotation(), port)
    }

    /// What the configuration says. It has no key for what must not be redirected: it lists these
    /// ports among those to ignore.
    #[must_use]
    pub fn configured(self, config: &Config) -> Option<Port> {
        match self {
            Self::Inbound => Some(config.incoming_proxy_port),
            Self::Outbound => Some(config.outgoing_proxy_port),
            Self::Admin | Self::Control => None,
        }
    }
}

// === impl ProxyPorts ===

impl ProxyPorts {
    /// What the annotations of `objects` say, which are in order of precedence.
    ///
    /// # Errors
    /// The first that is no port.
    pub fn annotated(objects: &[Annotated<'_>]) -> Result<Self, AnnotationError> {
        let mut ports = Self::default();
        for listener in Listener::ALL {
            *ports.of_mut(listener) = listener.annotated(objects)?;
        }
        Ok(ports)
    }

    /// The port of one listener.
    #[must_use]
    pub fn of(mut self, listener: Listener) -> Option<Port> {
        *self.of_mut(listener)
    }

    /// The port of one listener, to be set.
    pub fn of_mut(&mut self, listener: Listener) -> &mut Option<Port> {
        match listener {
            Listener::Inbound => &mut self.inbound,
            Listener::Outbound => &mut self.outbound,
            Listener::Admin => &mut self.admin,
            Listener::Control => &mut self.control,
        }
    }

    /// The configuration for a proxy that listens there: connections are led to the first two,
    /// and those to the others are left alone.
    #[must_use]
    pub fn apply(self, mut config: Config) -> Config {
        config.incoming_proxy_port = self.inbound.unwrap_or(config.incoming_proxy_port);
        config.outgoing_proxy_port = self.outbound.unwrap_or(config.outgoing_proxy_port);
        let ignored = &mut config.inbound_ports_to_ignore;
        for port in [self.control, self.admin].into_iter().flatten() {
            if !ignored.iter().any(|range| range.contains(port.get())) {
                ignored.push(PortRange::from(port));
            }
        }
        config
    }
}

fn port(text: &str) -> Result<Port, String> {
    let digits = trim(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number
        .then(|| digits.parse().ok())
        .flatten()
        .and_then(Port::new)
        .ok_or_else(|| format!("{} is not a port (1..=65535)", Excerpt::new(text)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::config::RawConfig;

    fn annotated(annotation: &str, value: &str) -> Result<ProxyPorts, AnnotationError> {
        let annotations = BTreeMap::from([(annotation.to_owned(), value.to_owned())]);
        ProxyPorts::annotated(&[Annotated {
            object: "pod ns/web",
            annotations: &annotations,
        }])
    }

    #[test]
    fn each_annotation_moves_its_own_listener() {
        for listener in Listener::ALL {
            let ports = annotated(listener.annotation(), " 5143\n").unwrap();
            for other in Listener::ALL {
                let expected = (other == listener).then_some(5143);
                assert_eq!(ports.of(other).map(Port::get), expected, "{listener:?}");
            }
        }
    }

    #[test]
    fn what_is_no_port_is_an_error() {
        for value in [
            "",
            "0",
            "65536",
            "-1",
            "+1",
            "4143-4144",
            "4143,4144",
            "x",
            "٤",
        ] {
            let error = annotated(INBOUND_PORT, value).unwrap_err().to_string();
            assert!(
                error.starts_with("annotation config.linkerd.io/inbound-port of pod ns/web: "),
                "{error}"
            );
        }
    }

    #[test]
    fn what_the_proxy_itself_listens_on_is_left_alone_once() {
        let raw = RawConfig::from_value(&json!({
            "incoming-proxy-port": 4143, "outgoing-proxy-port": 4140,
            "inbound-ports-to-ignore": ["4100-4190", "4191"],
        }));
        let config = Config::try_from(raw.unwrap()).unwrap();
        let port = |number| Port::new(number);
        let ports = ProxyPorts {
            inbound: port(5143),
            outbound: None,
            admin: port(5191),
            control: port(4190),
        };
        let config = ports.apply(config);
        assert_eq!(config.incoming_proxy_port.get(), 5143);
        assert_eq!(config.outgoing_proxy_port.get(), 4140);
        let ignored: Vec<String> = config
            .inbound_ports_to_ignore
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(ignored, ["4100-4190", "4191", "5191"]);
    }
}
