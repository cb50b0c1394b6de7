//! API objects, as far as they are looked at.

use std::collections::BTreeMap;

use proxy_init_rules::PortRange;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A pod.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Pod {
    #[serde(default)]
    pub metadata: Metadata,
    #[serde(default)]
    pub spec: PodSpec,
}

/// A namespace.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Namespace {
    #[serde(default)]
    pub metadata: Metadata,
}

#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Metadata {
    #[serde(default)]
    pub uid: String,
    #[serde(default, deserialize_with = "null_is_empty")]
    pub annotations: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "null_is_empty")]
    pub labels: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PodSpec {
    #[serde(default, deserialize_with = "null_is_empty")]
    pub containers: Vec<Container>,
    #[serde(default, deserialize_with = "null_is_empty")]
    pub init_containers: Vec<Container>,
    /// Added to a pod that runs already; there is none yet when it starts.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub ephemeral_containers: Vec<Container>,
    #[serde(default, deserialize_with = "null_is_empty")]
    pub security_context: PodSecurityContext,
    pub runtime_class_name: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Container {
    pub name: String,
    #[serde(default, deserialize_with = "null_is_empty")]
    pub security_context: SecurityContext,
    #[serde(default, deserialize_with = "null_is_empty")]
    pub env: Vec<EnvVar>,
}

/// An environment variable; without a value where it comes from elsewhere (`valueFrom`).
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct EnvVar {
    pub name: String,
    pub value: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SecurityContext {
    pub run_as_user: Option<i64>,
    pub run_as_group: Option<i64>,
}

/// What holds for each container that does not say otherwise, and groups that all of them have.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PodSecurityContext {
    pub run_as_user: Option<i64>,
    pub run_as_group: Option<i64>,
    pub fs_group: Option<i64>,
    #[serde(default, deserialize_with = "null_is_empty")]
    pub supplemental_groups: Vec<i64>,
}

#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct Service {
    #[serde(default)]
    spec: ServiceSpec,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct ServiceSpec {
    #[serde(default, deserialize_with = "null_is_empty")]
    ports: Vec<ServicePort>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ServicePort {
    port: Value,
    /// A number, or the name of a container's port, which is of no use here.
    target_port: Value,
}

/// The `metav1.Status` that comes with a refusal.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Status {
    pub(super) kind: String,
    pub(super) message: String,
}

/// What every object says of itself.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Identity {
    pub(super) kind: String,
}

impl PodSpec {
    /// All containers, of whatever kind.
    pub(crate) fn all_containers(&self) -> impl Iterator<Item = &Container> {
        let kinds = [
            &self.containers,
            &self.init_containers,
            &self.ephemeral_containers,
        ];
        kinds.into_iter().flatten()
    }
}

impl Service {
    /// Its ports and numeric target ports.
    pub(super) fn ports(&self) -> Vec<PortRange> {
        let values = self
            .spec
            .ports
            .iter()
            .flat_map(|port| [&port.port, &port.target_port]);
        let numbers = values
            .filter_map(Value::as_u64)
            .filter_map(|port| u16::try_from(port).ok());
        numbers
            .filter(|port| *port != 0)
            .map(PortRange::single)
            .collect()
    }
}

fn null_is_empty<'de, T: Default + Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}
