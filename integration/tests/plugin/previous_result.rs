//! The previous result is passed on as it came in.

use linkerd_cni_integration::stage::Stage;

/// Nothing in it may be read and printed again: number forms, escapes, order,
/// keys nobody knows.
const RESULT: &str = concat!(
    r#"{"zeta":1e3,"interfaces":[{"name":"eth0","mac":"0a:58:0a:f4:01:02","sandbox":"/x","#,
    r#""socketPath":"","mtu":18446744073709551616}],"cniVersion":"1.0.0","#,
    r#""ips":[{"gateway":"10.244.1.1","address":"10.244.1.2/24","interface":0}],"#,
    r#""routes":[{"dst":"0.0.0.0/0","priority":1.10}],"dns":{"nameservers":[]},"#,
    r#""vendor.example/key":{"k\u0065y\/":-0.0,"a":[null,true,"\u00e9\ud83d\ude00"]}}"#,
);

#[test]
fn a_meshed_pod_gets_its_previous_result_byte_for_byte() {
    let stage = Stage::new("meshed");
    let output = stage.add().stdin(stdin(&stage, "1.0.0")).succeed();
    assert_eq!(output.stdout.trim_end(), RESULT);
}

#[test]
fn an_unmeshed_pod_gets_its_previous_result_byte_for_byte() {
    let stage = Stage::new("unmeshed");
    let output = stage.add().stdin(stdin(&stage, "1.0.0")).succeed();
    assert_eq!(output.stdout.trim_end(), RESULT);
}

#[test]
fn what_is_not_kubernetes_gets_its_previous_result_byte_for_byte() {
    let stage = Stage::new("meshed");
    let call = stage.add().without("CNI_ARGS");
    let output = call.stdin(stdin(&stage, "1.0.0")).succeed();
    assert_eq!(output.stdout.trim_end(), RESULT);
}

#[test]
fn the_result_carries_the_version_of_the_configuration() {
    for version in super::protocol::VERSIONS {
        let stage = Stage::new("unmeshed");
        let output = stage.add().stdin(stdin(&stage, version)).succeed();
        let expected = RESULT.replace("\"1.0.0\"", &format!("\"{version}\""));
        assert_eq!(output.stdout.trim_end(), expected);
    }
}

#[test]
fn a_result_without_version_gets_one_and_keeps_the_rest() {
    let stage = Stage::new("unmeshed");
    let bare = RESULT.replace("\"cniVersion\":\"1.0.0\",", "");
    let stdin = stdin(&stage, "1.0.0").replace(RESULT, &bare);
    let output = stage.add().stdin(stdin).succeed();
    let json = output.json.expect("ADD answers");
    assert_eq!(json["cniVersion"], "1.0.0");
    for kept in ["\"zeta\":1e3", "18446744073709551616", ":-0.0"] {
        assert!(output.stdout.contains(kept), "{}", output.stdout);
    }
}

#[test]
fn a_previous_result_of_another_shape_is_named() {
    for other in ["[]", "\"eth0\"", "7"] {
        let stage = Stage::new("unmeshed");
        let stdin = stdin(&stage, "1.0.0").replace(RESULT, other);
        stage.add().stdin(stdin).fail(7).says(&["prevResult"]);
    }
}

/// The stage's configuration with [`RESULT`] pasted in as text.
fn stdin(stage: &Stage, version: &str) -> String {
    let mut config = stage.config.clone();
    config["cniVersion"] = version.into();
    config["prevResult"] = "HERE".into();
    config.to_string().replace("\"HERE\"", RESULT)
}
