//! What the plugin decides stands in the installer's log, and is counted.

use std::fs::{self, Permissions};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use linkerd_cni_integration::api_server::{Fault, TOKEN};
use linkerd_cni_integration::fixtures;
use linkerd_cni_integration::http;
use linkerd_cni_integration::kubeconfig::token_expiring_in;
use linkerd_cni_integration::netns::{Netns, unique_name};
use linkerd_cni_integration::node::{KUBECONFIG, Node};
use linkerd_cni_integration::plugin::Call;
use linkerd_cni_integration::stage::{Stage, network_config};
use nix::sys::signal::Signal;
use serde_json::json;

const LISTENING: &str = "Listening for decisions on";
const MISSING: &str = "The plugin's decisions are not shown here";

/// A node whose installer listens and serves.
fn node() -> Node {
    let mut node = Node::new();
    node.set("ADMIN_ADDRESS", "127.0.0.1:0");
    node.set("RESYNC_INTERVAL", "100ms");
    fs::create_dir_all(node.run_dir()).unwrap();
    node
}

fn started() -> Node {
    let mut node = node();
    node.start();
    node.wait("the socket", |node| socket(node).exists());
    node
}

fn socket(node: &Node) -> PathBuf {
    node.run_dir().join("log.sock")
}

/// A call of a plugin on this node: its `/run/linkerd-cni` is the node's.
fn on(node: &Node, call: Call) -> Call {
    let dir = node.run_dir();
    call.with_mounts(&format!(
        "mkdir -p /run/linkerd-cni; mount --bind {} /run/linkerd-cni",
        dir.display()
    ))
}

fn tell(node: &Node, datagram: &[u8]) {
    let sender = UnixDatagram::unbound().unwrap();
    sender.send_to(datagram, socket(node)).unwrap();
}

fn mode(path: &PathBuf) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn every_pods_decision_is_logged_and_counted() {
    let node = started();
    let [meshed, unmeshed, bad, away] =
        ["meshed", "unmeshed", "bad-annotation", "meshed"].map(Stage::new);
    on(&node, meshed.add()).succeed();
    on(&node, unmeshed.add()).succeed();
    on(&node, bad.add()).fail(102);
    away.api.misbehave(Fault::Status(403));
    on(&node, away.add()).fail(103);
    let installer = Stage::new("unmeshed");
    on(
        &node,
        installer.add().pod("linkerd-cni", "linkerd-cni-abcde"),
    )
    .succeed();
    node.wait("all decisions", |node| node.logged("linkerd-cni: ") == 5);
    for (start, words) in [
        (
            "INFO linkerd-cni: emojivoto/web-meshed redirected",
            "backend=nft rules=",
        ),
        (
            "INFO linkerd-cni: emojivoto/web-plain passed on",
            "reason=no-proxy requests=1 ms=",
        ),
        (
            "INFO linkerd-cni: linkerd-cni/linkerd-cni-abcde passed on",
            "reason=installer requests=0",
        ),
        (
            "WARN linkerd-cni: emojivoto/web-bad ADD failed: pod",
            "code=102 ms=",
        ),
        (
            "WARN linkerd-cni: emojivoto/web-meshed ADD failed:",
            "code=103",
        ),
    ] {
        let log = node.log();
        let line = log.lines().find(|line| line.contains(start));
        assert!(
            line.is_some_and(|line| line.contains(words)),
            "{start}: {log}"
        );
    }
    assert!(!node.log().contains(TOKEN), "{}", node.log());
    let metrics = node.metrics();
    for (sample, value) in [
        (
            "linkerd_cni_add_total{backend=\"nft\",decision=\"redirect\"}",
            1.0,
        ),
        (
            "linkerd_cni_add_total{decision=\"pass\",reason=\"no-proxy\"}",
            1.0,
        ),
        (
            "linkerd_cni_add_total{decision=\"pass\",reason=\"installer\"}",
            1.0,
        ),
        (
            "linkerd_cni_add_total{decision=\"error\",reason=\"102\"}",
            1.0,
        ),
        (
            "linkerd_cni_add_total{decision=\"error\",reason=\"103\"}",
            1.0,
        ),
        (
            "linkerd_cni_add_duration_seconds_count{phase=\"total\"}",
            5.0,
        ),
        ("linkerd_cni_add_duration_seconds_count{phase=\"api\"}", 4.0),
        (
            "linkerd_cni_add_duration_seconds_count{phase=\"rules\"}",
            1.0,
        ),
        ("linkerd_cni_installer_reports_ignored_total", 0.0),
    ] {
        assert_eq!(metrics.value(sample), Some(value), "{sample}: {metrics:#?}");
    }
}

/// What a `current` link that is swapped does to a mount: the plugin is elsewhere.
#[test]
fn a_plugin_that_does_not_read_our_kubeconfig_is_a_fault_that_says_how_to_mend_it() {
    let mut node = node();
    node.rotate_token(&token_expiring_in(3600));
    node.drop_in("net.d/10-calico.conflist");
    node.start();
    let ready = |node: &Node| http::get(node.admin(), "/ready");
    node.wait("ready", |node| ready(node).status == 200);
    let path = format!("/etc/cni/net.d/{KUBECONFIG}");
    let [nowhere, stale] = ["meshed", "meshed"].map(Stage::new);
    let elsewhere = network_config("template-chart", Path::new(&path));
    stale.api.misbehave(Fault::Status(401));
    for (call, code, words) in [
        (nowhere.add().config(&elsewhere), 11, "does not find"),
        (stale.add(), 103, "is refused (401) with"),
    ] {
        on(&node, call).fail(code);
        let what = format!("the plugin {words} {path}");
        node.wait("the fault", |node| {
            let answer = ready(node);
            answer.status == 503 && answer.body.contains(&what)
        });
        let status = node.run(&["status"]);
        let said = String::from_utf8_lossy(&status.stdout).into_owned();
        assert!(said.contains(&what), "{said}");
        assert!(
            said.contains("mount the directory above the link"),
            "{said}"
        );
        assert_eq!(node.logged(&what), 1, "{}", node.log());
        // It is over once a pod starts.
        on(&node, Stage::new("unmeshed").add()).succeed();
        node.wait("ready again", |node| ready(node).status == 200);
    }
    // A token that has ended here too is another matter, and said already.
    node.rotate_token(&token_expiring_in(-60));
    node.wait("the token's end", |node| {
        ready(node).body.contains("has expired")
    });
    on(&node, stale.add()).fail(103);
    node.wait("the decision", |node| node.logged("ADD failed") == 3);
    assert!(!ready(&node).body.contains("(401)"));
}

#[test]
fn what_goes_around_the_proxy_stands_in_the_line_of_the_pod() {
    let node = started();
    let mut pod = fixtures::pod("meshed");
    pod["spec"]["runtimeClassName"] = json!("kata-qemu");
    // Its previous result has an address of IPv6.
    let stage = Stage::in_namespace(pod, &Arc::new(Netns::new())).linkerd("ipv6", false);
    on(&node, stage.add()).succeed();
    node.wait("the decision", |node| node.logged("linkerd-cni: ") == 1);
    let log = node.log();
    let start = "WARN linkerd-cni: emojivoto/web-meshed redirected, but: ";
    let line = log.lines().find(|line| line.contains(start));
    let line = line.unwrap_or_else(|| panic!("{log}"));
    for words in [
        "runtimeClassName kata-qemu",
        "fd00:244:1::2",
        "backend=nft rules=",
    ] {
        assert!(line.contains(words), "{words}: {line}");
    }
    let counted = "linkerd_cni_add_total{backend=\"nft\",decision=\"redirect\"}";
    assert_eq!(node.metrics().value(counted), Some(1.0));

    // What a plugin of another version says: of nothing, and of more than is known here.
    let other = |more: &str| {
        format!(
            "{{\"verb\":\"ADD\",\"namespace\":\"ns\",\"pod\":\"web\"{more},\
             \"outcome\":{{\"decision\":\"redirect\",\"backend\":\"nft\",\"rules\":9}}}}"
        )
    };
    tell(&node, other("").as_bytes());
    node.wait("an earlier one's", |node| {
        node.logged("INFO linkerd-cni: ns/web redirected") == 1
    });
    let later = r#","later":[1],"warnings":["a\u001b[31m\n[2026] INFO b"]"#;
    tell(&node, other(later).as_bytes());
    let escaped = "WARN linkerd-cni: ns/web redirected, but: a";
    node.wait("a later one's", |node| node.logged(escaped) == 1);
    let raw = |c: char| c.is_control() && c != '\n';
    assert!(!node.log().contains(raw), "{:?}", node.log());
}

#[test]
fn sixty_four_adds_at_once_are_all_logged() {
    let mut node = node();
    // Of a network namespace: what systemd sets on its hosts.
    let script = "echo 512 > /proc/sys/net/unix/max_dgram_qlen && exec \"$0\" \"$@\"";
    node.start_behind(&["unshare", "--net", "sh", "-c", script]);
    node.wait("the socket", |node| socket(node).exists());
    let stage = Stage::new("unmeshed");
    let pods: Vec<_> = (0..64).map(|_| (unique_name(), Netns::new())).collect();
    thread::scope(|scope| {
        for (id, netns) in &pods {
            let add = on(&node, stage.add().container(id).netns(&netns.path()));
            scope.spawn(move || add.succeed());
        }
    });
    node.wait("64 decisions", |node| node.logged("passed on") == 64);
}

#[test]
fn the_directory_and_the_socket_are_for_root_alone_and_the_socket_goes() {
    let mut node = node();
    fs::set_permissions(node.run_dir(), Permissions::from_mode(0o755)).unwrap();
    node.start_behind(&["sh", "-c", "umask 000; exec \"$0\" \"$@\""]);
    node.wait("the socket", |node| socket(node).exists());
    assert_eq!(
        (mode(&node.run_dir()), mode(&socket(&node))),
        (0o700, 0o600)
    );
    node.set("ON_EXIT", "keep");
    node.stop(Signal::SIGTERM);
    assert!(!socket(&node).exists());

    // One that is killed leaves it, and the next one takes its place.
    node.start_behind(&[]);
    node.wait("the socket", |node| node.logged(LISTENING) == 2);
    node.stop(Signal::SIGKILL);
    assert!(socket(&node).exists());
    node.start_behind(&[]);
    node.wait("the socket again", |node| node.logged(LISTENING) == 3);
    tell(
        &node,
        br#"{"verb":"ADD","container":"c1","outcome":{"decision":"pass","reason":"x"}}"#,
    );
    node.wait("the decision", |node| {
        node.logged("container c1 passed on") == 1
    });
    let names = fs::read_dir(node.run_dir()).unwrap().count();
    assert_eq!(names, 1, "only the socket");
}

#[test]
fn a_directory_that_comes_later_is_found_at_a_resync() {
    let mut node = node();
    fs::remove_dir(node.run_dir()).unwrap();
    node.start();
    node.wait("the notice", |node| node.logged(MISSING) == 1);
    let before = node
        .metrics()
        .value("linkerd_cni_installer_passes_total{result=\"unchanged\"}");
    node.wait("some passes", |node| {
        node.metrics()
            .value("linkerd_cni_installer_passes_total{result=\"unchanged\"}")
            > before.map(|passes| passes + 3.0)
    });
    assert_eq!(node.logged(&format!("INFO {MISSING}")), 1, "{}", node.log());
    // The plugin makes it at the first ADD.
    fs::create_dir(node.run_dir()).unwrap();
    node.wait("the socket", |node| socket(node).exists());
    // And somebody who cleans up is no matter.
    fs::remove_dir_all(node.run_dir()).unwrap();
    fs::create_dir(node.run_dir()).unwrap();
    node.wait("the socket", |node| socket(node).exists());
    node.wait("a listener", |node| {
        UnixDatagram::unbound()
            .unwrap()
            .connect(socket(node))
            .is_ok()
    });
}

#[test]
fn what_is_in_the_sockets_place_is_left_alone_and_said_once() {
    for directory in [true, false] {
        let mut node = node();
        if directory {
            fs::create_dir(socket(&node)).unwrap();
        } else {
            fs::write(socket(&node), "somebody's").unwrap();
        }
        node.start();
        let warning = format!("WARN {MISSING}");
        node.wait("the warning", |node| node.logged(&warning) == 1);
        node.drop_in("net.d/10-calico.conflist");
        node.wait_chained("10-calico.conflist");
        thread::sleep(Duration::from_millis(300));
        assert_eq!(node.logged(MISSING), 1, "{}", node.log());
        let kind = fs::symlink_metadata(socket(&node)).unwrap().file_type();
        assert!(!kind.is_socket());
        fs::remove_dir(socket(&node))
            .or_else(|_| fs::remove_file(socket(&node)))
            .unwrap();
        node.wait("the socket", |node| node.logged(LISTENING) == 1);
    }
}

#[test]
fn garbage_is_counted_warned_of_once_and_never_printed() {
    for format in ["plain", "json"] {
        let mut node = node();
        node.set("LOG_FORMAT", format);
        node.start();
        node.wait("the socket", |node| socket(node).exists());
        let long = vec![b'x'; 60_000];
        for datagram in [
            &b""[..],
            b"\x1b[2Jgarbage",
            b"{}",
            b"[1]",
            b"\xff\xfe",
            &long,
        ] {
            tell(&node, datagram);
        }
        let ignored = "linkerd_cni_installer_reports_ignored_total";
        node.wait("all of it", |node| {
            node.metrics().value(ignored) == Some(6.0)
        });
        tell(
            &node,
            "{\"verb\":\"ADD\",\"namespace\":\"a\\u009b2J\",\"pod\":\"b\\n[2026] INFO c\",\
             \"outcome\":{\"decision\":\"pass\",\"reason\":\"\\u001b[31mred\"}}"
                .as_bytes(),
        );
        node.wait("the decision", |node| node.logged("passed on") == 1);
        let log = node.log();
        assert_eq!(node.logged("is no report of linkerd-cni"), 1, "{log}");
        assert!(!log.contains("garbage") && !log.contains("xxx"), "{log}");
        let raw = |c: char| c.is_control() && c != '\n';
        assert!(!log.contains(raw), "{log:?}");
        assert!(
            !log.lines().any(|line| line.starts_with("[2026] INFO c")),
            "{log}"
        );
        let metrics = node.metrics();
        let other = "linkerd_cni_add_total{decision=\"pass\",reason=\"other\"}";
        assert_eq!(metrics.value(other), Some(1.0), "{metrics:#?}");
    }
}

#[test]
fn the_later_of_two_installers_listens_and_the_earlier_ones_end_takes_nothing_away() {
    let mut first = started();
    let mut second = Node::new();
    second.set(
        "CONTAINER_MOUNT_PREFIX",
        &first.path("host").to_string_lossy(),
    );
    second.set("ON_EXIT", "keep");
    first.set("ON_EXIT", "keep");
    second.start_behind(&[]);
    second.wait("the socket", |node| node.logged(LISTENING) == 1);
    let passes = "linkerd_cni_installer_passes_total{result=\"unchanged\"}";
    let before = first.metrics().value(passes).unwrap_or_default();
    first.wait("some passes", |node| {
        node.metrics().value(passes) > Some(before + 3.0)
    });
    tell(
        &first,
        br#"{"verb":"ADD","container":"c1","outcome":{"decision":"pass","reason":"x"}}"#,
    );
    second.wait("the decision", |node| {
        node.logged("container c1 passed on") == 1
    });
    first.stop(Signal::SIGKILL);
    assert!(socket(&first).exists());
    tell(
        &first,
        br#"{"verb":"ADD","container":"c2","outcome":{"decision":"pass","reason":"x"}}"#,
    );
    second.wait("the decision", |node| {
        node.logged("container c2 passed on") == 1
    });
    second.stop(Signal::SIGTERM);
    assert!(!socket(&first).exists());
}
