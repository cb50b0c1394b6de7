//! The one change that is asked of the API server: our own node with or without a taint.

use http::{Method, Request, header::CONTENT_TYPE};
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client, api::GetParams};
use serde_json::{Value, json};

use super::{PATIENCE, client, wait, with_causes};
use crate::settings::Settings;

/// How often the node is read again because it changed meanwhile.
const ROUNDS: usize = 5;

/// Who the change is put down to.
const MANAGER: &str = "linkerd-cni-installer";

/// What keeps new pods away and lets the running ones run.
const EFFECT: &str = "NoSchedule";

/// How the node should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Without any taint of the key.
    Absent,
    /// With one that keeps new pods away.
    Present,
}

/// How the node is read the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// As it is.
    Latest,
    /// As the API server remembers it, perhaps of a moment ago: that costs its store nothing.
    Remembered,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tainted {
    /// It is gone.
    Removed,
    /// It is there.
    Set,
    /// The node was as it should be.
    Unchanged,
}

/// Why the node is not as it should be, or may not be.
#[derive(Debug, thiserror::Error)]
pub enum TaintError {
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

/// Removes every taint with this key from our own node, or sets one; nothing else is changed.
/// Takes three seconds at most.
///
/// # Errors
///
/// Why the node is not so, or may not be.
pub fn taint(
    settings: &Settings,
    key: &str,
    wanted: Wanted,
    freshness: Freshness,
) -> Result<Tainted, TaintError> {
    wait(PATIENCE, settle(settings, key, wanted, freshness)).map_err(TaintError::Unknown)?
}

async fn settle(
    settings: &Settings,
    key: &str,
    wanted: Wanted,
    freshness: Freshness,
) -> Result<Tainted, TaintError> {
    let client = client(settings).map_err(|e| TaintError::Unknown(with_causes(&e, settings)))?;
    let mut params = match freshness {
        Freshness::Latest => GetParams::default(),
        Freshness::Remembered => GetParams::at("0"),
    };
    let mut changed = false;
    for _ in 0..ROUNDS {
        let nodes = Api::<Node>::all(client.clone());
        let node = nodes.get_with(&settings.node_name, &params).await;
        let node = node.map_err(|error| refused(error, "get", settings))?;
        let Some(patch) = patch(&node, key, wanted) else {
            return Ok(if changed {
                done(wanted)
            } else {
                Tainted::Unchanged
            });
        };
        match send(&client, settings, &patch).await? {
            // A taint that came between has another place in the list.
            Some(node) if self::patch(&node, key, wanted).is_none() => return Ok(done(wanted)),
            answer => changed |= answer.is_some(),
        }
        // What is remembered is what was refused just now.
        params = GetParams::default();
    }
    Err(TaintError::Conflict)
}

fn done(wanted: Wanted) -> Tainted {
    match wanted {
        Wanted::Absent => Tainted::Removed,
        Wanted::Present => Tainted::Set,
    }
}

/// The node as patched; none if it has changed between reading and writing.
async fn send(
    client: &Client,
    settings: &Settings,
    patch: &Value,
) -> Result<Option<Node>, TaintError> {
    let name = &settings.node_name;
    let request = Request::builder()
        .method(Method::PATCH)
        .uri(format!("/api/v1/nodes/{name}?fieldManager={MANAGER}"))
        .header(CONTENT_TYPE, "application/json-patch+json")
        .body(patch.to_string().into_bytes())
        .map_err(|error| TaintError::Unknown(error.to_string()))?;
    match client.request::<Node>(request).await {
        Ok(node) => Ok(Some(node)),
        Err(kube::Error::Api(status)) if matches!(status.code, 409 | 422) => Ok(None),
        Err(error) => Err(refused(error, "patch", settings)),
    }
}

fn refused(error: kube::Error, verb: &'static str, settings: &Settings) -> TaintError {
    match error {
        kube::Error::Api(status) if status.code == 403 => TaintError::Forbidden { verb },
        error => TaintError::Unknown(with_causes(&error.into(), settings)),
    }
}

/// The JSON patch by which the node becomes as wanted; none if it is so.
fn patch(node: &Node, key: &str, wanted: Wanted) -> Option<Value> {
    match wanted {
        Wanted::Absent => removal(node, key),
        Wanted::Present => addition(node, key),
    }
}

/// Takes out the taints with this key, from the last to the first so that each has the place that
/// was read. Each is tested at that place, by its key alone: if the list has changed meanwhile, the
/// API server refuses the whole, and no other taint is lost.
fn removal(node: &Node, key: &str) -> Option<Value> {
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

/// Appends a taint with this key. A second one of the same key and effect the API server refuses.
/// A list that is made anew would take the place of one that came between: then the node has to be
/// the version that was read.
fn addition(node: &Node, key: &str) -> Option<Value> {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref());
    let keeps_away = |effect: &str| matches!(effect, EFFECT | "NoExecute");
    let mut there = taints.unwrap_or_default().iter();
    if there.any(|t| t.key == key && keeps_away(&t.effect)) {
        return None;
    }
    let taint = json!({"key": key, "effect": EFFECT});
    Some(if taints.is_some() {
        json!([{"op": "add", "path": "/spec/taints/-", "value": taint}])
    } else {
        let version = &node.metadata.resource_version;
        json!([
            {"op": "test", "path": "/metadata/resourceVersion", "value": version},
            {"op": "add", "path": "/spec/taints", "value": [taint]},
        ])
    })
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
            assert_eq!(removal(&node, KEY), None);
        }
    }

    #[test]
    fn each_is_tested_and_removed_from_the_last_to_the_first() {
        let steps = removal(&node(&["a", KEY, "b", KEY]), KEY).unwrap();
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

    #[test]
    fn one_is_set_unless_there_is_one_that_keeps_pods_away() {
        assert_eq!(addition(&node(&["a", KEY]), KEY), None);
        let steps = addition(&node(&["a"]), KEY).unwrap();
        let taint = json!({"key": KEY, "effect": "NoSchedule"});
        let expected = json!([{"op": "add", "path": "/spec/taints/-", "value": taint}]);
        assert_eq!(steps, expected);
        let mut soft = node(&[KEY]);
        let taints = soft.spec.as_mut().unwrap().taints.as_mut().unwrap();
        taints[0].effect = "PreferNoSchedule".to_owned();
        assert_eq!(addition(&soft, KEY), Some(expected));
    }

    #[test]
    fn a_list_that_is_made_anew_is_for_the_version_that_was_read() {
        let bare: Node =
            serde_json::from_value(json!({"metadata": {"resourceVersion": "7"}, "spec": {}}))
                .unwrap();
        let steps = addition(&bare, KEY).unwrap();
        assert_eq!(
            steps,
            json!([
                {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
                {"op": "add", "path": "/spec/taints", "value": [{"key": KEY, "effect": "NoSchedule"}]},
            ])
        );
    }
}
