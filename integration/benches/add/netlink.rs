//! The transaction of a native ADD, by itself.

use std::fs;
use std::os::fd::AsRawFd as _;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use linkerd_cni_integration::stage::Stage;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket,
};

/// The bytes that ADD hands to nf_tables, as `strace` has seen them.
pub(crate) struct Transaction(Vec<u8>);

/// `NFNL_MSG_BATCH_BEGIN`, at byte 4 of the first message.
const BATCH_BEGIN: [u8; 2] = [0x10, 0x00];

// === impl Transaction ===

impl Transaction {
    /// Looks on while this pod is added.
    pub(crate) fn of_an_add(stage: &Stage) -> anyhow::Result<Self> {
        let log = tempfile::NamedTempFile::new()?;
        let path = log.path().display().to_string();
        let strace = [
            "strace",
            "-f",
            "-e",
            "trace=sendto",
            "-e",
            "write=all",
            "-o",
            &path,
        ];
        stage.add().through(strace).succeed();
        let seen = fs::read_to_string(log.path())?;
        let mut sent = seen.split("sendto(").map(dumped);
        let sent = sent.find(|bytes| bytes.get(4..6) == Some(&BATCH_BEGIN));
        sent.map(Self).context("ADD sends no transaction")
    }

    /// Sends it from a socket of its own, and waits for the answer.
    pub(crate) fn carry_out(&self) -> anyhow::Result<Duration> {
        let started = Instant::now();
        let socket = socket(
            AddressFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::NetlinkNetFilter,
        )?;
        send(socket.as_raw_fd(), &self.0, MsgFlags::empty())?;
        let mut answer = [0; 8192];
        let length = recv(socket.as_raw_fd(), &mut answer, MsgFlags::empty())?;
        drop(socket);
        let took = started.elapsed();
        // Behind the header of the first message: its error, 0 for an acknowledgement.
        let error = answer[..length].get(16..20).context("an answer")?;
        anyhow::ensure!(error == [0; 4], "refused: {error:?}");
        Ok(took)
    }
}

/// The bytes of the lines ` | 00000  14 00 00 00 10 00 01 00  … |` below a call.
fn dumped(call: &str) -> Vec<u8> {
    let lines = call.lines().filter_map(|line| line.strip_prefix(" | "));
    let columns = lines.filter_map(|line| line.get(7..56));
    columns
        .flat_map(str::split_whitespace)
        .filter_map(|byte| u8::from_str_radix(byte, 16).ok())
        .collect()
}
