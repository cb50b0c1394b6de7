//! The interfaces of the calling thread's network namespace.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use nix::{
    ifaddrs::{InterfaceAddress, getifaddrs},
    net::if_::InterfaceFlags,
};

/// An address and the interface that has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    pub interface: String,
    pub ip: IpAddr,
}

/// Every address of the namespace.
#[must_use]
pub(crate) fn addresses() -> Vec<Address> {
    let interfaces = getifaddrs().into_iter().flatten();
    let address = |found: InterfaceAddress| {
        let ip = ip(&found)?;
        let interface = found.interface_name;
        Some(Address { interface, ip })
    };
    interfaces.filter_map(address).collect()
}

/// The name of every interface of the namespace.
#[must_use]
pub(crate) fn names() -> Vec<String> {
    let interfaces = getifaddrs().into_iter().flatten();
    let mut names: Vec<String> = interfaces.map(|found| found.interface_name).collect();
    names.sort();
    names.dedup();
    names
}

/// Whether an interface besides loopback and `ifname` is up. Devices that the kernel makes in
/// every namespace (`tunl0`, `sit0`) are down.
#[must_use]
pub(crate) fn has_other(ifname: &str) -> bool {
    let interfaces = getifaddrs().into_iter().flatten();
    interfaces
        .filter(|interface| !interface.flags.contains(InterfaceFlags::IFF_LOOPBACK))
        .filter(|interface| interface.flags.contains(InterfaceFlags::IFF_UP))
        .any(|interface| interface.interface_name != ifname)
}

/// The interface that the kernel would send a packet to this address by. Nothing is sent.
#[must_use]
pub(crate) fn towards(to: SocketAddr, addresses: &[Address]) -> Option<String> {
    let any: IpAddr = match to {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(to).ok()?;
    let source = socket.local_addr().ok()?.ip();
    interface_of(source, addresses)
}

/// The interface that has an address.
#[must_use]
pub(crate) fn interface_of(ip: IpAddr, addresses: &[Address]) -> Option<String> {
    let found = addresses.iter().find(|address| address.ip == ip)?;
    Some(found.interface.clone())
}

fn ip(found: &InterfaceAddress) -> Option<IpAddr> {
    let address = found.address.as_ref()?;
    let ipv4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
    ipv4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))
}
