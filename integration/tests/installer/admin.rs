//! `/live`, `/ready` and `/metrics`.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use linkerd_cni_integration::http::{self, Answer};
use linkerd_cni_integration::kubeconfig::token_expiring_in;
use linkerd_cni_integration::node::{Node, fixture_bytes};

const CALICO: &str = "10-calico.conflist";

fn node(address: &str) -> Node {
    let mut node = Node::new();
    node.set("ADMIN_ADDRESS", address);
    node
}

fn ready(node: &Node) -> Answer {
    http::get(node.admin(), "/ready")
}

/// Waits until `/ready` says why not, and checks that `status` and the metric say the same.
#[track_caller]
fn not_ready(node: &Node, why: &str) {
    node.wait(why, |node| {
        let answer = ready(node);
        answer.status == 503 && answer.body.contains(why)
    });
    let finished = node.run(&["status"]);
    let status = String::from_utf8_lossy(&finished.stdout).into_owned();
    assert_eq!(finished.status.and_then(|s| s.code()), Some(1), "{status}");
    assert!(status.contains(why), "{why}: {status}");
    let metrics = node.metrics();
    assert_eq!(
        metrics.value("linkerd_cni_installer_ready"),
        Some(0.0),
        "{metrics:#?}"
    );
}

#[track_caller]
fn becomes_ready(node: &Node) {
    node.wait("ready", |node| ready(node).status == 200);
    let finished = node.run(&["status"]);
    assert!(finished.status.is_some_and(|s| s.success()), "{finished:?}");
    let metrics = node.metrics();
    assert_eq!(
        metrics.value("linkerd_cni_installer_ready"),
        Some(1.0),
        "{metrics:#?}"
    );
}

#[test]
fn ready_follows_the_node_and_says_why_not() {
    let mut node = node("127.0.0.1:0");
    node.set("RESYNC_INTERVAL", "100ms");
    node.start();
    not_ready(&node, "waiting for another CNI plugin");
    assert_eq!(http::get(node.admin(), "/live").status, 200);
    node.drop_in("net.d/10-calico.conflist");
    becomes_ready(&node);

    // Sorted before it, and of a plugin that is not on this node.
    let strange = r#"{"name":"n","cniVersion":"1.0.0","plugins":[{"type":"strange"}]}"#;
    node.write("05-strange.conflist", strange);
    not_ready(&node, "05-strange.conflist comes first and is not chained");
    fs::remove_file(node.conf("05-strange.conflist")).unwrap();
    becomes_ready(&node);

    node.rotate_token(&token_expiring_in(-60));
    not_ready(&node, "has expired");
    node.rotate_token(&token_expiring_in(3600));
    becomes_ready(&node);

    // A directory cannot be replaced by a file.
    fs::remove_file(node.executable()).unwrap();
    while fs::create_dir(node.executable()).is_err() {
        fs::remove_file(node.executable()).unwrap();
    }
    not_ready(&node, "missing or different");
    fs::remove_dir(node.executable()).unwrap();
    becomes_ready(&node);
}

#[test]
fn a_fight_is_not_ready_and_counted() {
    let mut node = node("127.0.0.1:0");
    node.drop_in("net.d/10-calico.conflist");
    node.start();
    for _ in 0..5 {
        node.wait_chained(CALICO);
        becomes_ready(&node);
        node.rename_in(CALICO, fixture_bytes("net.d/10-calico.conflist"));
    }
    not_ready(&node, "another writer keeps undoing");
    let undone = |node: &Node| node.metrics().value("linkerd_cni_installer_undone_total");
    assert_eq!(undone(&node), Some(5.0));
    // Also those that are not answered at once.
    for more in 1..=3 {
        node.wait_chained(CALICO);
        node.rename_in(CALICO, fixture_bytes("net.d/10-calico.conflist"));
        node.wait("another one", |node| {
            undone(node) == Some(5.0 + f64::from(more))
        });
    }
}

#[test]
fn metrics_tell_what_was_done() {
    let mut node = node("[::1]:0");
    node.set("RESYNC_INTERVAL", "100ms");
    let token = token_expiring_in(3600);
    node.rotate_token(&token);
    node.drop_in("net.d/10-calico.conflist");
    node.drop_in("net.d/80-openshift-network.conf");
    node.drop_in("net.d/200-loopback.conflist");
    node.start();
    becomes_ready(&node);
    let unchanged = "linkerd_cni_installer_passes_total{result=\"unchanged\"}";
    node.wait("a resync", |node| {
        node.metrics().value(unchanged) > Some(2.0)
    });
    let metrics = node.metrics();
    let value = |name: &str| metrics.value(&format!("linkerd_cni_installer_{name}"));
    assert_eq!(value("configurations_chained"), Some(2.0), "{metrics:#?}");
    assert_eq!(value("undone_total"), Some(0.0));
    assert!(value("passes_total{result=\"changed\"}") >= Some(1.0));
    let now = linkerd_cni_integration::process::run("date", &["+%s"]).unwrap();
    let now: f64 = now.trim().parse().unwrap();
    let last = value("last_change_timestamp_seconds").unwrap();
    assert!((now - 60.0..=now + 1.0).contains(&last), "{last} at {now}");
    let expiry = value("token_expiry_timestamp_seconds").unwrap();
    assert!(
        (now + 3000.0..=now + 3601.0).contains(&expiry),
        "{expiry} at {now}"
    );
    assert_eq!(
        metrics.starting("linkerd_cni_build_info{version=\"").len(),
        1
    );

    // A step that cannot be done.
    fs::remove_file(node.service_account().join("..data/token")).unwrap();
    let failed = "linkerd_cni_installer_passes_total{result=\"failed\"}";
    node.wait("a failed pass", |node| {
        node.metrics().value(failed) > Some(0.0)
    });
    let expiry = "linkerd_cni_installer_token_expiry_timestamp_seconds";
    assert_eq!(node.metrics().value(expiry), None);
}

#[test]
fn who_does_not_ask_for_openmetrics_gets_the_classic_text() {
    let mut node = node("127.0.0.1:0");
    node.start();
    let answer = http::get(node.admin(), "/metrics");
    assert!(
        answer
            .head
            .contains("content-type: text/plain; version=0.0.4"),
        "{answer:?}"
    );
    let types: BTreeMap<_, _> = answer
        .body
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '))
        .collect();
    for line in answer.body.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap();
        let expected = if name.ends_with("_total") {
            "counter"
        } else {
            "gauge"
        };
        assert_eq!(types.get(name), Some(&expected), "{line}");
    }
    assert!(!answer.body.contains("EOF"));
}

#[test]
fn an_address_that_is_none_is_an_error_at_start() {
    for address in [
        "9990",
        ":9990",
        "localhost:9990",
        "::1:9990",
        "1.2.3.4:99999",
    ] {
        let node = node(address);
        let finished = node.run(&[]);
        let log = String::from_utf8_lossy(&finished.stderr).into_owned();
        assert_eq!(finished.status.and_then(|s| s.code()), Some(1), "{log}");
        assert!(
            log.contains(&format!("ADMIN_ADDRESS={address}: expected IP:PORT")),
            "{log}"
        );
        assert!(!node.executable().exists());
    }
}

#[test]
fn a_port_that_is_taken_keeps_no_node_from_being_chained() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap();
    let mut node = node(&address.to_string());
    node.set("RESYNC_INTERVAL", "50ms");
    node.start();
    node.drop_in("net.d/10-calico.conflist");
    node.wait_chained(CALICO);
    let warning = format!("WARN /live, /ready and /metrics are not served on {address}");
    node.wait("the warning", |node| node.logged(&warning) == 1);
    drop(other);
    node.wait("ready", |node| {
        node.logged(&format!("Serving /live, /ready and /metrics on {address}")) == 1
    });
    becomes_ready(&node);
    assert_eq!(node.logged(&warning), 1, "{}", node.log());
}

#[test]
fn clients_that_do_nothing_or_too_much_keep_no_probe_out() {
    let mut node = node("127.0.0.1:0");
    node.drop_in("net.d/10-calico.conflist");
    node.start();
    let address = node.admin();
    becomes_ready(&node);
    let fds = |node: &Node| {
        fs::read_dir(format!("/proc/{}/fd", node.pid()))
            .unwrap()
            .count()
    };
    let before = fds(&node);
    let silent = |n: usize| {
        let mut stream = TcpStream::connect(address).unwrap();
        let _ = match n % 3 {
            0 => Ok(()),
            1 => stream.write_all(b"GET /metrics HTTP/1.1\r\nhost:"),
            _ => stream.write_all(b"POST /live HTTP/1.1\r\ncontent-length: 1000000\r\n"),
        };
        stream
    };
    let open: Vec<_> = (0..200).map(silent).collect();
    for _ in 0..20 {
        assert_eq!(http::get(address, "/ready").status, 200);
    }
    assert!(fds(&node) <= before + 17, "{} of {before}", fds(&node));
    drop(open);

    let long = format!("GET /live HTTP/1.1\r\nx: {}\r\n\r\n", "x".repeat(100_000));
    // It may be cut off before all of it is sent.
    if let Ok(answer) = http::send(address, &long) {
        assert_eq!(answer.status, 431, "{answer:?}");
    }
    let status = |request: &str| {
        let request = format!("{request} HTTP/1.1\r\nhost: x\r\n\r\n");
        http::send(address, &request).unwrap().status
    };
    assert_eq!(status("GET /"), 404);
    assert_eq!(status("POST /metrics"), 405);
    assert_eq!(status("HEAD /ready"), 200);
    assert_eq!(status("GET /ready?verbose"), 200);
    assert_eq!(status("nonsense"), 400);
    assert!(node.is_alive());
}

#[test]
fn who_listens_and_serves_sleeps_as_long_as_nothing_happens() {
    let mut node = node("127.0.0.1:0");
    node.set("RESYNC_INTERVAL", "1h");
    fs::create_dir_all(node.run_dir()).unwrap();
    node.drop_in("net.d/10-calico.conflist");
    node.start();
    becomes_ready(&node);
    node.wait("quiet", |node| {
        let before = wakeups(node);
        thread::sleep(Duration::from_millis(500));
        before == wakeups(node)
    });
    let before = wakeups(&node);
    thread::sleep(Duration::from_millis(1500));
    assert_eq!(wakeups(&node), before);
}

/// How often each thread of the installer went to sleep of its own will.
fn wakeups(node: &Node) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{}/task", node.pid())).unwrap();
    let status = |task: std::io::Result<fs::DirEntry>| {
        fs::read_to_string(task.unwrap().path().join("status")).unwrap()
    };
    let mut all: Vec<_> = tasks
        .map(status)
        .flat_map(|text| {
            let line = |start: &str| {
                text.lines()
                    .find(|l| l.starts_with(start))
                    .map(str::to_owned)
            };
            [line("Pid:"), line("voluntary_ctxt_switches:")]
        })
        .flatten()
        .collect();
    all.sort();
    all
}

#[test]
fn without_an_address_nothing_listens() {
    let mut node = Node::new();
    node.drop_in("net.d/10-calico.conflist");
    node.start();
    node.wait_chained(CALICO);
    let sockets: Vec<_> = fs::read_dir(format!("/proc/{}/fd", node.pid()))
        .unwrap()
        .filter_map(|fd| fs::read_link(fd.unwrap().path()).ok())
        .filter(|to| to.to_string_lossy().starts_with("socket:"))
        .collect();
    assert!(sockets.is_empty(), "{sockets:?}");
}
