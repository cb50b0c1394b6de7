//! Which API servers are trusted: those that Go's clients trust with the same kubeconfig, judged by
//! real connections. What is particular about certificates is in a table of `api-server-trust`.

use linkerd_cni_integration::api_server::Manner;
use linkerd_cni_integration::kubeconfig::{Contents, token_with};
use linkerd_cni_integration::plugin::Output;
use linkerd_cni_integration::rules;
use linkerd_cni_integration::stage::Stage;
use linkerd_cni_integration::verdicts::Case;

/// What Go trusts and we do not; README.md says why.
const NOT_SUPPORTED: [&str; 5] = [
    "signed by rsa1024 with SHA256-RSA",
    "signed by p224 with ECDSA-SHA256",
    "a CA as server, issued by the CA",
    "chain, of a CA as server",
    "leaf with critical policies",
];

#[test]
fn a_server_that_go_trusts_is_trusted() {
    let stage = Stage::new("meshed");
    let cases = Case::all();
    let trusted = cases.iter().filter(|case| case.go.is_empty());
    for case in trusted.filter(|case| !NOT_SUPPORTED.contains(&case.name.as_str())) {
        eprintln!("{}", case.name);
        show(&stage, case);
        stage.add().succeed();
        assert!(!rules::effective(&stage.netns).is_empty());
        stage.del().succeed();
    }
}

#[test]
fn a_server_that_go_does_not_trust_is_not_trusted() {
    let stage = Stage::new("meshed");
    let cases = Case::all();
    for case in cases.iter().filter(|case| !case.go.is_empty()) {
        eprintln!("{}", case.name);
        show(&stage, case);
        fails_closed(&stage, &["certificate", "1 attempt"]);
    }
    assert!(stage.api.requests().is_empty(), "the token was sent");
}

#[test]
fn what_is_not_supported_is_named() {
    let stage = Stage::new("meshed");
    for (case, words) in [
        (
            "signed by rsa1024 with SHA256-RSA",
            ["RSA with a key of 1024 bits", "2048"],
        ),
        (
            "signed by p224 with ECDSA-SHA256",
            ["ECDSA on P-224", "P-256"],
        ),
        ("signed with SHA-1", ["ECDSA with SHA-1", "SHA-256"]),
        (
            "signed by brainpoolP256r1",
            ["ECDSA on brainpoolP256r1", "P-256"],
        ),
        ("signed by Ed448", ["Ed448", "Ed25519"]),
        (
            "a CA as server, issued by the CA",
            ["CA:TRUE", "issued anew"],
        ),
    ] {
        show(&stage, &Case::named(case));
        let output = fails_closed(&stage, &words);
        let said = format!("{}{}", output.msg(), output.details());
        assert!(
            !said.contains("RBAC") && !said.contains("belong to"),
            "{said}"
        );
    }
}

#[test]
fn a_date_that_does_not_fit_asks_whether_the_clock_is_right() {
    let stage = Stage::new("meshed");
    for (case, word) in [
        (
            "itself with CA:TRUE, past",
            "expired at 2025-06-01T12:00:00Z",
        ),
        ("root past", "expired at 2025-06-01T12:00:00Z"),
        (
            "itself with CA:FALSE, future",
            "not valid before 2100-06-01T12:00:00Z",
        ),
        ("root future", "not valid before 2100-06-01T12:00:00Z"),
    ] {
        show(&stage, &Case::named(case));
        let clock = "is this node's clock right?";
        fails_closed(&stage, &[word, "by this node's clock it is 2", clock]);
    }
}

#[test]
fn a_token_that_is_not_good_now_asks_whether_the_clock_is_right() {
    let stage = Stage::new("meshed");
    for (claims, word) in [
        (
            r#"{"nbf":1500000000,"exp":1600000000}"#,
            "expired at 2020-09-13T12:26:40Z",
        ),
        (
            r#"{"nbf":4000000000,"exp":4100000000}"#,
            "not valid before 2096-10-02T07:06:40Z",
        ),
    ] {
        let contents = Contents {
            token: token_with(claims),
            ..Contents::of(&stage.api)
        };
        stage.kubeconfig.write(&contents);
        let output = stage.add().fail(103);
        output.says(&[
            "401",
            word,
            "by this node's clock it is 2",
            "is that right?",
        ]);
    }
}

#[test]
fn one_bad_block_does_not_spoil_the_others() {
    let stage = Stage::new("meshed");
    let (good, bad) = (stage.api.ca(), damaged(&stage.api.ca()));
    let after = 1 + good.lines().count();
    for (ca, line) in [
        (format!("{bad}{good}"), 1),
        (format!("# ours\n{good}{bad}"), 1 + after),
        (format!("-----BEGIN CERTIFICATE-----\n{good}"), 1),
        (format!("{good}-----BEGIN KEY-----\r\n"), after),
    ] {
        trust(&stage, &ca);
        let line = format!("line {line} is skipped");
        stage.add().succeed().logs(&["WARN", &line]);
        assert!(!rules::effective(&stage.netns).is_empty());
        stage.del().succeed();
    }
    trust(&stage, &bad);
    fails_closed(&stage, &["holds no certificate", "line 1 is skipped"]);
    trust(&stage, "a CA\n");
    fails_closed(&stage, &["holds no certificate"]);
}

#[test]
fn servers_of_either_version_that_ask_for_a_certificate_are_spoken_to() {
    let stage = Stage::new("meshed");
    for manner in [Manner::Plain, Manner::Tls12, Manner::AsksForCertificate] {
        stage.api.speak(manner);
        stage.add().succeed();
        stage.del().succeed();
    }
    stage.api.speak(Manner::DemandsCertificate);
    fails_closed(&stage, &["a certificate of its client", "1 attempt"]);
}

#[test]
fn the_name_that_the_kubeconfig_gives_is_the_one_that_counts() {
    let stage = Stage::new("meshed");
    let yaml = Contents::of(&stage.api).yaml();
    let named = |name: &str| {
        yaml.replace(
            "    server:",
            &format!("    tls-server-name: {name}\n    server:"),
        )
    };
    for name in [
        "kubernetes.default.svc",
        "KUBERNETES.default.svc.",
        "127.0.0.1",
    ] {
        stage.kubeconfig.write_text(&named(name));
        stage.add().succeed();
        stage.del().succeed();
    }
    stage.kubeconfig.write_text(&named("api.example.org"));
    fails_closed(
        &stage,
        &["is for 127.0.0.1, localhost", "not for api.example.org"],
    );
    stage.kubeconfig.write_text(&named("a..b"));
    fails_closed(&stage, &["tls-server-name \"a..b\""]);
}

#[test]
fn what_speaks_no_tls_is_told_so() {
    let stage = Stage::new("meshed");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it has an address");
    let server = std::thread::spawn(move || {
        use std::io::{Read as _, Write as _};
        let (mut stream, _) = listener.accept().expect("a connection");
        let _ = stream.read(&mut [0; 1024]);
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    });
    let contents = Contents {
        server: format!("https://{address}"),
        ..Contents::of(&stage.api)
    };
    stage.kubeconfig.write(&contents);
    fails_closed(
        &stage,
        &["speaks another protocol", "port of the API server"],
    );
    server.join().expect("it ends");
}

/// Makes the server show the case's certificates to a plugin that trusts the case's.
fn show(stage: &Stage, case: &Case) {
    stage.api.show(case);
    trust(stage, &case.roots);
}

fn trust(stage: &Stage, ca: &str) {
    let contents = Contents {
        ca: Some(ca.to_owned()),
        ..Contents::of(&stage.api)
    };
    stage.kubeconfig.write(&contents);
}

/// A block that is base64 and no certificate.
fn damaged(ca: &str) -> String {
    let lines: Vec<&str> = ca.lines().collect();
    [&lines[..1], &lines[3..], &[""]].concat().join("\n")
}

#[track_caller]
fn fails_closed(stage: &Stage, words: &[&str]) -> Output {
    let before = rules::effective(&stage.netns);
    let output = stage.add().fail(11);
    output.says(words);
    assert_eq!(before, rules::effective(&stage.netns));
    output
}
