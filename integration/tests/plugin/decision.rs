//! Which pods are redirected, and which are passed on without a question.

use std::fs;
use std::sync::Arc;

use linkerd_cni_integration::api_server::Fault;
use linkerd_cni_integration::fixtures;
use linkerd_cni_integration::netns::Netns;
use linkerd_cni_integration::plugin::Output;
use linkerd_cni_integration::rules;
use linkerd_cni_integration::stage::Stage;
use serde_json::json;

#[test]
fn a_pod_with_a_proxy_is_redirected() {
    for pod in [
        "meshed",
        "annotated",
        "native-sidecar",
        "control-plane",
        "user-namespace",
    ] {
        let stage = Stage::new(pod);
        stage.add().succeed();
        assert!(!rules::effective(&stage.netns).is_empty(), "{pod}");
    }
}

#[test]
fn a_pod_without_a_proxy_is_left_alone() {
    let stage = Stage::new("unmeshed");
    let before = rules::everything(&stage.netns);
    stage.add().succeed();
    assert_eq!(before, rules::everything(&stage.netns));
}

#[test]
fn a_pod_whose_init_container_redirects_is_left_alone() {
    let stage = Stage::new("init-container");
    let before = rules::everything(&stage.netns);
    stage.add().succeed().logs(&["linkerd-init"]);
    assert_eq!(before, rules::everything(&stage.netns));
}

#[test]
fn what_is_not_kubernetes_is_passed_on_unasked() {
    let stage = Stage::new("meshed");
    for args in [
        "",
        "IgnoreUnknown=1",
        "K8S_POD_NAME=web",
        "K8S_POD_NAMESPACE=emojivoto",
    ] {
        passes_on_unasked(&stage, &stage.add().args(args).succeed());
    }
    passes_on_unasked(&stage, &stage.add().without("CNI_ARGS").succeed());
}

#[test]
fn a_container_that_can_be_no_pod_is_passed_on_unasked_with_a_warning() {
    // Podman up to 3 gives its container's name as both, and a made-up one has an underscore.
    for (namespace, name) in [
        ("nifty_pasteur", "nifty_pasteur"),
        ("Web", "Web"),
        ("web.example.org", "web.example.org"),
        ("emojivoto", "web_meshed"),
        (
            "emojivoto",
            "../../../api/v1/namespaces/emojivoto/pods/web-meshed",
        ),
        ("emojivoto", "web-meshed?x="),
    ] {
        let stage = Stage::new("meshed");
        let call = |verb| stage.call(verb).pod(namespace, name);
        let output = call("ADD").succeed();
        passes_on_unasked(&stage, &output);
        output.logs(&["WARN", &format!("{name:?}"), "podman"]);
        let record = fs::read_to_string(stage.record("eth0")).expect("there is a record");
        assert!(record.contains("not-kubernetes"), "{record}");
        assert!(!record.contains(name), "it is no pod's: {record}");
        call("CHECK").succeed();
        call("DEL").succeed();
        assert!(!stage.record("eth0").exists());
        // And one that started before this plugin was chained.
        call("CHECK").succeed();
        assert!(stage.api.requests().is_empty(), "{namespace}/{name}");
    }
}

#[test]
fn white_space_around_a_name_hides_no_pod() {
    for args in [
        "K8S_POD_NAMESPACE=emojivoto;K8S_POD_NAME=web-meshed\n",
        " K8S_POD_NAMESPACE = emojivoto ;\n K8S_POD_NAME = web-meshed ",
    ] {
        let stage = Stage::new("meshed");
        stage.add().args(args).succeed();
        assert!(!rules::effective(&stage.netns).is_empty(), "{args:?}");
    }
}

#[test]
fn a_pod_that_is_not_found_and_may_be_a_container_of_podman_is_asked_about() {
    let stage = Stage::new("meshed");
    let both = "IgnoreUnknown=1;K8S_POD_NAMESPACE=web;K8S_POD_NAME=web";
    let output = stage.add().args(both).fail(11);
    output.says(&["404", "podman 3 or older", "network_config_dir"]);
    // The runtimes of Kubernetes give a uid, or names that differ.
    for args in [
        &format!("{both};K8S_POD_UID=3f6f2a0e-0000-4000-8000-00262f932b75"),
        "K8S_POD_NAMESPACE=web;K8S_POD_NAME=web-0",
    ] {
        let output = stage.add().args(args).fail(11);
        assert!(!output.stdout.contains("podman"), "{output:#?}");
    }
    assert!(rules::effective(&stage.netns).is_empty());
}

#[test]
fn a_pod_that_is_called_like_its_namespace_is_a_pod() {
    let mut pod = fixtures::pod("meshed");
    pod["metadata"]["namespace"] = json!("web");
    pod["metadata"]["name"] = json!("web");
    let stage = Stage::in_namespace(pod, &Arc::new(Netns::new()));
    let mut namespace = fixtures::pod("namespace");
    namespace["metadata"]["name"] = json!("web");
    stage.api.put(namespace);
    stage.add().succeed();
    assert!(!rules::effective(&stage.netns).is_empty());
}

#[test]
fn the_installers_own_pod_starts_without_api_server_kubeconfig_or_valid_configuration() {
    let own = json!({"namespace": "linkerd-cni", "daemonset": "linkerd-cni"});
    let stage = Stage::new("meshed").top("linkerd", json!({"incoming-proxy-port": "broken"}));
    let kubeconfig = "/nowhere/kubeconfig";
    let stage = stage.top(
        "kubernetes",
        json!({"kubeconfig": kubeconfig, "installer": own}),
    );
    let output = stage
        .add()
        .pod("linkerd-cni", "linkerd-cni-hznp2")
        .succeed();
    passes_on_unasked(&stage, &output);
}

#[test]
fn other_pods_of_the_installers_namespace_are_asked_for() {
    let own = json!({"namespace": "emojivoto", "daemonset": "linkerd-cni"});
    let mut stage = Stage::new("meshed");
    stage.config["kubernetes"]["installer"] = own;
    stage.add().succeed();
    assert!(!rules::effective(&stage.netns).is_empty());
    // Not the DaemonSet's form: a dash and five characters.
    for name in [
        "linkerd-cni",
        "linkerd-cni-abc",
        "linkerd-cni-abcdef",
        "linkerd-cni-x-abcde",
    ] {
        stage.add().pod("emojivoto", name).fail(11).says(&[name]);
    }
}

#[test]
fn an_excluded_namespace_is_passed_on_unasked() {
    let excluded = json!({
        "kubeconfig": "/nowhere/kubeconfig",
        "exclude-namespaces": ["kube-system", "emojivoto"],
    });
    let stage = Stage::new("meshed").top("kubernetes", excluded);
    passes_on_unasked(&stage, &stage.add().succeed());
    stage.add().pod("default", "web-meshed").fail(11);
}

#[test]
fn a_namesake_in_the_servers_cache_is_not_taken_for_the_pod() {
    // A StatefulSet's pod that has just been replaced.
    let stage = Stage::new("meshed");
    let mut old = fixtures::pod("unmeshed");
    old["metadata"]["name"] = json!("web-meshed");
    let cached = "pods/web-meshed?resourceVersion=0";
    stage.api.misbehave_on(cached, Fault::Json(old.to_string()));
    let add = stage
        .add()
        .args(&args_with_uid("3f6f2a0e-0000-4000-8000-00262f932b75"));
    add.succeed();
    assert!(!rules::effective(&stage.netns).is_empty());
    assert_eq!(stage.api.requests().len(), 3, "{:#?}", stage.api.requests());
}

#[test]
fn a_static_pod_is_known_by_the_hash_that_the_runtime_calls_its_uid() {
    let hash = "0123456789abcdef0123456789abcdef";
    let stage = Stage::new("meshed").annotate("kubernetes.io/config.hash", hash);
    let output = stage.add().args(&args_with_uid(hash)).succeed();
    assert!(!output.stderr.contains("WARN"), "{}", output.stderr);
    assert_eq!(stage.api.requests().len(), 2);
}

#[test]
fn a_pod_whose_uid_stays_another_is_served_with_a_warning() {
    let stage = Stage::new("meshed");
    let add = stage
        .add()
        .args(&args_with_uid("00000000-0000-4000-8000-000000000000"));
    add.succeed().logs(&["WARN", "uid"]);
    assert!(!rules::effective(&stage.netns).is_empty());
}

#[test]
fn the_right_uid_costs_no_request() {
    let stage = Stage::new("meshed");
    let add = stage
        .add()
        .args(&args_with_uid("3f6f2a0e-0000-4000-8000-00262f932b75"));
    add.succeed();
    assert_eq!(stage.api.requests().len(), 2);
}

#[test]
fn simulate_logs_the_rules_and_runs_nothing() {
    let stage = Stage::new("meshed").linkerd("simulate", true);
    let before = rules::everything(&stage.netns);
    let traced = stage.add().trace(None);
    assert_eq!(traced.exit, Some(0), "{traced:#?}");
    assert_eq!(traced.executed, Vec::<Vec<String>>::new());
    for rule in ["-j REDIRECT --to-ports 4143", "-j REDIRECT --to-ports 4140"] {
        assert!(traced.stderr.contains(rule), "{}", traced.stderr);
    }
    assert_eq!(before, rules::everything(&stage.netns));
}

#[test]
fn the_decision_is_one_line_of_the_log() {
    let stage = Stage::new("meshed");
    let output = stage.add().succeed();
    let lines = output
        .stderr
        .lines()
        .filter(|line| line.contains("web-meshed"));
    let decided: Vec<_> = lines
        .filter(|line| line.contains("INFO linkerd-cni:"))
        .collect();
    assert_eq!(decided.len(), 1, "{}", output.stderr);
    for word in ["emojivoto", "nft", "requests=2"] {
        assert!(decided[0].contains(word), "{}", decided[0]);
    }
    for line in output.stderr.lines() {
        assert!(line.starts_with("[20") && line.contains("] "), "{line}");
    }
}

#[test]
fn the_level_of_the_log_follows_the_configuration() {
    for (level, info) in [
        ("debug", true),
        ("info", true),
        ("warn", false),
        ("loud", false),
    ] {
        let stage = Stage::new("unmeshed").top("log_level", level);
        let output = stage.add().succeed();
        assert_eq!(
            output.stderr.contains(" INFO "),
            info,
            "{level}: {}",
            output.stderr
        );
    }
}

fn args_with_uid(uid: &str) -> String {
    format!("K8S_POD_NAMESPACE=emojivoto;K8S_POD_NAME=web-meshed;K8S_POD_UID={uid}")
}

fn passes_on_unasked(stage: &Stage, output: &Output) {
    assert_eq!(output.json.as_ref(), Some(&stage.config["prevResult"]));
    assert!(stage.api.requests().is_empty(), "{output:#?}");
    assert!(rules::effective(&stage.netns).is_empty(), "{output:#?}");
}
