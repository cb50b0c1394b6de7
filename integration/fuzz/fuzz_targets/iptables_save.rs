//! A table as `iptables-save` prints it: read without a panic, and if it is found to be as it
//! should be, then connections end where they should.

#![no_main]

use std::{net::IpAddr, sync::LazyLock};

use libfuzzer_sys::fuzz_target;
use proxy_init_rules::{
    Config, Connection, End, Family, NatTable, RawConfig, RuleSet, Way, difference,
    difference_in_effect, walk,
};

static RULES: LazyLock<RuleSet> = LazyLock::new(|| {
    let raw: RawConfig = serde_json::from_str(
        r#"{"incoming-proxy-port": 4143, "outgoing-proxy-port": 4140, "proxy-uid": 2102,
            "inbound-ports-to-ignore": ["4190", "4191", "8000-8010"],
            "outbound-ports-to-ignore": ["25"], "subnets-to-ignore": ["10.1.0.0/16"],
            "outbound-ports-to-redirect": [25, 80, 443], "interfaces-to-ignore": ["net1", "tun+"],
            "outbound-subnets-to-ignore": ["10.2.0.0/16"]}"#,
    )
    .expect("JSON");
    RuleSet::new(&Config::try_from(raw).expect("valid"), Family::Ipv4)
});

static INSTALLED: LazyLock<NatTable> = LazyLock::new(|| {
    NatTable::parse(&RULES.render_install(), Family::Ipv4).expect("a payload of ours is read")
});

fuzz_target!(|text: &str| {
    let _ = NatTable::parse(text, Family::Ipv6).map(|table| table.rule_set());
    let Ok(found) = NatTable::parse(text, Family::Ipv4) else {
        return;
    };
    let _ = difference_in_effect(&RULES, &found);
    for line in RULES.render_replace(&found).lines() {
        let known = [
            "*nat",
            "COMMIT",
            ":PROXY_INIT_",
            "-N PROXY_INIT_",
            "-F PROXY_INIT_",
        ];
        let ours = known.iter().any(|head| line.starts_with(head)) || is_rule(line);
        assert!(ours, "not a line of ours: {line:?}");
    }
    let faults = difference(&RULES, &found);
    for connection in connections() {
        let expected = walk(&INSTALLED, &connection).end;
        let walked = walk(&found, &connection);
        let is_certain = walked.doubts().next().is_none();
        if let (true, true, End::Proxy { port, .. }) = (faults.is_empty(), is_certain, expected) {
            let End::Proxy { port: found, .. } = walked.end else {
                panic!("no difference, but {connection:?} ends {:?}", walked.end);
            };
            assert_eq!(found, port, "{connection:?}");
        }
    }
});

fn connections() -> impl Iterator<Item = Connection> {
    let own: IpAddr = [10, 244, 1, 2].into();
    let other: IpAddr = [10, 244, 1, 9].into();
    let connection = move |way, from, to, port, uid, interface: &str| Connection {
        way,
        from,
        from_port: None,
        to: (to, port).into(),
        interface: Some(interface.to_owned()),
        uid,
        gid: None,
        own: vec![own],
    };
    [80, 4190, 8005, 65535]
        .into_iter()
        .flat_map(move |port| {
            ["eth0", "net1", "tun0"]
                .map(|name| connection(Way::Inbound, other, own, port, None, name))
        })
        .chain([25, 443, 8443].into_iter().flat_map(move |port| {
            [
                (None, "eth0"),
                (Some(1000), "eth0"),
                (Some(1000), "net1"),
                (Some(2102), "eth0"),
            ]
            .map(|(uid, name)| connection(Way::Outbound, own, other, port, uid, name))
        }))
}

fn is_rule(line: &str) -> bool {
    ["-A ", "-I ", "-D "]
        .iter()
        .any(|verb| line.starts_with(verb))
        && line.contains("PROXY_INIT_")
}
