//! Netlink messages: the frame around what `netlink-bindings` encodes, and the kernel's answers.

use std::iter;

use netlink_bindings::{
    builtin::{IterableNlmsgerrAttrs, NlmsgerrAttrs},
    consts::{NLM_F_ACK, NLM_F_ACK_TLVS, NLM_F_CAPPED, NLM_F_REQUEST},
    nftables::{Nfgenmsg, Request},
    traits::{NetlinkRequest, Protocol},
    utils::nla_align_up,
};
use nix::errno::Errno;

use super::error::Subject;

/// The length of a `struct nlmsghdr`.
const HEADER: usize = 16;

/// `NFNL_SUBSYS_NFTABLES`: who a transaction is for.
const SUBSYSTEM: u16 = 10;

/// `NLMSG_MIN_TYPE`: what is below is about the exchange itself.
const ERROR: u16 = 2;
const DONE: u16 = 3;

/// Requests that take effect together or not at all.
pub(super) struct Batch {
    buffer: Vec<u8>,
    subjects: Vec<Subject>,
    /// Where the last request starts.
    last: usize,
}

/// One message of the kernel's.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answer<'a> {
    /// Of the request that it answers.
    pub(super) sequence: u32,
    pub(super) flags: u16,
    pub(super) body: Body<'a>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Body<'a> {
    /// The end of a dump, or the answer to a request: well, or not and why.
    End(Result<(), (Errno, Option<&'a str>)>),
    /// Something that was asked for: the family's header, and the attributes.
    Data(&'a [u8]),
}

// === impl Batch ===

impl Batch {
    pub(super) fn new() -> Self {
        let mut batch = Self {
            buffer: Vec::with_capacity(8192),
            subjects: Vec::new(),
            last: 0,
        };
        batch.push(
            Subject::Transaction,
            &Request::new().op_batch_begin_do(&bracket()),
        );
        batch
    }

    /// Appends a request.
    pub(super) fn push(&mut self, subject: Subject, request: &impl NetlinkRequest) {
        self.last = self.buffer.len();
        let sequence = u32::try_from(self.subjects.len()).unwrap_or_default();
        frame(&mut self.buffer, sequence, 0, request);
        self.subjects.push(subject);
    }

    /// The bytes to send, and the number of the last request, which is acknowledged: once it is,
    /// everything has taken effect.
    pub(super) fn finish(mut self) -> (Vec<u8>, u32, Vec<Subject>) {
        let flags = self.last + 6;
        if let Some(flag) = self.buffer.get_mut(flags..flags + 2) {
            let acknowledged = u16::from_ne_bytes([flag[0], flag[1]]) | NLM_F_ACK as u16;
            flag.copy_from_slice(&acknowledged.to_ne_bytes());
        }
        let last = u32::try_from(self.subjects.len() - 1).unwrap_or_default();
        self.push(
            Subject::Transaction,
            &Request::new().op_batch_end_do(&bracket()),
        );
        (self.buffer, last, self.subjects)
    }
}

/// The bytes of a request on its own.
pub(super) fn single(sequence: u32, request: &impl NetlinkRequest) -> Vec<u8> {
    let mut buffer = Vec::with_capacity(256);
    frame(&mut buffer, sequence, 0, request);
    buffer
}

fn bracket() -> Nfgenmsg {
    let mut header = Nfgenmsg::new();
    header.set_res_id(SUBSYSTEM);
    header
}

fn frame(buffer: &mut Vec<u8>, sequence: u32, flags: u16, request: &impl NetlinkRequest) {
    let kind = match request.protocol() {
        Protocol::Raw { request_type, .. } => request_type,
        Protocol::Generic(_) => 0,
    };
    let payload = request.payload();
    let length = nla_align_up(HEADER + payload.len());
    let flags = request.flags() | flags | NLM_F_REQUEST as u16;
    let end = buffer.len() + length;
    buffer.extend(u32::try_from(length).unwrap_or_default().to_ne_bytes());
    buffer.extend(kind.to_ne_bytes());
    buffer.extend(flags.to_ne_bytes());
    buffer.extend(sequence.to_ne_bytes());
    buffer.extend(0u32.to_ne_bytes());
    buffer.extend(payload);
    buffer.resize(end, 0);
}

// === impl Answer ===

impl<'a> Answer<'a> {
    /// The messages of one datagram; `None` where it is none.
    pub(super) fn all(datagram: &'a [u8]) -> impl Iterator<Item = Option<Self>> {
        let mut rest = datagram;
        iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let answer = Self::first(rest);
            rest = match &answer {
                Some((_, length)) => rest.get(nla_align_up(*length)..).unwrap_or_default(),
                None => &[],
            };
            Some(answer.map(|(answer, _)| answer))
        })
    }

    fn first(bytes: &'a [u8]) -> Option<(Self, usize)> {
        let length = usize::try_from(u32_at(bytes, 0)?).ok()?;
        let payload = bytes.get(HEADER..length)?;
        let flags = u16_at(bytes, 6)?;
        let body = match u16_at(bytes, 4)? {
            ERROR => Body::End(outcome(payload, flags)?),
            // Kernels before 4.17 or so end a dump without a status.
            DONE => Body::End(outcome(payload, flags).unwrap_or(Ok(()))),
            _ => Body::Data(payload),
        };
        let sequence = u32_at(bytes, 8)?;
        Some((
            Self {
                sequence,
                flags,
                body,
            },
            length,
        ))
    }
}

type Outcome<'a> = Result<(), (Errno, Option<&'a str>)>;

fn outcome(payload: &[u8], flags: u16) -> Option<Outcome<'_>> {
    let status = u32_at(payload, 0)? as i32;
    if status == 0 {
        return Some(Ok(()));
    }
    let message = explanation(payload, flags);
    Some(Err((Errno::from_raw(status.checked_neg()?), message)))
}

/// The kernel's own words, behind as much of the request as it sends back.
fn explanation(payload: &[u8], flags: u16) -> Option<&str> {
    if i32::from(flags) & NLM_F_ACK_TLVS == 0 {
        return None;
    }
    let request = if i32::from(flags) & NLM_F_CAPPED != 0 {
        HEADER
    } else {
        usize::try_from(u32_at(payload, 4)?).ok()?
    };
    let attributes: IterableNlmsgerrAttrs<'_> =
        NlmsgerrAttrs::new(payload.get(4 + nla_align_up(request)..)?);
    attributes.get_msg().ok()?.to_str().ok()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let two = bytes.get(at..at + 2)?;
    Some(u16::from_ne_bytes(two.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at + 4)?;
    Some(u32::from_ne_bytes(four.try_into().ok()?))
}
