//! Against the kernel, in a network namespace of the test's own: as root. What the integration
//! tests cannot bring about is here: a kernel before 5.2.

use std::thread;

use nix::sched::{CloneFlags, unshare};
use proxy_init_rules::{Config, RawConfig, difference};

use super::*;

fn in_a_namespace(work: impl FnOnce() + Send) {
    thread::scope(|scope| {
        let inside = scope.spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).expect("root may make a network namespace");
            work();
        });
        inside.join().unwrap();
    });
}

fn sets(port: u16) -> [RuleSet; 2] {
    let raw = RawConfig::from_value(&serde_json::json!({
        "incoming-proxy-port": port, "outgoing-proxy-port": 4140,
        "proxy-uid": 2102, "proxy-gid": 2102,
        "inbound-ports-to-ignore": ["0-5", "80", "81", "65000-65535"],
        "outbound-ports-to-ignore": ["443"],
        "subnets-to-ignore": ["0.0.0.0/0", "10.1.2.3/32", "10.8.0.0/13", "fd00::/9", "::/0"],
        "outbound-subnets-to-ignore": ["::/0", "fd00::1/128", "10.8.0.0/13", "0.0.0.0/0"],
        "interfaces-to-ignore": ["net1", "abcdefghijklmno", "n+", "abcdefghijklmn+"],
        "outbound-ports-to-redirect": [80, 81, 443],
    }));
    let config = Config::try_from(raw.unwrap()).unwrap();
    Family::ALL.map(|family| RuleSet::new(&config, family).joined())
}

fn assert_has(sets: &[RuleSet]) {
    for rules in sets {
        let found = Native::default().read(rules.family()).unwrap();
        assert_eq!(difference(rules, &found), []);
    }
}

fn kinds() -> Vec<Kind> {
    let seen = Snapshot::outline(&mut Netfilter::open().unwrap()).unwrap();
    seen.ours().map(|table| table.place.kind).collect()
}

#[test]
fn in_either_layout_the_rules_are_read_back_as_they_were_set() {
    in_a_namespace(|| {
        let mut netfilter = Netfilter::open().unwrap();
        for (layout, there, port) in [
            (Layout::Apart, vec![Kind::Ip, Kind::Ip6], 4143),
            (Layout::Apart, vec![Kind::Ip, Kind::Ip6], 5143),
            (Layout::Shared, vec![Kind::Inet], 6143),
            (Layout::Apart, vec![Kind::Ip, Kind::Ip6], 7143),
        ] {
            let sets = sets(port);
            install_as(&mut netfilter, &sets, layout).unwrap();
            assert_eq!(kinds(), there);
            assert_has(&sets);
        }
        let native = Native::default();
        assert!(native.remove(Family::Ipv6).unwrap());
        assert_eq!(kinds(), [Kind::Ip], "each family goes by itself");
        assert!(native.remove(Family::Ipv4).unwrap());
        assert!(!native.remove(Family::Ipv4).unwrap());
    });
}

#[test]
fn a_transaction_that_is_refused_at_its_end_has_changed_nothing() {
    in_a_namespace(|| {
        let mut netfilter = Netfilter::open().unwrap();
        let before = sets(4143);
        install_as(&mut netfilter, &before, Layout::Shared).unwrap();
        let there = Snapshot::outline(&mut netfilter).unwrap();
        let mut batch = Batch::new();
        removal::of_tables(&mut batch, &there, |_| true);
        let mut next_set = 0;
        let tables = Table::all(&sets(5143), Layout::Shared);
        for table in tables.iter().chain(&tables) {
            encode::table(&mut batch, table, &mut next_set);
        }
        let refused = netfilter.commit(batch).unwrap_err();
        assert!(refused.is_there_already(), "{refused}");
        let words = "nf_tables refused table inet linkerd-cni: File exists";
        assert!(refused.to_string().starts_with(words), "{refused}");
        assert_has(&before);
    });
}

#[test]
fn a_kind_of_chain_that_the_kernel_does_not_know_is_told_from_other_refusals() {
    let refused = |subject, errno| NativeError::Refused {
        subject,
        errno,
        message: None,
    };
    use error::Subject::{Chain, Rule, Table};
    use nix::errno::Errno::{ENOENT, EPERM};
    assert!(refused(Chain("OUTPUT".into()), ENOENT).is_unknown_chain());
    assert!(!refused(Chain("OUTPUT".into()), EPERM).is_unknown_chain());
    assert!(!refused(Table("inet".into()), ENOENT).is_unknown_chain());
    assert!(!refused(Rule("OUTPUT".into()), ENOENT).is_unknown_chain());
}
