//! Real connections, between pods and through the node's ports.

use std::net::{Ipv4Addr, SocketAddr};

use linkerd_cni_integration::fixtures;
use linkerd_cni_integration::netns::Netns;
use linkerd_cni_integration::rules;
use linkerd_cni_integration::traffic::{As, Landed, connect};

use crate::machine::{ADDRESS, Machine, dual_stack_list};
use crate::pod::{INBOUND, OUTBOUND, PROXY, Pod, Serving, WEB};

fn serve(machine: &Machine, fixture: &str, host_port: u16) -> Serving {
    let pod = Pod::of(machine, fixtures::pod(fixture)).host_port(host_port);
    pod.start(machine).unwrap().serve()
}

/// Where a connection landed, and for whom it was meant.
fn end(landed: Landed) -> (u16, Option<SocketAddr>) {
    (landed.port, landed.original)
}

#[test]
fn between_pods_connections_go_through_both_proxies() {
    let machine = Machine::chained();
    let (a, b) = (
        serve(&machine, "meshed", 0),
        serve(&machine, "native-sidecar", 0),
    );
    let unmeshed = serve(&machine, "unmeshed", 0);
    assert_eq!(end(a.out(As::APP, b.web())), (OUTBOUND, Some(b.web())));
    assert_eq!(end(a.out(PROXY, b.web())), (INBOUND, Some(b.web())));
    assert_eq!(end(b.out(PROXY, a.web())), (INBOUND, Some(a.web())));
    assert_eq!(
        end(unmeshed.out(As::APP, a.web())),
        (INBOUND, Some(a.web()))
    );
    assert_eq!(end(a.out(PROXY, unmeshed.web())), (WEB, None));
    // Over its own loopback the application is reached directly.
    let own = SocketAddr::from((Ipv4Addr::LOCALHOST, WEB));
    assert_eq!(end(a.out(As::APP, own)), (WEB, None));
}

#[test]
fn over_ipv6_they_do_as_well() {
    let machine = Machine::chained_to(&dual_stack_list());
    let (a, b) = (
        serve(&machine, "meshed", 0),
        serve(&machine, "native-sidecar", 0),
    );
    let ip = b.sandbox.other_ip.unwrap();
    assert!(ip.is_ipv6());
    let web = SocketAddr::new(ip, WEB);
    assert_eq!(end(a.out(As::APP, web)), (OUTBOUND, Some(web)));
    assert_eq!(end(a.out(PROXY, web)), (INBOUND, Some(web)));
    let landed = machine.namespaces.enter(|| connect(web)).unwrap();
    assert_eq!(end(landed), (INBOUND, Some(web)));
    assert_eq!(b.redirected(&machine), (true, true));
    for pod in [a, b] {
        pod.sandbox.end(&machine).unwrap();
    }
    assert_eq!(machine.left(), [""; 0]);
}

#[test]
fn through_a_port_of_the_node_connections_land_on_the_proxy() {
    let machine = Machine::chained();
    let (meshed, unmeshed) = (
        serve(&machine, "meshed", 18080),
        serve(&machine, "unmeshed", 18081),
    );
    let outside = neighbour(&machine);
    let address: Ipv4Addr = ADDRESS.parse().unwrap();
    for (port, pod) in [(18080, &meshed), (18081, &unmeshed)] {
        let expected = match port {
            18080 => (INBOUND, Some(pod.web())),
            _ => (WEB, None),
        };
        let to = SocketAddr::from((address, port));
        let landed = machine.namespaces.enter(|| connect(to)).unwrap();
        assert_eq!(end(landed), expected, "from the node");
        let landed = outside.enter(|| connect(to)).unwrap();
        assert_eq!(end(landed), expected, "from another machine");
    }
    for pod in [&meshed, &unmeshed] {
        pod.sandbox.end(&machine).unwrap();
    }
    let to = SocketAddr::from((address, 18080));
    assert!(outside.enter(|| connect(to)).is_err());
}

#[test]
fn the_hosts_own_network_is_left_alone() {
    let host = || {
        let netns = Netns::at("/proc/self/ns/net".as_ref());
        let addresses = netns.run("ip", &["-o", "addr"]).unwrap();
        (addresses, rules::everything(&netns))
    };
    let before = host();
    let machine = Machine::chained();
    let serving = serve(&machine, "meshed", 18080);
    assert_eq!(serving.redirected(&machine), (true, true));
    assert_eq!(host(), before);
    serving.sandbox.end(&machine).unwrap();
    drop((serving, machine));
    assert_eq!(host(), before);
}

/// Another machine on the node's network.
fn neighbour(machine: &Machine) -> Netns {
    let (outside, node) = (Netns::new(), machine.netns());
    node.ip(&format!(
        "link add eth0 type veth peer name eth0 netns {}\n\
         link set eth0 up\n\
         addr add 192.0.2.129/25 dev eth0\n",
        outside.name(),
    ));
    outside.ip("link set eth0 up\n\
         addr add 192.0.2.130/25 dev eth0\n\
         route add default via 192.0.2.129\n");
    outside
}
