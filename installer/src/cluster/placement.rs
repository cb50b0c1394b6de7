//! Whether a DaemonSet is still meant for a node, as its controller decides it.

use std::collections::BTreeMap;

use k8s_openapi::api::{
    apps::v1::DaemonSet,
    core::v1::{Node, NodeSelectorRequirement, NodeSelectorTerm, PodSpec, Taint, Toleration},
};

/// Whether the next pod of this DaemonSet would be placed on this node: node
/// selector, required node affinity, and taints against tolerations. The startup
/// taint says how the node is, not what it is for, and so does not count.
#[must_use]
pub fn is_meant(daemonset: &DaemonSet, node: &Node, startup_taint: Option<&str>) -> bool {
    let Some(pod) = daemonset.spec.template.spec.as_ref() else {
        return true;
    };
    selects(pod, node) && tolerates(pod, node, startup_taint)
}

fn selects(pod: &PodSpec, node: &Node) -> bool {
    let none = BTreeMap::new();
    let labels = node.metadata.labels.as_ref().unwrap_or(&none);
    let selected = pod
        .node_selector
        .iter()
        .flatten()
        .all(|(key, value)| labels.get(key) == Some(value));
    let required = pod
        .affinity
        .as_ref()
        .and_then(|a| a.node_affinity.as_ref())
        .and_then(|a| {
            a.required_during_scheduling_ignored_during_execution
                .as_ref()
        });
    let name = node.metadata.name.as_deref().unwrap_or_default();
    selected
        && required.is_none_or(|r| {
            r.node_selector_terms
                .iter()
                .any(|term| matches(term, labels, name))
        })
}

/// A term without any expression selects nothing.
fn matches(term: &NodeSelectorTerm, labels: &BTreeMap<String, String>, name: &str) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    let field = |r: &NodeSelectorRequirement| (r.key == "metadata.name").then_some(name);
    !(expressions.is_empty() && fields.is_empty())
        && expressions
            .iter()
            .all(|r| holds(r, labels.get(&r.key).map(String::as_str)))
        && fields.iter().all(|r| holds(r, field(r)))
}

fn holds(requirement: &NodeSelectorRequirement, label: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let listed = label.is_some_and(|label| values.iter().any(|v| v == label));
    let number = |text: &str| text.parse::<i64>().ok();
    let bound = values.first().and_then(|v| number(v));
    let value = label.and_then(number);
    match requirement.operator.as_str() {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => label.is_some(),
        "DoesNotExist" => label.is_none(),
        "Gt" => value.zip(bound).is_some_and(|(v, b)| v > b),
        "Lt" => value.zip(bound).is_some_and(|(v, b)| v < b),
        // An operator of a later version: not a reason to take the mesh away.
        _ => true,
    }
}

fn tolerates(pod: &PodSpec, node: &Node, startup_taint: Option<&str>) -> bool {
    let taints = node
        .spec
        .as_ref()
        .and_then(|spec| spec.taints.as_deref())
        .unwrap_or_default();
    let tolerations = pod.tolerations.as_deref().unwrap_or_default();
    taints
        .iter()
        .filter(|taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute"))
        // The controller adds tolerations for these: they say how the node is,
        // not what it is for.
        .filter(|taint| !taint.key.starts_with("node.kubernetes.io/"))
        .filter(|taint| startup_taint != Some(taint.key.as_str()))
        .all(|taint| tolerations.iter().any(|t| covers(t, taint)))
}

fn covers(toleration: &Toleration, taint: &Taint) -> bool {
    let empty_or = |wanted: &Option<String>, text: &str| {
        wanted.as_deref().is_none_or(|w| w.is_empty() || w == text)
    };
    let exists = toleration.operator.as_deref() == Some("Exists");
    let value = toleration.value.as_deref().unwrap_or_default();
    empty_or(&toleration.effect, &taint.effect)
        && empty_or(&toleration.key, &taint.key)
        && (exists || value == taint.value.as_deref().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn meant(pod: &Value, node: &Value) -> bool {
        let daemonset =
            json!({"metadata": {}, "spec": {"selector": {}, "template": {"spec": pod}}});
        let mut pod = daemonset;
        if pod["spec"]["template"]["spec"]["containers"].is_null() {
            pod["spec"]["template"]["spec"]["containers"] = json!([]);
        }
        is_meant(
            &serde_json::from_value(pod).unwrap(),
            &serde_json::from_value(node.clone()).unwrap(),
            Some("linkerd.io/cni-not-ready"),
        )
    }

    #[test]
    fn a_node_is_selected_by_labels() {
        let node = json!({"metadata": {"name": "n1", "labels": {"os": "linux", "cpus": "8"}}});
        assert!(meant(&json!({}), &node));
        assert!(meant(&json!({"nodeSelector": {"os": "linux"}}), &node));
        assert!(!meant(
            &json!({"nodeSelector": {"os": "linux", "gpu": "yes"}}),
            &node
        ));
    }

    #[test]
    fn a_node_is_selected_by_required_affinity() {
        let node = json!({"metadata": {"name": "n1", "labels": {"os": "linux", "cpus": "8"}}});
        for (operator, key, values, expected) in [
            ("In", "os", json!(["linux", "bsd"]), true),
            ("In", "zone", json!(["a"]), false),
            ("NotIn", "os", json!(["linux"]), false),
            ("NotIn", "zone", json!(["a"]), true),
            ("Exists", "os", json!([]), true),
            ("DoesNotExist", "os", json!([]), false),
            ("Gt", "cpus", json!(["4"]), true),
            ("Lt", "cpus", json!(["4"]), false),
        ] {
            let affinity = |list: &str, key: &str| {
                json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                {"nodeSelectorTerms": [{}, {list: [{"key": key, "operator": operator, "values": values}]}]}}}})
            };
            assert_eq!(
                meant(&affinity("matchExpressions", key), &node),
                expected,
                "{operator} {key}"
            );
        }
        let field = json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}]}}}});
        assert!(!meant(&field, &node));
    }

    #[test]
    fn a_taint_keeps_off_what_does_not_tolerate_it() {
        let node = |key: &str, effect: &str| json!({"metadata": {"name": "n1"}, "spec": {"taints": [{"key": key, "value": "v", "effect": effect}]}});
        assert!(!meant(&json!({}), &node("dedicated", "NoSchedule")));
        assert!(meant(&json!({}), &node("dedicated", "PreferNoSchedule")));
        assert!(meant(
            &json!({}),
            &node("node.kubernetes.io/unschedulable", "NoSchedule")
        ));
        assert!(meant(
            &json!({}),
            &node("linkerd.io/cni-not-ready", "NoSchedule")
        ));
        for (toleration, expected) in [
            (json!({"operator": "Exists"}), true),
            (
                json!({"key": "dedicated", "operator": "Exists", "effect": "NoExecute"}),
                true,
            ),
            (json!({"key": "dedicated", "value": "v"}), true),
            (json!({"key": "dedicated", "value": "w"}), false),
            (json!({"key": "other", "operator": "Exists"}), false),
            (json!({"operator": "Exists", "effect": "NoSchedule"}), false),
        ] {
            assert_eq!(
                meant(
                    &json!({"tolerations": [toleration]}),
                    &node("dedicated", "NoExecute")
                ),
                expected,
                "{toleration}"
            );
        }
    }
}
