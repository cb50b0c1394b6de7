//! The rules lead to where the proxy listens.

use super::*;

const INBOUND: &str = "LINKERD2_PROXY_INBOUND_LISTEN_ADDR";
const OUTBOUND: &str = "LINKERD2_PROXY_OUTBOUND_LISTEN_ADDR";
const OUTBOUND_BOTH: &str = "LINKERD2_PROXY_OUTBOUND_LISTEN_ADDRS";
const ADMIN: &str = "LINKERD2_PROXY_ADMIN_LISTEN_ADDR";
const CONTROL: &str = "LINKERD2_PROXY_CONTROL_LISTEN_ADDR";

/// A pod whose proxy has these variables, in this order.
fn with_env(env: &[(&str, &str)], annotations: &[(&str, &str)]) -> Pod {
    let env: Vec<Value> = env
        .iter()
        .map(|(name, value)| json!({"name": name, "value": value}))
        .collect();
    let annotations: serde_json::Map<String, Value> = annotations
        .iter()
        .map(|(key, value)| (format!("config.linkerd.io/{key}"), json!(value)))
        .collect();
    pod(json!({
        "metadata": {"annotations": annotations},
        "spec": {"initContainers": [{"name": "linkerd-proxy", "env": env}]},
    }))
}

/// Inbound and outbound port, the inbound ports to ignore, and what is warned of.
fn ports(pod: &Pod) -> (u16, u16, String, Vec<String>) {
    let (config, warnings) = decide(pod, None);
    let ignored = config
        .inbound_ports_to_ignore
        .iter()
        .map(ToString::to_string);
    let ignored = ignored.collect::<Vec<_>>().join(",");
    let [inbound, outbound] = [config.incoming_proxy_port, config.outgoing_proxy_port];
    (inbound.get(), outbound.get(), ignored, warnings)
}

#[test]
fn the_proxys_environment_says_where_it_listens() {
    for (env, expected) in [
        (&[(INBOUND, "0.0.0.0:5143")][..], (5143, 4140, "")),
        (&[(INBOUND, "[::]:5143")], (5143, 4140, "")),
        (&[(OUTBOUND, "127.0.0.1:5140")], (4143, 5140, "")),
        (
            &[(OUTBOUND_BOTH, "127.0.0.1:5140,[::1]:5140")],
            (4143, 5140, ""),
        ),
        (&[(OUTBOUND_BOTH, " 127.0.0.1:5140 ")], (4143, 5140, "")),
        // The proxy reads the singular only where there is no plural, wherever they stand.
        (
            &[(OUTBOUND_BOTH, "[::1]:5140"), (OUTBOUND, "127.0.0.1:6140")],
            (4143, 5140, ""),
        ),
        (
            &[(OUTBOUND, "127.0.0.1:6140"), (OUTBOUND_BOTH, "[::1]:5140")],
            (4143, 5140, ""),
        ),
        // Of two with one name the last counts.
        (
            &[(INBOUND, "0.0.0.0:1"), (INBOUND, "0.0.0.0:5143")],
            (5143, 4140, ""),
        ),
        (&[(ADMIN, "0.0.0.0:5191")], (4143, 4140, "5191")),
        (
            &[(CONTROL, "[::]:5190"), (ADMIN, "[::]:5191")],
            (4143, 4140, "5190,5191"),
        ),
        (
            &[("PORT", "5143"), (INBOUND, "0.0.0.0:$(PORT)")],
            (5143, 4140, ""),
        ),
        (&[("A", "[::]:5143"), (INBOUND, "$(A)")], (5143, 4140, "")),
        // Only kubelet knows the address, but not what matters.
        (&[(INBOUND, "$(_pod_ip):5143")], (5143, 4140, "")),
        (&[("LINKERD2_PROXY_LOG", "warn")], (4143, 4140, "")),
    ] {
        let (inbound, outbound, ignored, _) = ports(&with_env(env, &[]));
        assert_eq!((inbound, outbound, ignored.as_str()), expected, "{env:?}");
    }
}

#[test]
fn a_value_that_is_no_address_is_a_warning_and_the_annotation_holds() {
    let long = format!("0.0.0.0:5143{}", ",0.0.0.0:5143".repeat(1 << 16));
    let laughs = "$(A)".repeat(1 << 16);
    for value in [
        "",
        "5143",
        "0.0.0.0",
        "0.0.0.0:",
        "0.0.0.0:0",
        "0.0.0.0:65536",
        "0.0.0.0:+5143",
        "0.0.0.0:٥",
        "::1",
        ":::5143",
        "localhost:5143",
        "0.0.0.0:$(LATER)",
        "0.0.0.0:$(NEVER)",
        "0.0.0.0:$(FAR)",
        "0.0.0.0:5143,",
        "0.0.0.0:5143,[::]:5144",
        "0.0.0.0:5143 -j ACCEPT\nCOMMIT",
        &long,
        &laughs,
    ] {
        let env = [
            ("A", "0.0.0.0:1"),
            ("FAR", "$(A)"),
            (INBOUND, value),
            ("LATER", "5143"),
        ];
        let (inbound, _, _, warnings) = ports(&with_env(&env, &[("inbound-port", "6143")]));
        assert_eq!(inbound, 6143, "{value:.40}");
        assert_eq!(warnings.len(), 1, "{value:.40}: {warnings:?}");
        assert!(warnings[0].starts_with(INBOUND), "{warnings:?}");
        assert!(warnings[0].len() < 300, "{warnings:?}");
        assert!(!warnings[0].contains('\n'), "{warnings:?}");
    }
}

#[test]
fn a_value_from_elsewhere_is_not_known_and_said_to_be_so() {
    let from = json!({"fieldRef": {"fieldPath": "metadata.name"}});
    let proxy = json!({"name": "linkerd-proxy", "env": [{"name": INBOUND, "valueFrom": from}]});
    let found = ports(&pod(json!({"spec": {"containers": [proxy]}})));
    let warning = format!("{INBOUND} of the proxy is not given as a value");
    assert_eq!(found, (4143, 4140, String::new(), vec![warning]));
}

#[test]
fn other_containers_say_nothing_of_the_proxy() {
    let env = json!([{"name": INBOUND, "value": "0.0.0.0:5143"}]);
    let containers = json!([{"name": "web", "env": env}, {"name": "linkerd-proxy", "env": null}]);
    let found = ports(&pod(json!({"spec": {"containers": containers}})));
    assert_eq!(found, (4143, 4140, String::new(), vec![]));
}

#[test]
fn where_the_environment_is_silent_the_annotations_say_it() {
    let annotations = [
        ("inbound-port", "5143"),
        ("outbound-port", "5140"),
        ("admin-port", "5191"),
        ("control-port", "5190"),
    ];
    let found = ports(&with_env(&[], &annotations));
    assert_eq!(found, (5143, 5140, "5190,5191".to_owned(), vec![]));
}

#[test]
fn a_contradiction_is_a_warning_and_the_environment_is_the_truth() {
    let env = [(INBOUND, "0.0.0.0:5143"), (ADMIN, "0.0.0.0:5191")];
    let same = [("inbound-port", "5143"), ("admin-port", "5191")];
    let (inbound, _, ignored, warnings) = ports(&with_env(&env, &same));
    assert_eq!((inbound, ignored.as_str()), (5143, "5191"));
    assert_eq!(warnings, [""; 0]);

    let other = [("inbound-port", "6143"), ("admin-port", "6191")];
    let (inbound, _, ignored, warnings) = ports(&with_env(&env, &other));
    assert_eq!((inbound, ignored.as_str()), (5143, "5191"));
    assert_eq!(
        warnings,
        [
            format!(
                "the proxy's inbound port is 5143 ({INBOUND}), not 6143 as configured; 5143 is used"
            ),
            format!(
                "the proxy's admin port is 5191 ({ADMIN}), not 6191 as configured; 5191 is used"
            ),
        ]
    );
    // The configuration's 4143 is one, too.
    let (_, _, _, warnings) = ports(&with_env(&env, &[]));
    assert_eq!(warnings.len(), 1, "{warnings:?}");
}

#[test]
fn an_annotation_that_is_no_port_fails_the_pod_where_it_matters() {
    let refused = |env: &[(&str, &str)]| {
        let pod = with_env(env, &[("inbound-port", "80a")]);
        meshed(&name("ns", "web"), &pod, None, None, &base())
            .map(|meshed| meshed.warnings)
            .map_err(|refusal| refusal.to_string())
    };
    let error = refused(&[]).unwrap_err();
    assert!(
        error.contains("annotation config.linkerd.io/inbound-port of pod ns/web: \"80a\""),
        "{error}"
    );
    let warnings = refused(&[(INBOUND, "0.0.0.0:4143")]).unwrap();
    assert!(
        warnings[0].ends_with("the proxy's own 4143 is used"),
        "{warnings:?}"
    );
}

#[test]
fn the_namespace_is_asked_only_for_what_the_pod_leaves_open() {
    let env = [
        (INBOUND, "0.0.0.0:4143"),
        (OUTBOUND, "127.0.0.1:4140"),
        (ADMIN, "0.0.0.0:4191"),
        (CONTROL, "0.0.0.0:4190"),
    ];
    let carried = |all: &[&'static str]| -> Vec<(&'static str, &'static str)> {
        let names = all
            .iter()
            .filter_map(|key| key.strip_prefix("config.linkerd.io/"));
        names.map(|name| (name, "1")).collect()
    };
    for count in 0..annotation::ALL.len() {
        let some = carried(&annotation::ALL[..count]);
        assert!(needs_namespace(&with_env(&env, &some)), "{some:?}");
    }
    let all = carried(&annotation::ALL);
    assert!(!needs_namespace(&with_env(&env, &all)));
    // Each port that the environment does not tell matters.
    for silent in 0..env.len() {
        let mut env = env.to_vec();
        env[silent].1 = "garbage";
        assert!(needs_namespace(&with_env(&env, &all)), "{env:?}");
        env.remove(silent);
        assert!(needs_namespace(&with_env(&env, &all)), "{env:?}");
        let mut all = all.clone();
        all.extend(carried(&annotation::PORTS));
        assert!(!needs_namespace(&with_env(&env, &all)), "{env:?}");
    }
    assert!(needs_namespace(&pod(
        json!({"metadata": {"annotations": null}})
    )));
}
