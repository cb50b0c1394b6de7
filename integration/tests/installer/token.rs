//! The kubeconfig follows the service account.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use linkerd_cni_integration::node::Node;
use linkerd_cni_integration::process;

#[test]
fn a_rotated_token_reaches_the_kubeconfig_and_nothing_else() {
    let mut node = Node::new();
    node.set("RESYNC_INTERVAL", "1h");
    node.drop_in("net.d/10-calico.conflist");
    node.drop_in("net.d/80-openshift-network.conf");
    // A umask that would let everybody read, were it left to that.
    node.start_behind(&["sh", "-c", "umask 000; exec \"$0\" \"$@\""]);
    node.wait_chained("10-calico.conflist");
    node.wait_chained("80-openshift-network.conflist");
    // And the temporary file that it went through.
    node.wait("the original aside", |node| {
        let names = node.names();
        let mut names = names.iter();
        !names.any(|name| name == "80-openshift-network.conf" || name.ends_with("-tmp"))
    });
    let stamps = |node: &Node| -> Vec<_> {
        node.files()
            .keys()
            .map(|name| fs::metadata(node.conf(name)).unwrap())
            .map(|m| (m.ino(), m.ctime_nsec()))
            .collect()
    };
    let before = stamps(&node);
    let over = Arc::new(AtomicBool::new(false));
    let (path, stop) = (node.kubeconfig(), Arc::clone(&over));
    let reader = thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            let text = fs::read_to_string(&path).unwrap();
            assert!(
                text.starts_with("# Kubeconfig")
                    && text.ends_with("current-context: linkerd-cni-context\n"),
                "{text}"
            );
            assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
        }
    });
    for rotation in 0..20 {
        let token = format!("e30.e30.rotated-{rotation}");
        node.rotate_token(&token);
        let started = std::time::Instant::now();
        node.wait(&token, |node| {
            fs::read_to_string(node.kubeconfig())
                .is_ok_and(|text| text.contains(&format!("    token: {token}\n")))
        });
        assert!(started.elapsed().as_secs() < 10, "{:?}", started.elapsed());
    }
    over.store(true, Ordering::Relaxed);
    reader.join().unwrap();
    assert_eq!(stamps(&node), before);
    assert!(!node.log().contains("e30.e30"), "{}", node.log());
}

#[test]
fn the_url_is_one_that_every_client_reads() {
    for (host, url) in [
        ("10.96.0.1", "https://10.96.0.1:443"),
        (
            "kubernetes.default.svc",
            "https://kubernetes.default.svc:443",
        ),
        ("fd00:10:96::1", "https://[fd00:10:96::1]:443"),
        ("[fd00:10:96::1]", "https://[fd00:10:96::1]:443"),
    ] {
        let mut node = Node::new();
        node.set("KUBERNETES_SERVICE_HOST", host);
        node.install_once();
        let text = fs::read_to_string(node.kubeconfig()).unwrap();
        assert!(text.contains(&format!("    server: {url}\n")), "{text}");
        assert!(
            text.contains(&format!(
                "    certificate-authority-data: {}\n",
                STANDARD.encode("CA\n")
            )),
            "{text}"
        );
    }
}

#[test]
fn a_kubeconfig_of_an_earlier_version_is_repaired() {
    let node = Node::new();
    fs::copy(
        linkerd_cni_integration::fixtures::path("linkerd/kubeconfig-bracketed-ipv4.yaml"),
        node.kubeconfig(),
    )
    .unwrap();
    node.install_once();
    assert!(
        fs::read_to_string(node.kubeconfig())
            .unwrap()
            .contains("server: https://10.60.0.1:443\n")
    );
    assert_eq!(
        fs::metadata(node.kubeconfig()).unwrap().mode() & 0o7777,
        0o600
    );
}

#[test]
fn what_is_missing_is_said_once_and_waited_for() {
    let mut node = Node::new();
    node.set("RESYNC_INTERVAL", "50ms");
    let token = node.service_account().join("..data/token");
    fs::remove_file(&token).unwrap();
    let before = node.drop_in("net.d/10-calico.conflist");
    node.start_behind(&[]);
    node.wait("the error", |node| {
        node.logged("the token cannot be read from") == 1
    });
    thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(node.logged("the token cannot be read from"), 1);
    assert_eq!(fs::read(node.conf("10-calico.conflist")).unwrap(), before);
    assert!(node.executable().exists() && node.is_alive());
    fs::write(&token, "e30.e30.late").unwrap();
    node.wait_chained("10-calico.conflist");

    let mut other = Node::new();
    other.unset("KUBERNETES_SERVICE_PORT");
    other.start_behind(&[]);
    other.wait("the error", |node| {
        node.logged("KUBERNETES_SERVICE_PORT is not set") == 1
    });
    assert!(other.is_alive());
}

#[test]
fn a_token_that_is_over_is_a_warning_and_not_ready() {
    let mut node = Node::new();
    node.drop_in("net.d/10-calico.conflist");
    let now = process::run("date", &["+%s"])
        .unwrap()
        .trim()
        .parse::<i64>()
        .unwrap();
    for (seconds, said) in [
        (-60, Some("has expired, at ")),
        (120, Some("expires in less than 5 minutes")),
        (3600, None),
    ] {
        let claims = URL_SAFE_NO_PAD.encode(format!("{{\"exp\":{}}}", now + seconds));
        node.rotate_token(&format!("e30.{claims}.x"));
        let log = node.install_once();
        let status = node.run(&["status"]);
        let out = String::from_utf8_lossy(&status.stdout).into_owned();
        match said {
            Some(said) => {
                assert!(
                    log.contains(&format!("WARN the service account's token {said}")),
                    "{log}"
                );
                assert!(out.contains(said), "{out}");
                assert_eq!(status.status.and_then(|s| s.code()), Some(1));
            }
            None => assert!(
                status.status.is_some_and(|s| s.success()) && !log.contains("token has"),
                "{out}{log}"
            ),
        }
    }
    node.set("SKIP_TLS_VERIFY", "true");
    node.set("KUBECONFIG_MODE", "644");
    let log = node.install_once();
    assert!(log.contains("KUBECONFIG_MODE"), "{log}");
    assert!(
        fs::read_to_string(node.kubeconfig())
            .unwrap()
            .contains("    insecure-skip-tls-verify: true\n")
    );
    assert_eq!(
        fs::metadata(node.kubeconfig()).unwrap().mode() & 0o7777,
        0o644
    );
}
