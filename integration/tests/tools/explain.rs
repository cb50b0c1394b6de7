//! `explain` says where a connection ends, and there it ends: the same questions
//! are asked of the kernel with real connections.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use linkerd_cni_integration::fixtures;
use linkerd_cni_integration::rules::{self, Family, Tables};
use linkerd_cni_integration::stage::Stage;
use linkerd_cni_integration::tool::{Said, Tool};
use linkerd_cni_integration::traffic::{As, Landed, Listener, Network};
use serde_json::json;

const PROXY: u32 = 2102;

#[test]
fn explain_agrees_with_the_kernel_with_nft() {
    agrees("nft", json!([]));
}

#[test]
fn explain_agrees_with_the_kernel_with_legacy() {
    agrees("legacy", json!([]));
}

#[test]
fn explain_agrees_with_the_kernel_with_native() {
    agrees("native", json!([]));
}

#[test]
fn explain_agrees_with_the_kernel_about_foreign_rules_in_the_table_of_native() {
    let mesh = Mesh::new("native", json!([]));
    let rules = "add chain inet linkerd-cni THEIRS\n\
        add rule inet linkerd-cni THEIRS meta l4proto udp accept\n\
        add rule inet linkerd-cni THEIRS iifname \"eth*\" tcp dport 8081 counter redirect to :222\n\
        add rule inet linkerd-cni THEIRS tcp dport { 222, 1000-2000 } accept\n\
        insert rule inet linkerd-cni PREROUTING jump THEIRS\n\
        insert rule inet linkerd-cni OUTPUT oifname eth0 tcp dport 587 redirect to :222\n\
        insert rule inet linkerd-cni OUTPUT oifname != lo meta skuid 3500 accept\n";
    let fed = mesh.network.pod.run_with_input("nft", &["-f", "-"], rules);
    fed.unwrap_or_else(|error| panic!("{error:#}"));
    for family in [Family::V4, Family::V6] {
        let _listening = mesh.listen(family);
        for port in [80, 222, 8081] {
            mesh.inbound(family, port);
        }
        for who in [As::APP, As::user(3500), As::user(PROXY)] {
            for port in [80, 587] {
                mesh.outbound(who, peer(family, port));
            }
        }
    }
}

#[test]
fn a_table_of_others_that_comes_first_is_noted() {
    let mesh = Mesh::new("native", json!([]));
    let rules = "table ip theirs {\nchain early {\n\
        type nat hook prerouting priority -150\ntcp dport 8080 redirect to :222\n}\n}\n";
    let fed = mesh.network.pod.run_with_input("nft", &["-f", "-"], rules);
    fed.unwrap_or_else(|error| panic!("{error:#}"));
    let said = ask(&mesh.network, "10.244.1.1", "10.244.1.2:80", None);
    said.prints(&[
        "ends: proxy inbound, port 4143",
        "note: unless chain early of table ip theirs (priority -150), which comes first, takes it: \
         -p tcp -m tcp --dport 8080 -j REDIRECT --to-ports 222",
    ]);
    let said = ask(&mesh.network, "10.244.1.2", "10.244.1.1:80", None);
    assert!(!said.stdout.contains("note:"), "{said:#?}");
}

#[test]
fn explain_agrees_with_the_kernel_where_only_some_ports_are_redirected() {
    for mode in ["nft", "native"] {
        agrees(mode, json!([80, 8081]));
    }
}

#[test]
fn explain_agrees_with_the_kernel_about_interfaces_and_where_connections_go() {
    for mode in ["nft", "legacy", "native"] {
        let mesh = Mesh::with(mode, |stage| {
            stage
                .linkerd("interfaces-to-ignore", json!(["net+"]))
                .linkerd("outbound-ports-to-redirect", json!([80, 3306]))
                .linkerd(
                    "outbound-subnets-to-ignore",
                    json!(["192.168.77.0/24", "fd77::/64"]),
                )
        });
        mesh.network.join_again("net1");
        for family in [Family::V4, Family::V6] {
            let _listening = mesh.listen(family);
            mesh.inbound(family, 8081);
            let landed = mesh.network.inbound_by_second(family, 8081);
            let to = SocketAddr::new(Network::pod_second(family), 8081);
            let from = Network::peer_second(family).to_string();
            mesh.agree(landed, &from, to, None);
            for port in [80, 587, 3306] {
                mesh.outbound(As::APP, peer(family, port));
            }
            for ip in [
                Network::peer_elsewhere(family),
                Network::peer_second(family),
            ] {
                mesh.outbound(As::APP, SocketAddr::new(ip, 80));
            }
        }
    }
}

#[test]
fn the_interface_may_be_named_if_the_connection_can_go_over_it() {
    let mesh = Mesh::with("nft", |stage| {
        stage.linkerd("interfaces-to-ignore", json!(["net1"]))
    });
    mesh.network.join_again("net1");
    let ask = |from: &str, to: &str, interface: &str| {
        let words = [
            "explain",
            "--from",
            from,
            "--to",
            to,
            "--interface",
            interface,
        ];
        Tool::new(&words)
            .arg("--netns")
            .arg(mesh.network.pod.path())
    };
    for (from, to) in [
        ("192.0.2.1", "10.244.1.2:80"),
        ("10.244.1.2", "192.0.2.1:80"),
    ] {
        ask(from, to, "net1")
            .exits(0)
            .prints(&["(interface net1)", "ends: untouched"]);
        ask(from, to, "eth0")
            .exits(0)
            .prints(&["(interface eth0)", "ends: proxy "]);
        ask(from, to, "net2")
            .exits(2)
            .complains(&["the pod has no interface net2; it has eth0, lo, net1"]);
        ask(from, to, "lo")
            .exits(2)
            .complains(&["does not go over lo"]);
    }
    ask("127.0.0.1", "127.0.0.1:80", "net1")
        .exits(2)
        .complains(&["a connection over loopback does not go over net1"]);
}

#[test]
fn explain_agrees_with_the_kernel_about_rules_of_others() {
    for (mode, tables) in [("nft", Tables::Nft), ("legacy", Tables::Legacy)] {
        let mesh = Mesh::new(mode, json!([]));
        for family in [Family::V4, Family::V6] {
            let payload = "*nat\n:THEIRS - [0:0]\n\
                -I PREROUTING 1 -j THEIRS\n\
                -A THEIRS -p udp -j ACCEPT\n\
                -A THEIRS -i eth+ -p tcp -m tcp --dport 8081 -j REDIRECT --to-ports 222\n\
                -A THEIRS -p tcp -m multiport --dports 222,1000:2000 -m addrtype --dst-type LOCAL -j ACCEPT\n\
                -I OUTPUT 1 -o eth0 -p tcp -m tcp --dport 587 -j REDIRECT --to-ports 222\n\
                -I OUTPUT 1 ! -o lo -m owner --uid-owner 3000-3999 -j ACCEPT\n\
                COMMIT\n";
            rules::restore(&mesh.network.pod, tables, family, payload);
            let _listening = mesh.listen(family);
            for port in [80, 222, 8081] {
                mesh.inbound(family, port);
            }
            for who in [As::APP, As::user(3500), As::user(PROXY)] {
                for port in [80, 587] {
                    mesh.outbound(who, peer(family, port));
                }
            }
        }
    }
}

#[test]
fn a_pod_without_rules_is_untouched() {
    let network = Network::new();
    let said = ask(&network, "10.244.1.1", "10.244.1.2:80", None);
    said.prints(&["inbound", "ends: untouched (there is no rule)"]);
}

#[test]
fn each_rule_is_printed_with_its_verdict() {
    let mesh = Mesh::new("nft", json!([]));
    let said = ask(&mesh.network, "10.244.1.1:40000", "10.244.1.2:80", None);
    let lines: Vec<&str> = said.stdout.lines().collect();
    let line = |part: &str| {
        let found = lines.iter().find(|line| line.contains(part));
        *found.unwrap_or_else(|| panic!("lacks {part:?}: {said:#?}"))
    };
    line("TCP 10.244.1.1:40000 -> 10.244.1.2:80, inbound (interface eth0), meets PREROUTING");
    line("PREROUTING                1  yes        -j PROXY_INIT_REDIRECT");
    let ignored = line("-p tcp -m multiport --dports 4191");
    assert!(ignored.starts_with("  PROXY_INIT_REDIRECT     1  no         -p tcp "));
    assert!(ignored.contains(" -j RETURN  (port 80 is not among 4191"));
    line("  PROXY_INIT_REDIRECT     3  yes        -p tcp -j REDIRECT --to-ports 4143");
    line("ends: proxy inbound, port 4143 (rule 3 of PROXY_INIT_REDIRECT)");
}

#[test]
fn a_rule_that_cannot_be_evaluated_is_said() {
    let mesh = Mesh::new("nft", json!([]));
    let payload = "*nat\n-I PREROUTING 1 -m mark --mark 0x1 -j ACCEPT\nCOMMIT\n";
    rules::restore(&mesh.network.pod, Tables::Nft, Family::V4, payload);
    let said = ask(&mesh.network, "10.244.1.1", "10.244.1.2:80", None);
    said.prints(&[
        "not known",
        "match mark is not evaluated here",
        "ends: proxy inbound, port 4143",
        "note: unless rule 1 of PREROUTING takes it elsewhere",
    ]);
}

#[test]
fn the_pod_may_be_named() {
    let network = Network::new();
    let mut pod = fixtures::pod("meshed");
    pod["metadata"]["name"] = json!("web-explained");
    let stage = Stage::in_namespace(pod, &network.pod);
    stage.add().succeed();
    let said = Tool::new(&["explain", "--pod", "emojivoto/web-explained"])
        .arg("--from=10.244.1.2")
        .arg("--to=192.0.2.9:443")
        .exits(0);
    said.prints(&[
        "outbound (interface eth0)",
        "ends: proxy outbound, port 4140",
    ]);
    let own = Tool::new(&["explain", "--pod", "emojivoto/web-explained"])
        .arg("--from=192.0.2.1")
        .arg("--to=192.0.2.9:443")
        .exits(0);
    own.prints(&["neither address is the pod's"]);
}

fn agrees(mode: &str, only: serde_json::Value) {
    let mesh = Mesh::new(mode, only);
    for family in [Family::V4, Family::V6] {
        let _listening = mesh.listen(family);
        for port in [80, 222, 4190, 4191, 5432, 5433, 8081] {
            mesh.inbound(family, port);
        }
        mesh.inbound_from_elsewhere(family, 80);
        for who in [As::APP, As::user(0), As::user(PROXY), As::group(2103)] {
            for port in [25, 80, 587, 3306] {
                mesh.outbound(who, peer(family, port));
            }
            mesh.outbound(who, SocketAddr::new(Network::peer_elsewhere(family), 80));
            mesh.outbound(who, SocketAddr::new(localhost(family), 80));
            mesh.outbound(who, SocketAddr::new(Network::pod_ip(family), 80));
        }
    }
}

/// A pod with a network, after ADD.
struct Mesh {
    network: Network,
    _stage: Stage,
}

// === impl Mesh ===

impl Mesh {
    fn new(mode: &str, only: serde_json::Value) -> Self {
        Self::with(mode, |stage| stage.linkerd("ports-to-redirect", only))
    }

    fn with(mode: &str, configure: impl FnOnce(Stage) -> Stage) -> Self {
        let network = Network::new();
        let stage = Stage::in_namespace(fixtures::pod("meshed"), &network.pod)
            .linkerd("iptables-mode", mode)
            .linkerd("proxy-gid", 2103)
            .linkerd("subnets-to-ignore", json!(["192.168.77.0/24", "fd77::/64"]));
        let stage = configure(stage);
        stage.add().succeed();
        Self {
            network,
            _stage: stage,
        }
    }

    fn listen(&self, family: Family) -> Vec<Listener> {
        let pod = [4140, 4143, 80, 222, 4190, 4191, 5432, 5433, 8081];
        let peer = [25, 80, 587, 3306];
        let mut listeners = Listener::all(&self.network.pod, family, &pod);
        listeners.extend(Listener::all(&self.network.peer, family, &peer));
        listeners
    }

    fn inbound(&self, family: Family, port: u16) {
        let (from, to) = (Network::peer_ip(family), Network::pod_ip(family));
        let to = SocketAddr::new(to, port);
        let landed = self.network.inbound(family, port);
        self.agree(landed, &from.to_string(), to, None);
    }

    fn inbound_from_elsewhere(&self, family: Family, port: u16) {
        let to = SocketAddr::new(Network::pod_ip(family), port);
        let landed = self.network.inbound_from_elsewhere(family, port);
        let from = Network::peer_elsewhere(family).to_string();
        self.agree(landed, &from, to, None);
    }

    fn outbound(&self, who: As, to: SocketAddr) {
        let family = match to {
            SocketAddr::V4(_) => Family::V4,
            SocketAddr::V6(_) => Family::V6,
        };
        let from = match to.ip().is_loopback() {
            true => localhost(family),
            false => Network::pod_ip(family),
        };
        let landed = self.network.outbound(who, to);
        self.agree(landed, &from.to_string(), to, Some(who));
    }

    #[track_caller]
    fn agree(&self, landed: anyhow::Result<Landed>, from: &str, to: SocketAddr, who: Option<As>) {
        let landed = landed.unwrap_or_else(|error| panic!("{from} to {to}: {error:#}"));
        let expected = match (landed.original, landed.port) {
            (None, _) => "ends: untouched".to_owned(),
            (Some(_), 4143) => "ends: proxy inbound, port 4143".to_owned(),
            (Some(_), 4140) => "ends: proxy outbound, port 4140".to_owned(),
            (Some(_), port) => format!("ends: somewhere else: -j REDIRECT --to-ports {port}"),
        };
        let said = ask(&self.network, from, &to.to_string(), who);
        let ends = said.stdout.contains(&expected) && !said.stdout.contains("note:");
        assert!(ends, "the kernel: {expected}; {said:#?}");
    }
}

#[track_caller]
fn ask(network: &Network, from: &str, to: &str, who: Option<As>) -> Said {
    let mut tool = Tool::new(&["explain", "--from", from, "--to", to, "--netns"]);
    tool = tool.arg(network.pod.path());
    if let Some(As { uid, gid }) = who {
        tool = tool.arg(format!("--uid={uid}")).arg(format!("--gid={gid}"));
    }
    tool.exits(0)
}

fn peer(family: Family, port: u16) -> SocketAddr {
    SocketAddr::new(Network::peer_ip(family), port)
}

fn localhost(family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::LOCALHOST.into(),
        Family::V6 => Ipv6Addr::LOCALHOST.into(),
    }
}
