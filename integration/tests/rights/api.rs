//! What the plugin asks the API server for.

use std::collections::BTreeSet;

use linkerd_cni_integration::fixtures;
use linkerd_cni_integration::stage::Stage;

const PODS: [&str; 8] = [
    "annotated",
    "control-plane",
    "custom-uid",
    "init-container",
    "meshed",
    "native-sidecar",
    "shared-uid",
    "unmeshed",
];

#[test]
fn it_reads_its_pod_its_namespace_and_one_service_and_nothing_else() {
    let mut used = BTreeSet::new();
    for name in PODS {
        let stage = Stage::new(name);
        // CHECK asks only where there is no record.
        for verb in ["CHECK", "ADD", "CHECK", "STATUS", "GC", "DEL", "DEL"] {
            // A meshed pod without rules does not pass.
            stage.call(verb).run();
        }
        let pod = &fixtures::pod(name)["metadata"];
        let text = |key: &str| pod[key].as_str().unwrap_or_default();
        let (namespace, pod) = (text("namespace"), text("name"));
        let allowed = [
            ("pods", format!("/api/v1/namespaces/{namespace}/pods/{pod}")),
            ("namespaces", format!("/api/v1/namespaces/{namespace}")),
            (
                "services",
                "/api/v1/namespaces/default/services/kubernetes".to_owned(),
            ),
        ];
        for request in stage.api.requests() {
            let path = request.target.split('?').next().unwrap_or_default();
            let right = allowed.iter().find(|(_, allowed)| allowed == path);
            let (resource, _) = right.unwrap_or_else(|| panic!("{name}: {request:?}"));
            assert_eq!(request.method, "GET", "{name}: {request:?}");
            used.insert(*resource);
        }
    }
    assert_eq!(Vec::from_iter(used), ["namespaces", "pods", "services"]);
}
