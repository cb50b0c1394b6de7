//! Pods that the Go plugin or the init container redirected: one process per
//! rule, listed ports as single rules, no record.

use linkerd_cni_integration::api_server::Fault;
use linkerd_cni_integration::stage::Stage;
use linkerd_cni_integration::tool::Tool;
use serde_json::json;

/// What the Go code runs, in its order (`firewall.go` of linkerd2-proxy-init);
/// `/ID` stands for the trace id that earlier releases appended to comments.
fn commands(ports: &[u16], id: &str) -> Vec<String> {
    let comment = |text: &str| format!("-m comment --comment proxy-init/{text}{id}");
    let mut commands = vec![
        "-N PROXY_INIT_REDIRECT".to_owned(),
        format!(
            "-A PROXY_INIT_REDIRECT -p tcp --match multiport --dports 4190,4191,4191 -j RETURN {}",
            comment("ignore-port-4190,4191,4191")
        ),
    ];
    let redirect = |port: &u16| {
        format!(
            "-A PROXY_INIT_REDIRECT -p tcp --destination-port {port} -j REDIRECT --to-port 4143 {}",
            comment(&format!("redirect-port-{port}-to-proxy-port"))
        )
    };
    commands.extend(ports.iter().map(redirect));
    if ports.is_empty() {
        commands.push(format!(
            "-A PROXY_INIT_REDIRECT -p tcp -j REDIRECT --to-port 4143 {}",
            comment("redirect-all-incoming-to-proxy-port")
        ));
    }
    commands.extend([
        format!(
            "-A PREROUTING -j PROXY_INIT_REDIRECT {}",
            comment("install-proxy-init-prerouting")
        ),
        "-N PROXY_INIT_OUTPUT".to_owned(),
        format!(
            "-A PROXY_INIT_OUTPUT -m owner --uid-owner 2102 -j RETURN {}",
            comment("ignore-proxy-user-id")
        ),
        format!(
            "-A PROXY_INIT_OUTPUT -o lo -j RETURN {}",
            comment("ignore-loopback")
        ),
        format!(
            "-A PROXY_INIT_OUTPUT -p tcp --match multiport --dports 25,587 -j RETURN {}",
            comment("ignore-port-25,587")
        ),
        format!(
            "-A PROXY_INIT_OUTPUT -p tcp -j REDIRECT --to-port 4140 {}",
            comment("redirect-all-outgoing-to-proxy-port")
        ),
        format!(
            "-A OUTPUT -j PROXY_INIT_OUTPUT {}",
            comment("install-proxy-init-output")
        ),
    ]);
    commands
}

fn stage(ports: &[u16]) -> Stage {
    let mut stage = Stage::new("meshed")
        .linkerd("ports-to-redirect", json!(ports))
        .linkerd("inbound-ports-to-ignore", json!(["4190", "4191"]))
        .linkerd("subnets-to-ignore", json!([]))
        .linkerd("proxy-gid", 0)
        .linkerd("iptables-mode", "nft")
        .top("cniVersion", "1.0.0");
    stage.config["prevResult"]["cniVersion"] = "1.0.0".into();
    stage
}

fn run(stage: &Stage, program: &str, commands: &[String]) {
    for command in commands {
        let words: Vec<&str> = ["-t", "nat"]
            .into_iter()
            .chain(command.split(' '))
            .collect();
        let ran = stage.netns.run(program, &words);
        ran.unwrap_or_else(|error| panic!("{error:#}"));
    }
}

#[test]
fn rules_that_the_go_plugin_set_pass_as_meshed() {
    let many: Vec<u16> = (8000..8020).collect();
    for infix in ["nft", "legacy"] {
        for (ports, id) in [(&[][..], ""), (&[80, 443], "/1620000000"), (&many, "")] {
            let stage = stage(ports);
            for base in ["iptables", "ip6tables"] {
                run(&stage, &format!("{base}-{infix}"), &commands(ports, id));
            }
            stage.call("CHECK").succeed();
            assert!(!stage.record("eth0").exists());
        }
    }
}

#[test]
fn what_differs_in_them_is_named() {
    let stage = stage(&[]);
    for base in ["iptables-nft", "ip6tables-nft"] {
        run(&stage, base, &commands(&[], ""));
    }
    run(
        &stage,
        "iptables-nft",
        &["-D PROXY_INIT_OUTPUT 1".to_owned()],
    );
    let output = stage.call("CHECK").fail(101);
    output.says(&[
        "IPv4 PROXY_INIT_OUTPUT: rule 1 is missing",
        "uid-owner 2102",
    ]);
    assert_eq!(output.details(), "");
}

#[test]
fn a_pod_with_an_ipv6_address_needs_them_for_ipv6_too() {
    let stage = stage(&[]);
    run(&stage, "iptables-nft", &commands(&[], ""));
    let output = stage.call("CHECK").fail(101);
    output.says(&["IPv6: no redirect rules at all, traffic is in the clear"]);
    assert_eq!(output.details(), "");

    let mut stage = stage;
    stage.config["prevResult"]["ips"] = json!([{"address": "10.244.1.2/24"}]);
    stage.call("CHECK").succeed();
}

#[test]
fn without_a_record_an_api_server_that_does_not_answer_is_a_warning() {
    let stage = stage(&[]);
    stage.api.misbehave(Fault::Status(503));
    let output = stage.call("CHECK").succeed();
    output.logs(&["WARN", "nobody tells how its rules should be"]);
}

#[test]
fn rules_that_cannot_be_read_are_not_taken_for_none() {
    for infix in ["nft", "legacy"] {
        let stage = stage(&[]);
        let hidden = || {
            let check = stage.call("CHECK");
            check.with_mounts("mount -t tmpfs none /usr/sbin")
        };
        // That there are none shows without a program.
        hidden().fail(101).says(&["has no redirect rules"]);
        run(&stage, &format!("iptables-{infix}"), &commands(&[], ""));
        hidden().fail(100).says(&["not installed"]);
    }
}

#[test]
fn the_command_line_judges_them_by_their_shape_where_nobody_can_be_asked() {
    let stage = stage(&[]);
    run(&stage, "iptables-nft", &commands(&[], ""));
    let check = || Tool::new(&["check", "-o", "json", "--netns"]).arg(stage.netns.path());
    let row = check().exits(0).json()["attachments"][0].clone();
    assert_eq!(
        (&row["state"], &row["backend"]),
        (&json!("ok"), &json!("nft"))
    );
    assert_eq!(row["recorded"], json!(false));

    run(&stage, "iptables-nft", &["-F PROXY_INIT_OUTPUT".to_owned()]);
    let row = check().exits(1).json()["attachments"][0].clone();
    assert_eq!(row["differences"][0]["kind"], json!("empty-chain"), "{row}");
    run(&stage, "iptables-nft", &commands(&[], "")[5..9]);

    run(&stage, "iptables-nft", &["-D PREROUTING 1".to_owned()]);
    let row = check().exits(1).json()["attachments"][0].clone();
    assert_eq!(
        row["differences"].as_array().map(Vec::len),
        Some(1),
        "{row}"
    );
    assert_eq!(row["differences"][0]["kind"], json!("missing"));
    assert_eq!(row["differences"][0]["chain"], json!("PREROUTING"));
}
