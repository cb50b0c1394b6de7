//! Real TCP connections, and where they really land.
//!
//! A [`Network`] is the pod's namespace and a peer's, joined by a veth pair.
//! Every listener answers a connection with who it is and what the kernel says
//! the original destination was, so that the connection itself tells where it
//! landed.

use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrIn, SockaddrIn6, SockaddrLike, bind, setsockopt,
    socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};
use nix::unistd::{Gid, Uid, setfsgid, setfsuid};

pub use self::listener::{Landed, Listener};
use crate::netns::Netns;
use crate::rules::Family;

mod listener;

/// How long a connection may take; nothing here leaves the machine.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The pod's namespace and its only neighbour.
///
/// The peer also has an address in a subnet of its own
/// ([`Network::PEER_ELSEWHERE_V4`]), and the pod routes everything to it.
#[derive(Debug)]
pub struct Network {
    /// The pod's namespace, with `eth0` in it.
    pub pod: Arc<Netns>,
    /// The neighbour's.
    pub peer: Netns,
}

/// Who connects.
#[derive(Clone, Copy, Debug)]
pub struct As {
    /// The user whose socket it is.
    pub uid: u32,
    /// The group whose socket it is.
    pub gid: u32,
}

// === impl As ===

impl As {
    /// An application's ordinary user.
    pub const APP: Self = Self {
        uid: 1000,
        gid: 1000,
    };

    /// This user, in the application's group.
    pub const fn user(uid: u32) -> Self {
        Self { uid, gid: 1000 }
    }

    /// The application's user, in this group.
    pub const fn group(gid: u32) -> Self {
        Self { uid: 1000, gid }
    }
}

// === impl Network ===

impl Network {
    /// The pod's IPv4 address.
    pub const POD_V4: Ipv4Addr = Ipv4Addr::new(10, 244, 1, 2);
    /// The peer's IPv4 address.
    pub const PEER_V4: Ipv4Addr = Ipv4Addr::new(10, 244, 1, 1);
    /// The peer's other IPv4 address, in 192.168.77.0/24.
    pub const PEER_ELSEWHERE_V4: Ipv4Addr = Ipv4Addr::new(192, 168, 77, 1);
    /// The pod's IPv6 address.
    pub const POD_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x244, 1, 0, 0, 0, 0, 2);
    /// The peer's IPv6 address.
    pub const PEER_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x244, 1, 0, 0, 0, 0, 1);
    /// The peer's other IPv6 address, in fd77::/64.
    pub const PEER_ELSEWHERE_V6: Ipv6Addr = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 1);

    /// The pod's IPv4 address on its second interface.
    pub const POD_SECOND_V4: Ipv4Addr = Ipv4Addr::new(10, 99, 1, 2);
    /// The peer's IPv4 address there.
    pub const PEER_SECOND_V4: Ipv4Addr = Ipv4Addr::new(10, 99, 1, 1);
    /// The pod's IPv6 address on its second interface.
    pub const POD_SECOND_V6: Ipv6Addr = Ipv6Addr::new(0xfd99, 0, 0, 0, 0, 0, 0, 2);
    /// The peer's IPv6 address there.
    pub const PEER_SECOND_V6: Ipv6Addr = Ipv6Addr::new(0xfd99, 0, 0, 0, 0, 0, 0, 1);

    /// Makes both namespaces and joins them.
    ///
    /// # Panics
    ///
    /// If the machine does not let us.
    pub fn new() -> Self {
        Self::around(Arc::new(Netns::new()))
    }

    /// Makes the peer's namespace and joins it with this one, which has no
    /// interface yet.
    ///
    /// # Panics
    ///
    /// As [`Network::new`].
    pub fn around(pod: Arc<Netns>) -> Self {
        let peer = Netns::new();
        peer.ip(&format!(
            "link add eth0 type veth peer name eth0 netns {}\n\
             link set eth0 up\n\
             addr add {}/24 dev eth0\n\
             addr add {}/32 dev lo\n\
             addr add {}/64 dev eth0 nodad\n\
             addr add {}/128 dev lo nodad\n",
            pod.name(),
            Self::PEER_V4,
            Self::PEER_ELSEWHERE_V4,
            Self::PEER_V6,
            Self::PEER_ELSEWHERE_V6,
        ));
        pod.ip(&format!(
            "link set eth0 up\n\
             addr add {}/24 dev eth0\n\
             addr add {}/64 dev eth0 nodad\n\
             route add default via {}\n\
             route add ::/0 via {}\n",
            Self::POD_V4,
            Self::POD_V6,
            Self::PEER_V4,
            Self::PEER_V6,
        ));
        Self { pod, peer }
    }

    /// Gives the pod a second interface of this name, which leads to the peer too.
    ///
    /// # Panics
    ///
    /// If there is one already.
    pub fn join_again(&self, name: &str) {
        let pod = self.pod.name();
        self.peer.ip(&format!(
            "link add {name} type veth peer name {name} netns {pod}\n"
        ));
        for (netns, v4, v6) in [
            (&self.peer, Self::PEER_SECOND_V4, Self::PEER_SECOND_V6),
            (&*self.pod, Self::POD_SECOND_V4, Self::POD_SECOND_V6),
        ] {
            netns.ip(&format!(
                "link set {name} up\n\
                 addr add {v4}/24 dev {name}\n\
                 addr add {v6}/64 dev {name} nodad\n"
            ));
        }
    }

    /// The pod's address of this family on its second interface.
    pub fn pod_second(family: Family) -> IpAddr {
        match family {
            Family::V4 => Self::POD_SECOND_V4.into(),
            Family::V6 => Self::POD_SECOND_V6.into(),
        }
    }

    /// The peer's address of this family there.
    pub fn peer_second(family: Family) -> IpAddr {
        match family {
            Family::V4 => Self::PEER_SECOND_V4.into(),
            Family::V6 => Self::PEER_SECOND_V6.into(),
        }
    }

    /// The pod's address of this family.
    pub fn pod_ip(family: Family) -> IpAddr {
        match family {
            Family::V4 => Self::POD_V4.into(),
            Family::V6 => Self::POD_V6.into(),
        }
    }

    /// The peer's address of this family.
    pub fn peer_ip(family: Family) -> IpAddr {
        match family {
            Family::V4 => Self::PEER_V4.into(),
            Family::V6 => Self::PEER_V6.into(),
        }
    }

    /// The peer's address of this family in the other subnet.
    pub fn peer_elsewhere(family: Family) -> IpAddr {
        match family {
            Family::V4 => Self::PEER_ELSEWHERE_V4.into(),
            Family::V6 => Self::PEER_ELSEWHERE_V6.into(),
        }
    }

    /// From the peer's usual address to a port of the pod.
    ///
    /// # Errors
    ///
    /// If the connection does not come to be.
    pub fn inbound(&self, family: Family, port: u16) -> Result<Landed> {
        let to = SocketAddr::new(Self::pod_ip(family), port);
        self.peer.enter(|| connect(to))
    }

    /// From the peer to a port of the pod's second interface.
    ///
    /// # Errors
    ///
    /// If the connection does not come to be.
    pub fn inbound_by_second(&self, family: Family, port: u16) -> Result<Landed> {
        let to = SocketAddr::new(Self::pod_second(family), port);
        self.peer.enter(|| connect(to))
    }

    /// From the peer's address in the other subnet to a port of the pod.
    ///
    /// # Errors
    ///
    /// If the connection does not come to be.
    pub fn inbound_from_elsewhere(&self, family: Family, port: u16) -> Result<Landed> {
        let to = SocketAddr::new(Self::pod_ip(family), port);
        let from = Self::peer_elsewhere(family);
        self.peer.enter(|| who_answers(open_from(from, to), to))
    }

    /// From a process of the pod to any address.
    ///
    /// # Errors
    ///
    /// If the connection does not come to be.
    pub fn outbound(&self, who: As, to: SocketAddr) -> Result<Landed> {
        connect_as(&self.pod, who, to)
    }
}

impl Default for Network {
    fn default() -> Self {
        Self::new()
    }
}

/// Connects from the calling thread's namespace, and tells where it landed.
///
/// # Errors
///
/// If the connection does not come to be, or no [`Listener`] answers.
pub fn connect(to: SocketAddr) -> Result<Landed> {
    let stream = TcpStream::connect_timeout(&to, TIMEOUT).map_err(Into::into);
    who_answers(stream, to)
}

/// Connects from a namespace as a user and a group, and tells where it landed.
///
/// # Errors
///
/// If the connection does not come to be, or no [`Listener`] answers.
pub fn connect_as(netns: &Netns, who: As, to: SocketAddr) -> Result<Landed> {
    netns.enter(|| {
        // The owner match looks at the filesystem ids that the socket's maker
        // had; these belong to the thread, and this one ends here.
        setfsgid(Gid::from_raw(who.gid));
        setfsuid(Uid::from_raw(who.uid));
        connect(to)
    })
}

fn who_answers(stream: Result<TcpStream>, to: SocketAddr) -> Result<Landed> {
    let mut stream = stream.with_context(|| format!("no connection to {to}"))?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let mut answer = String::new();
    stream
        .read_to_string(&mut answer)
        .with_context(|| format!("no answer from {to}"))?;
    answer.parse()
}

fn open_from(from: IpAddr, to: SocketAddr) -> Result<TcpStream> {
    match (from, to) {
        (IpAddr::V4(from), SocketAddr::V4(to)) => {
            let from = SockaddrIn::from(SocketAddrV4::new(from, 0));
            open_bound(AddressFamily::Inet, &from, &SockaddrIn::from(to))
        }
        (IpAddr::V6(from), SocketAddr::V6(to)) => {
            let from = SockaddrIn6::from(SocketAddrV6::new(from, 0, 0, 0));
            open_bound(AddressFamily::Inet6, &from, &SockaddrIn6::from(to))
        }
        _ => bail!("{from} and {to} are of two families"),
    }
}

fn open_bound(
    family: AddressFamily,
    from: &dyn SockaddrLike,
    to: &dyn SockaddrLike,
) -> Result<TcpStream> {
    let socket = socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    let seconds = TimeVal::seconds(i64::try_from(TIMEOUT.as_secs())?);
    setsockopt(&socket, sockopt::SendTimeout, &seconds)?;
    bind(socket.as_raw_fd(), from)?;
    nix::sys::socket::connect(socket.as_raw_fd(), to)?;
    Ok(socket.into())
}
