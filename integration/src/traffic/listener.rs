//! A listening socket that tells each connection where it landed.

use std::fmt;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrIn, SockaddrIn6, SockaddrLike, bind,
    getsockopt, listen, setsockopt, socket, sockopt,
};

use crate::netns::Netns;
use crate::rules::Family;

/// Where a connection landed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Landed {
    /// The port of the listener that took it.
    pub port: u16,
    /// Who connected, as the listener sees it.
    pub peer: IpAddr,
    /// What `SO_ORIGINAL_DST` gave the listener; `None` if nothing redirected
    /// the connection.
    pub original: Option<SocketAddr>,
}

/// Listens on a port of every address of a namespace.
#[derive(Debug)]
pub struct Listener {
    stop: Arc<AtomicBool>,
}

// === impl Listener ===

impl Listener {
    /// Listens in `netns` until dropped.
    ///
    /// # Panics
    ///
    /// If the port is taken.
    pub fn new(netns: &Netns, family: Family, port: u16) -> Self {
        netns.enter(|| Self::here(family, port))
    }

    /// Listens in the calling thread's namespace until dropped.
    ///
    /// # Panics
    ///
    /// If the port is taken.
    pub fn here(family: Family, port: u16) -> Self {
        let listener =
            open(family, port).unwrap_or_else(|error| panic!("cannot listen on {port}: {error:#}"));
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        thread::spawn(move || serve(&listener, port, &stopped));
        Self { stop }
    }

    /// One listener for each port.
    ///
    /// # Panics
    ///
    /// If a port is taken.
    pub fn all(netns: &Netns, family: Family, ports: &[u16]) -> Vec<Self> {
        ports
            .iter()
            .map(|port| Self::new(netns, family, *port))
            .collect()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

// === impl Landed ===

impl fmt::Display for Landed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.port, self.peer)?;
        match self.original {
            Some(original) => write!(formatter, " {original}"),
            None => Ok(()),
        }
    }
}

impl FromStr for Landed {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut words = text.split_whitespace();
        let mut next = || words.next().context("a listener's answer is cut short");
        Ok(Self {
            port: next()?.parse()?,
            peer: next()?.parse()?,
            original: words.next().map(str::parse).transpose()?,
        })
    }
}

fn serve(listener: &TcpListener, port: u16, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        match listener.accept() {
            Ok((stream, _)) => {
                // The other side may be gone already; it will have noticed.
                let _ = answer(stream, port);
            }
            Err(_) => thread::sleep(Duration::from_millis(2)),
        }
    }
}

fn answer(mut stream: TcpStream, port: u16) -> Result<()> {
    let landed = Landed {
        port,
        peer: stream.peer_addr()?.ip(),
        original: original(&stream)?,
    };
    write!(stream, "{landed}")?;
    Ok(())
}

/// What the connection was meant for, if that is not where it is.
///
/// For IPv4 the kernel also answers for a connection that was only tracked; then
/// it is the listener's own address.
fn original(stream: &TcpStream) -> Result<Option<SocketAddr>> {
    let local = stream.local_addr()?;
    let original = match local {
        SocketAddr::V4(_) => getsockopt(stream, sockopt::OriginalDst).map(|found| {
            let ip = Ipv4Addr::from(u32::from_be(found.sin_addr.s_addr));
            SocketAddr::from((ip, u16::from_be(found.sin_port)))
        }),
        SocketAddr::V6(_) => getsockopt(stream, sockopt::Ip6tOriginalDst).map(|found| {
            let ip = Ipv6Addr::from(found.sin6_addr.s6_addr);
            SocketAddr::from((ip, u16::from_be(found.sin6_port)))
        }),
    };
    Ok(original.ok().filter(|original| *original != local))
}

fn open(family: Family, port: u16) -> Result<TcpListener> {
    let listener = match family {
        Family::V4 => {
            let any = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port);
            open_on(AddressFamily::Inet, &SockaddrIn::from(any))
        }
        Family::V6 => {
            let any = SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, port, 0, 0);
            open_on(AddressFamily::Inet6, &SockaddrIn6::from(any))
        }
    }?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn open_on(family: AddressFamily, address: &dyn SockaddrLike) -> Result<TcpListener> {
    let socket = socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    setsockopt(&socket, sockopt::ReuseAddr, &true)?;
    if family == AddressFamily::Inet6 {
        // So that the IPv4 listener of the same port has room beside it.
        setsockopt(&socket, sockopt::Ipv6V6Only, &true)?;
    }
    bind(socket.as_raw_fd(), address)?;
    listen(&socket, Backlog::new(16)?)?;
    Ok(socket.into())
}
