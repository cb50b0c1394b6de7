//! The netlink socket: a transaction is one message out and one in; nothing waits without limit.

use std::{
    io::{self, ErrorKind},
    os::fd::AsFd as _,
    time::{Duration, Instant},
};

use netlink_bindings::{consts::NLM_F_DUMP_INTR, traits::NetlinkRequest};
use netlink_sys::{Socket, protocols::NETLINK_NETFILTER};
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::socket::{MsgFlags, setsockopt, sockopt},
};

use super::{
    error::{NativeError, Subject},
    message::{Answer, Batch, Body, single},
};

/// How long the kernel is waited for. It answers before the sending returns, so this is for a
/// kernel that is not well.
const DEADLINE: Duration = Duration::from_secs(5);

/// The most that the kernel puts into one datagram of a dump.
const MOST_RECEIVED: usize = 32 * 1024;

/// What fits into a socket's send buffer as it comes (`wmem_default`, less its own overhead).
const USUALLY_SENT: usize = 128 * 1024;

/// Whether a dump is whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dumped {
    Whole,
    /// Somebody changed the rules meanwhile: it has to be asked for again.
    Disturbed,
}

/// A socket to the nf_tables of the network namespace that it was made in.
pub(super) struct Netfilter {
    socket: Socket,
    sequence: u32,
    buffer: Vec<u8>,
}

type Result<T> = std::result::Result<T, NativeError>;

// === impl Netfilter ===

impl Netfilter {
    pub(super) fn open() -> Result<Self> {
        let socket = Socket::new(NETLINK_NETFILTER).map_err(NativeError::Socket)?;
        // Kernels before 4.12 have no words of their own; the number does without.
        let _ = socket.set_ext_ack(true);
        Ok(Self {
            socket,
            sequence: 0,
            buffer: Vec::with_capacity(MOST_RECEIVED),
        })
    }

    /// Carries a transaction out: all of it, or nothing.
    pub(super) fn commit(&mut self, batch: Batch) -> Result<()> {
        let (bytes, last, subjects) = batch.finish();
        if bytes.len() > USUALLY_SENT {
            let forced = setsockopt(&self.socket, sockopt::SndBufForce, &(bytes.len() * 2));
            forced.map_err(|errno| NativeError::Exchange(errno.into()))?;
        }
        self.send(&bytes)?;
        let mut refused: Option<(u32, Errno, Option<String>)> = None;
        loop {
            // After a refusal there may be more of them, but no last word.
            if !self.receive(refused.is_none())? {
                break;
            }
            let mut is_done = false;
            for answer in Answer::all(&self.buffer) {
                let answer = answer.ok_or(NativeError::Unreadable)?;
                match answer.body {
                    Body::End(Ok(())) => is_done |= answer.sequence == last,
                    Body::End(Err((errno, message))) if refused.is_none() => {
                        refused = Some((answer.sequence, errno, message.map(str::to_owned)));
                    }
                    Body::End(Err(_)) | Body::Data(_) => {}
                }
            }
            if is_done && refused.is_none() {
                return Ok(());
            }
        }
        let (sequence, errno, message) = refused.ok_or(NativeError::Silent)?;
        let place = usize::try_from(sequence).ok();
        let subject = place.and_then(|place| subjects.get(place));
        Err(NativeError::Refused {
            subject: subject.cloned().unwrap_or(Subject::Transaction),
            errno,
            message,
        })
    }

    /// Asks for everything of a kind, and hands it over one by one.
    pub(super) fn dump(
        &mut self,
        request: &impl NetlinkRequest,
        mut each: impl FnMut(&[u8]),
    ) -> Result<Dumped> {
        self.sequence += 1;
        let sequence = self.sequence;
        self.send(&single(sequence, request))?;
        let mut dumped = Dumped::Whole;
        loop {
            self.receive(true)?;
            for answer in Answer::all(&self.buffer) {
                let answer = answer.ok_or(NativeError::Unreadable)?;
                // Of a dump that was given up before.
                if answer.sequence != sequence {
                    continue;
                }
                if i32::from(answer.flags) & NLM_F_DUMP_INTR != 0 {
                    dumped = Dumped::Disturbed;
                }
                match answer.body {
                    Body::Data(data) => each(data),
                    Body::End(Ok(())) => return Ok(dumped),
                    // What was seen a moment ago is gone.
                    Body::End(Err((Errno::ENOENT | Errno::EINTR, _))) => {
                        return Ok(Dumped::Disturbed);
                    }
                    Body::End(Err(refusal)) => return Err(not_shown(refusal)),
                }
            }
        }
    }

    /// Asks one thing; whether there is an answer.
    pub(super) fn ask(&mut self, request: &impl NetlinkRequest) -> Result<()> {
        self.sequence += 1;
        self.send(&single(self.sequence, request))?;
        self.receive(true)?;
        let answer = Answer::all(&self.buffer).next().flatten();
        match answer.ok_or(NativeError::Unreadable)?.body {
            Body::Data(_) | Body::End(Ok(())) => Ok(()),
            Body::End(Err(refusal)) => Err(not_shown(refusal)),
        }
    }

    fn send(&self, bytes: &[u8]) -> Result<()> {
        loop {
            match self.socket.send(bytes, 0) {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(NativeError::Exchange(error)),
            }
        }
    }

    /// One datagram into the buffer; `false` if there is none and none is waited for.
    fn receive(&mut self, wait: bool) -> Result<bool> {
        let flags = (MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_TRUNC).bits();
        let deadline = Instant::now() + DEADLINE;
        loop {
            self.buffer.clear();
            match self.socket.recv(&mut self.buffer, flags) {
                Ok(length) if length > self.buffer.len() => return Err(NativeError::Unreadable),
                Ok(_) => return Ok(true),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // There were more refusals than fit; the first of them are still there.
                Err(error) if error.raw_os_error() == Some(Errno::ENOBUFS as i32) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock && wait => {
                    self.readable_by(deadline)?;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(NativeError::Exchange(error)),
            }
        }
    }

    fn readable_by(&self, deadline: Instant) -> Result<()> {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO);
        let mut fds = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, timeout) {
            Ok(0) => Err(NativeError::Silent),
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(errno) => Err(NativeError::Exchange(io::Error::from(errno))),
        }
    }
}

fn not_shown((errno, message): (Errno, Option<&str>)) -> NativeError {
    NativeError::Refused {
        subject: Subject::Reading,
        errno,
        message: message.map(str::to_owned),
    }
}
