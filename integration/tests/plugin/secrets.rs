//! The token never appears, at any level, whatever goes wrong.

use linkerd_cni_integration::api_server::{Fault, TOKEN};
use linkerd_cni_integration::kubeconfig::Contents;
use linkerd_cni_integration::plugin::Output;
use linkerd_cni_integration::stage::Stage;

#[test]
fn the_token_is_in_no_log_no_answer_and_no_record() {
    keeps_the_secret_on(None);
}

#[test]
fn the_token_is_not_shown_when_it_is_refused() {
    for status in [401, 403] {
        keeps_the_secret_on(Some(Fault::Status(status)));
    }
}

#[test]
fn the_token_is_not_shown_when_the_server_fails() {
    keeps_the_secret_on(Some(Fault::Status(500)));
}

#[test]
fn the_token_is_not_shown_when_a_proxy_answers() {
    keeps_the_secret_on(Some(Fault::Html(502)));
}

#[test]
fn the_token_is_not_shown_when_an_answer_is_cut() {
    keeps_the_secret_on(Some(Fault::Truncated));
}

#[test]
fn the_token_is_not_shown_when_the_connection_is_reset() {
    keeps_the_secret_on(Some(Fault::Reset));
}

#[test]
fn the_token_of_a_kubeconfig_that_does_not_parse_is_not_shown() {
    let stage = Stage::new("meshed").top("log_level", "debug");
    let yaml = Contents::of(&stage.api).yaml();
    for broken in [
        yaml.replace("token:", "token: ["),
        yaml.replace("    token: ", "    token: \t"),
        yaml.replace("token:", "token: {a: "),
        yaml.replace("user:\n    token", "user:\n  token"),
        yaml.replace(TOKEN, &format!("\"{TOKEN}")),
        yaml.replace(TOKEN, &format!("{TOKEN}\u{1}")),
    ] {
        stage.kubeconfig.write_text(&broken);
        keeps_the_secret(&stage.add().run());
    }
}

fn keeps_the_secret_on(fault: Option<Fault>) {
    let stage = Stage::new("meshed").top("log_level", "debug");
    if let Some(fault) = fault {
        stage.api.misbehave(fault);
    }
    for verb in ["ADD", "CHECK", "DEL"] {
        let call = stage.call(verb);
        let call = call.env("RUST_LOG", "trace").env("RUST_BACKTRACE", "full");
        keeps_the_secret(&call.run());
        if let Ok(record) = std::fs::read_to_string(stage.record("eth0")) {
            assert!(!record.contains(TOKEN), "{record}");
        }
    }
}

fn keeps_the_secret(output: &Output) {
    assert!(!output.stdout.contains(TOKEN), "{output:#?}");
    assert!(!output.stderr.contains(TOKEN), "{output:#?}");
}
