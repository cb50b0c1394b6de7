//! How much one ADD costs others: requests to the API server, processes.

use linkerd_cni_integration::stage::Stage;
use serde_json::json;

const CACHE: &str = "?resourceVersion=0";

#[test]
fn an_unmeshed_pod_costs_one_request() {
    let targets = requests_of(&Stage::new("unmeshed"));
    assert_eq!(
        targets,
        [cached("/api/v1/namespaces/emojivoto/pods/web-plain")]
    );
}

#[test]
fn a_meshed_pod_costs_two_requests() {
    let targets = requests_of(&Stage::new("meshed"));
    let expected = [
        cached("/api/v1/namespaces/emojivoto/pods/web-meshed"),
        cached("/api/v1/namespaces/emojivoto"),
    ];
    assert_eq!(targets, expected);
}

#[test]
fn a_pod_with_all_five_annotations_costs_one_request() {
    let stage = Stage::new("annotated")
        .annotate("config.linkerd.io/proxy-uid", "2102")
        .annotate("config.linkerd.io/proxy-gid", "2102");
    assert_eq!(requests_of(&stage).len(), 1);
}

#[test]
fn a_control_plane_pod_costs_three_requests() {
    let targets = requests_of(&Stage::new("control-plane"));
    assert_eq!(targets.len(), 3, "{targets:#?}");
    assert!(targets.contains(&cached("/api/v1/namespaces/default/services/kubernetes")));
}

#[test]
fn add_on_a_fresh_namespace_starts_one_process_per_family() {
    for (mode, infix) in [("nft", "-nft"), ("legacy", "-legacy"), ("plain", "")] {
        let stage = Stage::new("meshed").linkerd("iptables-mode", mode);
        let programs = programs_of_add(&stage);
        let expected = [
            format!("iptables{infix}-restore"),
            format!("ip6tables{infix}-restore"),
        ];
        assert_eq!(programs, expected, "{mode}");
    }
}

#[test]
fn add_without_ipv6_starts_one_process() {
    let stage = Stage::new("meshed").linkerd("ipv6", false);
    assert_eq!(programs_of_add(&stage), ["iptables-nft-restore"]);
}

#[test]
fn add_on_a_namespace_with_our_chains_starts_three_processes_per_family() {
    let stage = Stage::new("meshed").linkerd("ipv6", false);
    stage.add().succeed();
    let programs = programs_of_add(&stage);
    let expected = [
        "iptables-nft-restore",
        "iptables-nft-save",
        "iptables-nft-restore",
    ];
    assert_eq!(programs, expected);
}

#[test]
fn add_for_what_is_not_redirected_starts_no_process() {
    let excluded = json!({"kubeconfig": "/nowhere", "exclude-namespaces": ["emojivoto"]});
    for stage in [
        Stage::new("unmeshed"),
        Stage::new("init-container"),
        Stage::new("meshed").top("kubernetes", excluded),
    ] {
        assert!(programs_of_add(&stage).is_empty());
    }
}

/// Targets of the requests of one ADD; all must be reads over one connection.
fn requests_of(stage: &Stage) -> Vec<String> {
    stage.add().succeed();
    assert_eq!(stage.api.connections(), 1);
    let requests = stage.api.requests();
    assert!(
        requests.iter().all(|request| request.method == "GET"),
        "{requests:#?}"
    );
    requests.into_iter().map(|request| request.target).collect()
}

fn programs_of_add(stage: &Stage) -> Vec<String> {
    let traced = stage.add().trace(None);
    assert_eq!(traced.exit, Some(0), "{traced:#?}");
    let programs = traced.executed.iter().map(|words| {
        let name = words[0].rsplit('/').next();
        name.unwrap_or_default().to_owned()
    });
    programs.collect()
}

fn cached(path: &str) -> String {
    format!("{path}{CACHE}")
}
