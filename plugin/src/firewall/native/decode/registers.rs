//! What the registers of nf_tables hold while a rule is read.

use std::collections::BTreeMap;

use netlink_bindings::nftables::{
    BitwiseOps, CtKeys, ExprBitwiseAttrs, ExprCtAttrs, ExprImmediateAttrs, ExprMetaAttrs,
    ExprPayloadAttrs, MetaKeys, PayloadBase,
};

/// What a register holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Content {
    /// Something about the packet.
    Meta(u32),
    /// A piece of it.
    Payload {
        base: u32,
        offset: u32,
        length: u32,
        /// The bits that count, if not all do.
        mask: Option<Vec<u8>>,
    },
    /// These bytes.
    Value(Vec<u8>),
    /// Something that has no words here, by its name.
    Other(String),
}

#[derive(Debug, Default)]
pub(super) struct Registers {
    held: BTreeMap<u32, Content>,
}

// === impl Registers ===

impl Registers {
    /// Whether the expression loads a register; if so, it is held now.
    pub(super) fn load(&mut self, name: &str, data: &[u8]) -> bool {
        let loaded = match name {
            "meta" => meta(data),
            "payload" => payload(data),
            "immediate" => immediate(data),
            "bitwise" => self.masked(data),
            "ct" => ct(data),
            // The first attribute of the others is not always their register, but whatever
            // compares next compares what they found.
            name => Some((FIRST, Content::Other(name.to_owned()))),
        };
        match loaded {
            Some((register, content)) => {
                self.held.insert(number(register), content);
                true
            }
            None => false,
        }
    }

    pub(super) fn get(&self, register: u32) -> Option<&Content> {
        self.held.get(&number(register))
    }

    /// The bytes in a register, where they are part of the rule.
    pub(super) fn value(&self, register: u32) -> Option<&[u8]> {
        match self.get(register)? {
            Content::Value(bytes) => Some(bytes),
            _ => None,
        }
    }

    fn masked(&self, data: &[u8]) -> Option<(u32, Content)> {
        let bitwise = ExprBitwiseAttrs::new(data);
        let register = bitwise.get_dreg().ok()?;
        let other = || Content::Other("bitwise".to_owned());
        let mask = bitwise.get_mask().and_then(|mask| mask.get_value());
        let is_mask = bitwise.get_op().unwrap_or_default() == BitwiseOps::MaskXor as u32;
        let flips = bitwise.get_xor().and_then(|xor| xor.get_value());
        let flips_nothing = flips.is_ok_and(|xor| xor.iter().all(|byte| *byte == 0));
        let content = match (self.get(bitwise.get_sreg().ok()?), mask) {
            (
                Some(Content::Payload {
                    base,
                    offset,
                    length,
                    mask: None,
                }),
                Ok(mask),
            ) if is_mask && flips_nothing => {
                let mask = Some(mask.to_vec());
                let (base, offset, length) = (*base, *offset, *length);
                Content::Payload {
                    base,
                    offset,
                    length,
                    mask,
                }
            }
            (Some(Content::Other(name)), _) => Content::Other(name.clone()),
            _ => other(),
        };
        Some((register, content))
    }
}

/// `NFT_REG_1`.
const FIRST: u32 = 1;

/// The four registers of 16 bytes lie over those of 4.
fn number(register: u32) -> u32 {
    match register {
        1..=4 => 8 + (register - 1) * 4,
        other => other,
    }
}

fn meta(data: &[u8]) -> Option<(u32, Content)> {
    let meta = ExprMetaAttrs::new(data);
    Some((meta.get_dreg().ok()?, Content::Meta(meta.get_key().ok()?)))
}

fn payload(data: &[u8]) -> Option<(u32, Content)> {
    let payload = ExprPayloadAttrs::new(data);
    let content = Content::Payload {
        base: payload.get_base().ok()?,
        offset: payload.get_offset().ok()?,
        length: payload.get_len().ok()?,
        mask: None,
    };
    Some((payload.get_dreg().ok()?, content))
}

fn immediate(data: &[u8]) -> Option<(u32, Content)> {
    let immediate = ExprImmediateAttrs::new(data);
    let value = immediate.get_data().ok()?.get_value().ok()?;
    Some((immediate.get_dreg().ok()?, Content::Value(value.to_vec())))
}

fn ct(data: &[u8]) -> Option<(u32, Content)> {
    let ct = ExprCtAttrs::new(data);
    let key = CtKeys::from_value(ct.get_key().ok()?.into());
    let key = key.map_or_else(String::new, |key| format!("/{key:?}").to_lowercase());
    Some((ct.get_dreg().ok()?, Content::Other(format!("ct{key}"))))
}

// === impl Content ===

impl Content {
    pub(super) fn is_meta(&self, key: MetaKeys) -> bool {
        *self == Self::Meta(key as u32)
    }

    /// A whole piece of the transport header.
    pub(super) fn is_transport(&self, at: u32, size: u32) -> bool {
        matches!(self, Self::Payload { base, offset, length, mask: None }
            if *base == PayloadBase::TransportHeader as u32 && (*offset, *length) == (at, size))
    }

    /// What it is, where it has no words.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Meta(key) => match MetaKeys::from_value((*key).into()) {
                Some(key) => format!("meta/{key:?}").to_lowercase(),
                None => "meta".to_owned(),
            },
            Self::Payload { .. } => "payload".to_owned(),
            Self::Value(_) => "immediate".to_owned(),
            Self::Other(name) => name.clone(),
        }
    }
}
