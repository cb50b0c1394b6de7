//! What is tried, one thing changed each: settings with their values, annotations with theirs on pod
//! and namespace, sorts of pods, and a few by hand.

use linkerd_cni_integration::fixtures;
use serde_json::{Value, json};

use super::{On, PROXY, Setup};

/// One thing changed.
pub(super) struct Variation {
    /// What it is called, as `axis=value`.
    pub(super) values: Vec<String>,
    change: Box<dyn Fn(&mut Setup)>,
}

/// Makes a setup another one.
type Change = fn(&mut Setup);

/// Values of a setting by name; `null` leaves it out.
type Values = Vec<(&'static str, Value)>;

/// Values of an annotation by name.
type Texts = &'static [(&'static str, &'static str)];

/// Settings: their axis, their key, their values.
fn settings() -> Vec<(&'static str, &'static str, Values)> {
    let unset = ("unset", Value::Null);
    let switch = || vec![("on", json!(true))];
    vec![
        ("use-wait-flag", "use-wait-flag", switch()),
        ("simulate", "simulate", switch()),
        ("iptables-mode", "iptables-mode", vec![unset.clone()]),
        ("inbound", "inbound-ports-to-ignore", lists_of_ports()),
        ("outbound", "outbound-ports-to-ignore", lists_of_ports()),
        (
            "redirect",
            "ports-to-redirect",
            vec![
                ("one", json!([8080])),
                ("several", json!([8080, 9005, 4191])),
                ("many", json!((8070..8090).collect::<Vec<u16>>())),
                ("strings", json!(["8080"])),
                unset.clone(),
            ],
        ),
        (
            "subnets",
            "subnets-to-ignore",
            vec![
                ("ipv4", json!(["192.168.77.0/24", "10.9.0.1/32"])),
                ("ipv6", json!(["fd77::/64"])),
                ("both", json!(["192.168.77.0/24", "fd77::/64"])),
                ("unparsable", json!(["192.168.77.0"])),
            ],
        ),
        (
            "outbound-subnets",
            "outbound-subnets-to-ignore",
            vec![
                ("ipv4", json!(["10.244.1.0/24"])),
                ("both", json!(["10.244.1.0/24", "fd00:244:1::/64"])),
            ],
        ),
        (
            "interfaces",
            "interfaces-to-ignore",
            vec![("one", json!(["eth0"])), ("another", json!(["eth9"]))],
        ),
        (
            "outbound-redirect",
            "outbound-ports-to-redirect",
            vec![("one", json!([80])), ("several", json!([80, 443]))],
        ),
        ("uid", "proxy-uid", ids(&unset)),
        ("gid", "proxy-gid", ids(&unset)),
    ]
}

fn ids(unset: &(&'static str, Value)) -> Values {
    let other = ("other", json!(1234));
    vec![unset.clone(), ("0", json!(0)), ("-1", json!(-1)), other]
}

fn lists_of_ports() -> Values {
    // More than a multiport match has slots.
    let many = (7001..=7017).map(|port| port.to_string());
    let many: Vec<String> = many.chain(["4191", "8081"].map(str::to_owned)).collect();
    // Two slots each, so that the last slot of a match stays free.
    let ranges = (0..8).map(|n| format!("{}-{}", 7001 + n * 10, 7002 + n * 10));
    let ranges: Vec<String> = ranges.chain(["9000-9010".to_owned()]).collect();
    vec![
        ("unset", Value::Null),
        ("none", json!([])),
        ("single", json!(["8081"])),
        ("range", json!(["9000-9010"])),
        ("all", json!(["0-65535"])),
        ("many", json!(many)),
        ("ranges", json!(ranges)),
        ("numbers", json!([4191, 8081])),
        ("twice", json!(["4191", "8081", "4191"])),
        ("spaces", json!(["4191", " 8081 "])),
        ("unparsable", json!(["4191", "80a"])),
        ("reversed", json!(["4191", "5-3"])),
    ]
}

/// Annotations (after `config.linkerd.io/`), and values by name.
const ANNOTATIONS: [(&str, Texts); 11] = [
    ("skip-inbound-ports", LISTS),
    ("skip-outbound-ports", LISTS),
    (
        "skip-subnets",
        &[
            ("ipv4", "192.168.77.0/24"),
            ("both", "192.168.77.0/24, fd77::/64"),
            ("unparsable", "192.168.77.0"),
            ("empty", ""),
        ],
    ),
    ("skip-outbound-subnets", &[("ipv4", "10.244.1.0/24")]),
    ("skip-interfaces", &[("one", "eth0")]),
    ("proxy-uid", IDS),
    ("proxy-gid", IDS),
    ("inbound-port", &[("other", "5143"), UNPARSABLE]),
    ("outbound-port", &[("other", "5140"), UNPARSABLE]),
    ("admin-port", &[("other", "8081"), UNPARSABLE]),
    ("control-port", &[("other", "9005"), UNPARSABLE]),
];

const UNPARSABLE: (&str, &str) = ("unparsable", "80a");

const LISTS: Texts = &[
    ("list", "8081,9000-9010"),
    ("spaces", "4191, 8081"),
    ("unparsable", "4191,80a"),
    ("empty", ""),
];

const IDS: Texts = &[("other", "1234"), ("unparsable", "nobody"), ("empty", "")];

/// Pods of `fixtures/pods/`.
const PODS: [&str; 5] = [
    "unmeshed",
    "init-container",
    "native-sidecar",
    "control-plane",
    "shared-uid",
];

/// What no table has.
const BY_HAND: [(&str, Change); 9] = [
    ("proxy-ports=other", |setup| {
        setup.set("incoming-proxy-port", 5143);
        setup.set("outgoing-proxy-port", 5140);
    }),
    ("annotation=on-both", |setup| {
        setup.annotate(On::Pod, "skip-outbound-ports", "443");
        setup.annotate(On::Namespace, "skip-outbound-ports", "25");
    }),
    ("pod=control-plane-twice", |setup| {
        setup.pod = fixtures::pod("control-plane");
        setup.set("outbound-ports-to-ignore", json!(["443", "3306"]));
    }),
    ("pod=runs-as-another", |setup| {
        setup.proxy_runs_as(Some(1234));
    }),
    ("pod=runs-with-another-group", |setup| {
        setup.container(PROXY)["securityContext"]["runAsGroup"] = json!(1234);
    }),
    ("pod=has-user-and-group", |setup| {
        let context = json!({"runAsUser": 1000, "runAsGroup": 3000});
        setup.pod["spec"]["securityContext"] = context;
    }),
    ("pod=shared-group", |setup| {
        setup.container("web")["securityContext"] = json!({"runAsGroup": 2102});
    }),
    ("pod=listens-elsewhere", |setup| {
        setup.container(PROXY)["env"] = json!([
            {"name": "LINKERD2_PROXY_INBOUND_LISTEN_ADDR", "value": "0.0.0.0:5143"},
            {"name": "LINKERD2_PROXY_OUTBOUND_LISTEN_ADDR", "value": "127.0.0.1:5140"},
        ]);
    }),
    ("pod=sandboxed", |setup| {
        setup.pod["spec"]["runtimeClassName"] = json!("gvisor");
    }),
];

/// All of them.
pub(super) fn variations() -> Vec<Variation> {
    let mut all = Vec::new();
    for (axis, key, values) in settings() {
        let of = |(name, value)| Variation::of_setting(format!("{axis}={name}"), key, value);
        all.extend(values.into_iter().map(of));
    }
    for (name, values) in ANNOTATIONS {
        for on in [On::Pod, On::Namespace] {
            for (value, text) in values {
                all.push(Variation::of_annotation(on, name, value, text));
            }
        }
    }
    all.extend(PODS.map(|name| {
        Variation::new([format!("pod={name}")], move |setup| {
            setup.pod = fixtures::pod(name);
        })
    }));
    all.extend(BY_HAND.map(|(value, change)| Variation::new([value.to_owned()], change)));
    all
}

// === impl Variation ===

impl Variation {
    fn new<const N: usize>(values: [String; N], change: impl Fn(&mut Setup) + 'static) -> Self {
        Self {
            values: values.into(),
            change: Box::new(change),
        }
    }

    fn of_setting(name: String, key: &'static str, value: Value) -> Self {
        Self::new([name], move |setup| {
            setup.only_configured(key);
            setup.set(key, value.clone());
        })
    }

    fn of_annotation(on: On, name: &'static str, value: &str, text: &'static str) -> Self {
        let values = [format!("{name}={value}"), format!("on={on}")];
        Self::new(values, move |setup| {
            setup.only_configured(name);
            setup.annotate(on, name, text);
        })
    }

    /// Makes a setup another one.
    pub(super) fn change(&self, setup: &mut Setup) {
        (self.change)(setup);
    }
}
