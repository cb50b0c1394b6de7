//! The API server down, hanging, refusing, lying: the pod fails closed, with a
//! message that says what to look at, within the budget.

use std::net::TcpListener;
use std::time::Duration;

use linkerd_cni_integration::api_server::{ApiServer, Fault, TOKEN};
use linkerd_cni_integration::fixtures;
use linkerd_cni_integration::kubeconfig::{self, Contents};
use linkerd_cni_integration::plugin::Output;
use linkerd_cni_integration::rules;
use linkerd_cni_integration::stage::Stage;

/// The plugin's own budget for the API server is 10 s; the rest is a busy
/// machine.
const BUDGET: Duration = Duration::from_secs(20);

#[test]
fn a_server_that_is_down_is_named_by_url() {
    let stage = Stage::new("meshed");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it has an address");
    drop(listener);
    let server = format!("https://{address}");
    write(&stage, |contents| contents.server.clone_from(&server));
    fails_closed(&stage, 11, &[&server, "refused"]);
}

#[test]
fn a_server_that_never_says_a_word_is_given_up() {
    fails_on(Fault::HangBeforeTls, 11, &["https://127.0.0.1:"]);
}

#[test]
fn a_server_that_never_answers_is_given_up() {
    let stage = fails_on(
        Fault::HangAfterRequest,
        11,
        &["https://127.0.0.1:", "web-meshed"],
    );
    assert!(stage.api.requests().len() > 1, "a timeout is tried again");
}

#[test]
fn a_server_that_resets_connections_is_given_up() {
    let stage = fails_on(Fault::Reset, 11, &["https://127.0.0.1:"]);
    assert!(stage.api.connections() > 1, "a reset is tried again");
}

#[test]
fn an_answer_that_trickles_is_given_up() {
    fails_on(
        Fault::Slow(Duration::from_millis(50)),
        11,
        &["https://127.0.0.1:"],
    );
}

#[test]
fn half_an_answer_is_given_up() {
    fails_on(Fault::Truncated, 11, &["https://127.0.0.1:"]);
}

#[test]
fn errors_of_the_server_are_tried_again_and_then_given_up() {
    for status in [429, 500, 502, 503] {
        let stage = fails_on(Fault::Status(status), 11, &[&status.to_string()]);
        let count = stage.api.requests().len();
        assert!((2..=20).contains(&count), "{status}: {count} requests");
    }
}

#[test]
fn a_refusal_is_not_tried_again() {
    let stage = fails_on(Fault::Status(403), 103, &["403", "RBAC", "pods"]);
    assert_eq!(stage.api.requests().len(), 1);
    let stage = fails_on(Fault::Status(400), 11, &["400"]);
    assert_eq!(stage.api.requests().len(), 1);
}

#[test]
fn a_token_that_is_not_taken_is_read_again_once() {
    let stage = fails_on(Fault::Status(401), 103, &["401", "token"]);
    assert!(
        stage.api.requests().len() <= 2,
        "{:#?}",
        stage.api.requests()
    );
}

#[test]
fn an_expired_token_is_called_expired() {
    let stage = Stage::new("meshed");
    let token = kubeconfig::token_expiring_in(-3600);
    write(&stage, |contents| contents.token.clone_from(&token));
    let output = fails_closed(&stage, 103, &["401", "expired"]);
    assert!(!output.stdout.contains(&token) && !output.stderr.contains(&token));
}

#[test]
fn a_pod_that_is_not_there_yet_is_asked_for_twice() {
    let stage = Stage::new("meshed");
    let output = stage.add().pod("emojivoto", "not-yet").fail(11);
    output.says(&["emojivoto", "not-yet", "404"]).within(BUDGET);
    let targets = targets(&stage.api);
    let path = "/api/v1/namespaces/emojivoto/pods/not-yet";
    assert_eq!(
        targets,
        [format!("{path}?resourceVersion=0"), path.to_owned()]
    );
}

#[test]
fn a_pod_that_the_servers_cache_does_not_have_yet_is_found_by_a_full_read() {
    let stage = Stage::new("meshed");
    stage
        .api
        .misbehave_times_on(1, "pods/web-meshed?resourceVersion=0", Fault::Status(404));
    stage.add().succeed();
    assert!(!rules::effective(&stage.netns).is_empty());
}

#[test]
fn what_answers_in_html_or_other_json_is_no_api_server() {
    for status in [200, 401, 403, 404, 502] {
        fails_on(
            Fault::Html(status),
            11,
            &["did not come from the API server"],
        );
    }
    for text in [
        "[]".to_owned(),
        "{}".to_owned(),
        "\"pod\"".to_owned(),
        "null".to_owned(),
        r#"{"error":"sign in"}"#.to_owned(),
        r#"{"kind":"Node","apiVersion":"v1","metadata":{"name":"web-meshed"}}"#.to_owned(),
        r#"{"kind":"Status","status":"Success"}"#.to_owned(),
    ] {
        fails_on(Fault::Json(text), 11, &["did not come from the API server"]);
    }
}

#[test]
fn a_fault_that_passes_costs_no_pod() {
    for fault in [
        Fault::Status(429),
        Fault::Status(500),
        Fault::Reset,
        Fault::Truncated,
        Fault::HangAfterRequest,
        Fault::HangBeforeTls,
    ] {
        let stage = Stage::new("meshed");
        stage.api.misbehave_times(1, fault.clone());
        stage.add().succeed().within(BUDGET);
        assert!(!rules::effective(&stage.netns).is_empty(), "{fault:?}");
    }
}

#[test]
fn a_token_rotated_during_add_is_read_again() {
    let stage = Stage::new("meshed");
    stage.api.set_token("the-new-token");
    let path = stage.kubeconfig.path();
    let contents = Contents {
        token: "the-new-token".to_owned(),
        ..Contents::of(&stage.api)
    };
    stage
        .api
        .on_unauthorized(move || kubeconfig::replace(&path, &contents.yaml()));
    stage.add().succeed();
    let tokens = stage
        .api
        .requests()
        .into_iter()
        .map(|request| request.authorization);
    let tokens: Vec<_> = tokens.flatten().collect();
    assert_eq!(tokens[0], format!("Bearer {TOKEN}"));
    assert!(
        tokens[1..]
            .iter()
            .all(|token| token == "Bearer the-new-token"),
        "{tokens:?}"
    );
}

#[test]
fn a_namespace_that_cannot_be_read_fails_the_pod() {
    for (fault, code) in [
        (Fault::Status(500), 11),
        (Fault::Status(404), 11),
        (Fault::Status(403), 103),
        (Fault::Html(200), 11),
        (Fault::Truncated, 11),
    ] {
        let stage = Stage::new("meshed");
        stage
            .api
            .misbehave_at("/api/v1/namespaces/emojivoto", fault);
        fails_closed(&stage, code, &["namespaces/emojivoto"]);
    }
}

#[test]
fn a_control_plane_pod_starts_although_the_service_cannot_be_read() {
    for fault in [Fault::Status(403), Fault::Status(404), Fault::Html(200)] {
        let stage = Stage::new("control-plane");
        stage.api.misbehave_on("services/kubernetes", fault);
        stage.add().succeed().logs(&["WARN", "443", "6443"]);
        let rules = rules::effective(&stage.netns).join("\n");
        assert!(rules.contains("--dports 25,587,443,6443 "), "{rules}");
    }
}

#[test]
fn a_kubeconfig_that_is_missing_empty_or_broken_is_waited_for() {
    let stage = Stage::new("meshed");
    let path = stage.kubeconfig.path();
    let path = path.to_string_lossy();
    for text in [
        "",
        "\n",
        "{",
        "clusters: [",
        "a: b\n",
        "\0\0\0",
        "- 1\n",
        "apiVersion: v1\nkind: Config\n",
    ] {
        stage.kubeconfig.write_text(text);
        fails_closed(&stage, 11, &[&path]);
    }
    std::fs::remove_file(&*path).expect("it can be removed");
    fails_closed(&stage, 11, &[&path]);
    assert!(stage.api.requests().is_empty());
}

#[test]
fn a_kubeconfig_with_a_bracketed_ipv4_address_works() {
    let stage = Stage::new("meshed");
    let port = stage.api.address().port();
    write(&stage, |contents| {
        contents.server = format!("https://[127.0.0.1]:{port}")
    });
    stage.add().succeed();
    assert!(!rules::effective(&stage.netns).is_empty());
}

#[test]
fn the_bracketed_kubeconfig_of_earlier_versions_is_understood() {
    // Nobody answers there; that it was understood shows in the URL.
    let stage = Stage::new("meshed");
    let text = fixtures::text("linkerd/kubeconfig-bracketed-ipv4.yaml");
    let text = text.replace("[10.96.0.1]:443", "[127.0.0.1]:9").replace(
        "certificate-authority-data: Q0E=",
        "insecure-skip-tls-verify: true",
    );
    stage.kubeconfig.write_text(&text);
    fails_closed(&stage, 11, &["https://127.0.0.1:9"]);
}

#[test]
fn a_server_is_not_verified_only_where_the_kubeconfig_says_so() {
    let stage = Stage::new("meshed");
    write(&stage, |contents| contents.ca = None);
    stage.add().succeed();
    let other = ApiServer::start();
    write(&stage, |contents| contents.ca = Some(other.ca()));
    stage.del().succeed();
    fails_closed(&stage, 11, &["certificate"]);
}

/// Small systems for nodes bring no certificate authorities.
#[test]
fn a_server_that_is_not_verified_is_asked_where_the_node_has_no_authorities() {
    let stage = Stage::new("meshed");
    write(&stage, |contents| contents.ca = None);
    let call = stage.add().env("SSL_CERT_FILE", "/dev/null");
    call.env("SSL_CERT_DIR", "/dev/null").succeed();
}

#[test]
fn proxies_in_the_environment_are_ignored() {
    let stage = Stage::new("meshed");
    let proxy = "http://127.0.0.1:9";
    let mut call = stage.add();
    for name in [
        "HTTPS_PROXY",
        "https_proxy",
        "HTTP_PROXY",
        "http_proxy",
        "ALL_PROXY",
    ] {
        call = call.env(name, proxy);
    }
    call.succeed();
    assert_eq!(stage.api.connections(), 1);
}

fn write(stage: &Stage, change: impl FnOnce(&mut Contents)) {
    let mut contents = Contents::of(&stage.api);
    change(&mut contents);
    stage.kubeconfig.write(&contents);
}

fn fails_on(fault: Fault, code: u64, words: &[&str]) -> Stage {
    let stage = Stage::new("meshed");
    stage.api.misbehave(fault);
    fails_closed(&stage, code, words);
    stage
}

/// ADD fails with this code and these words, in time, having done nothing.
#[track_caller]
fn fails_closed(stage: &Stage, code: u64, words: &[&str]) -> Output {
    let before = rules::effective(&stage.netns);
    let output = stage.add().fail(code);
    output.says(words).within(BUDGET);
    assert_eq!(before, rules::effective(&stage.netns));
    assert!(
        !stage.record("eth0").exists(),
        "a record without an attachment"
    );
    output
}

fn targets(api: &ApiServer) -> Vec<String> {
    api.requests()
        .into_iter()
        .map(|request| request.target)
        .collect()
}
