//! The harness itself: its probes see what is there, with rules written by hand.

use linkerd_cni_integration::netns::Netns;
use linkerd_cni_integration::rules::{self, Family, Tables};
use linkerd_cni_integration::traffic::{As, Listener, Network};
use linkerd_cni_integration::{process, trace};
use std::net::SocketAddr;
use std::time::Duration;

const BY_HAND: &str = "*nat\n\
    -A PREROUTING -p tcp -m tcp --dport 8080 -j REDIRECT --to-ports 4143\n\
    -A OUTPUT -p tcp -m owner --uid-owner 1000 -j REDIRECT --to-ports 4140\n\
    COMMIT\n";

#[test]
fn a_connection_tells_where_it_landed_and_where_it_was_meant_to_go() {
    for tables in [Tables::Nft, Tables::Legacy] {
        for family in [Family::V4, Family::V6] {
            let network = Network::new();
            rules::restore(&network.pod, tables, family, BY_HAND);
            let _pod = Listener::all(&network.pod, family, &[4143, 4140, 8081]);
            let _peer = Listener::all(&network.peer, family, &[80]);

            let meant = SocketAddr::new(Network::pod_ip(family), 8080);
            let landed = network.inbound(family, 8080).unwrap();
            assert_eq!((landed.port, landed.original), (4143, Some(meant)));
            let landed = network.inbound(family, 8081).unwrap();
            assert_eq!((landed.port, landed.original), (8081, None));
            let landed = network.inbound_from_elsewhere(family, 8081).unwrap();
            assert_eq!(landed.peer, Network::peer_elsewhere(family));

            let web = SocketAddr::new(Network::peer_ip(family), 80);
            let landed = network.outbound(As::APP, web).unwrap();
            assert_eq!((landed.port, landed.original), (4140, Some(web)));
            let landed = network.outbound(As::user(2102), web).unwrap();
            assert_eq!((landed.port, landed.original), (80, None));
        }
    }
}

#[test]
fn reading_rules_does_not_change_what_is_read() {
    let netns = Netns::new();
    let before = rules::everything(&netns);
    assert_eq!(before, rules::everything(&netns));
    assert!(rules::effective(&netns).is_empty(), "{before}");
    rules::restore(&netns, Tables::Nft, Family::V4, BY_HAND);
    assert_eq!(rules::effective(&netns).len(), 2);
}

#[test]
fn a_trace_counts_programs_and_kills_at_the_wanted_call() {
    let mut command = process::command("/bin/sh");
    command.args(["-c", "/bin/true; /bin/echo done"]);
    let deadline = Duration::from_secs(20);
    let whole = trace::run(&command, b"", None, deadline).unwrap();
    assert_eq!(whole.exit, Some(0));
    assert_eq!(whole.stdout, "done\n");
    assert_eq!(
        whole.executed,
        [vec!["/bin/true"], vec!["/bin/echo", "done"]]
    );

    let cut = trace::run(&command, b"", Some(whole.calls / 4), deadline).unwrap();
    assert!(cut.killed && cut.exit.is_none(), "{cut:?}");
    assert_eq!(cut.stdout, "");
}

#[test]
fn a_program_that_hangs_is_killed_at_its_deadline() {
    let mut command = process::command("/bin/sleep");
    command.arg("100");
    let finished = process::finish(&mut command, b"", Duration::from_millis(50)).unwrap();
    assert!(finished.status.is_none());
    assert!(finished.elapsed < Duration::from_secs(20));
}
