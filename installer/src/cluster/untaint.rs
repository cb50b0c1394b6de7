//! The one change that is asked of the API server: our own node without a taint.

use http::{Method, Request, header::CONTENT_TYPE};
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client};
use serde_json::{Value, json};

use super::{AskError, PATIENCE, config, wait, with_causes};
use crate::{desired, settings::Settings};

/// How often the node is read again because it changed meanwhile.
const ROUNDS: usize = 5;

/// Who the change is put down to.
const MANAGER: &str = "linkerd-cni-installer";

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Untainted {
    /// It is gone.
    Removed,
    /// It was not there.
    Absent,
}

/// Why it is still there.
#[derive(Debug, thiserror::Error)]
pub enum UntaintError {
    /// 403.
    #[error(
        "the API server does not let us {verb} nodes (403): the installer's ClusterRole needs verbs get and patch for nodes"
    )]
    Forbidden {
        /// `get` or `patch`.
        verb: &'static str,
    },
    /// The node changed again and again.
    #[error("others keep changing the node")]
    Conflict,
    /// No answer, or another one.
    #[error("{0}")]
    Unknown(String),
}

enum Attempt {
    Done(Untainted),
    /// It changed between reading and writing.
    Again,
}

/// Removes every taint with this key from our own node, and nothing else. Bounded in time.
///
/// # Errors
///
/// Why the node has it still, or may have.
pub fn untaint(settings: &Settings, key: &str) -> Result<Untainted, UntaintError> {
    for _ in 0..ROUNDS {
        match wait(PATIENCE, attempt(settings, key)).map_err(UntaintError::Unknown)?? {
            Attempt::Done(done) => return Ok(done),
            Attempt::Again => {}
        }
    }
    Err(UntaintError::Conflict)
}

async fn attempt(settings: &Settings, key: &str) -> Result<Attempt, UntaintError> {
    let name = &settings.node_name;
    let unknown = |error: AskError| UntaintError::Unknown(with_causes(&error));
    let client = client(settings).map_err(unknown)?;
    let nodes = Api::<Node>::all(client.clone());
    let node = match nodes.get(name).await {
        Ok(node) => node,
        Err(error) => return Err(refused(error, "get")),
    };
    let Some(patch) = patch(&node, key) else {
        return Ok(Attempt::Done(Untainted::Absent));
    };
    let request = Request::builder()
        .method(Method::PATCH)
        .uri(format!("/api/v1/nodes/{name}?fieldManager={MANAGER}"))
        .header(CONTENT_TYPE, "application/json-patch+json")
        .body(patch.to_string().into_bytes())
        .map_err(|error| UntaintError::Unknown(error.to_string()))?;
    match client.request::<Node>(request).await {
        // A taint that came between has another place in the list.
        Ok(node) if self::patch(&node, key).is_some() => Ok(Attempt::Again),
        Ok(_) => Ok(Attempt::Done(Untainted::Removed)),
        Err(kube::Error::Api(status)) if matches!(status.code, 409 | 422) => Ok(Attempt::Again),
        Err(error) => Err(refused(error, "patch")),
    }
}

fn client(settings: &Settings) -> Result<Client, AskError> {
    let namespace = desired::namespace(settings)?;
    Ok(Client::try_from(config(settings, &namespace)?)?)
}

fn refused(error: kube::Error, verb: &'static str) -> UntaintError {
    match error {
        kube::Error::Api(status) if status.code == 403 => UntaintError::Forbidden { verb },
        error => UntaintError::Unknown(with_causes(&error.into())),
    }
}

/// A JSON patch that takes out the taints with this key, from the last to the first so that each
/// has the place that was read. Each is tested at that place, by its key alone: if the list has
/// changed meanwhile, the API server refuses the whole, and no other taint is lost.
fn patch(node: &Node, key: &str) -> Option<Value> {
    let taints = node.spec.as_ref()?.taints.as_deref()?;
    let ours = taints.iter().enumerate().filter(|(_, t)| t.key == key);
    let steps: Vec<Value> = ours
        .rev()
        .flat_map(|(at, _)| {
            let path = format!("/spec/taints/{at}");
            [
                json!({"op": "test", "path": format!("{path}/key"), "value": key}),
                json!({"op": "remove", "path": path}),
            ]
        })
        .collect();
    (!steps.is_empty()).then_some(Value::Array(steps))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "linkerd.io/cni-not-ready";

    fn node(keys: &[&str]) -> Node {
        let taint = |key: &&str| json!({"key": key, "effect": "NoSchedule"});
        let taints: Vec<_> = keys.iter().map(taint).collect();
        serde_json::from_value(json!({"metadata": {}, "spec": {"taints": taints}})).unwrap()
    }

    #[test]
    fn a_node_without_the_taint_is_not_patched() {
        for node in [Node::default(), node(&[]), node(&["a", "linkerd.io/cni"])] {
            assert_eq!(patch(&node, KEY), None);
        }
    }

    #[test]
    fn each_is_tested_and_removed_from_the_last_to_the_first() {
        let steps = patch(&node(&["a", KEY, "b", KEY]), KEY).unwrap();
        assert_eq!(
            steps,
            json!([
                {"op": "test", "path": "/spec/taints/3/key", "value": KEY},
                {"op": "remove", "path": "/spec/taints/3"},
                {"op": "test", "path": "/spec/taints/1/key", "value": KEY},
                {"op": "remove", "path": "/spec/taints/1"},
            ])
        );
    }
}
