//! What nf_tables has in this namespace, as far as it can matter to a redirect, read as of one
//! moment.

use std::collections::BTreeMap;

use netlink_bindings::nftables::{IterableExprListAttrs, IterableRuleAttrs, RuleAttrs};
use proxy_init_rules::Chain;

use super::{
    error::NativeError,
    hook::Hook,
    socket::Netfilter,
    table::{Kind, TABLE},
};

mod reader;

use reader::Reader;

/// How often rules are read while somebody else goes on changing them.
const ATTEMPTS: usize = 10;

/// Everything that was read.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    pub(super) tables: Vec<LiveTable>,
    pub(super) chains: Vec<LiveChain>,
    /// Of the tables that can matter, chain by chain in order.
    pub(super) rules: Vec<LiveRule>,
    /// By what they belong to and their names.
    pub(super) sets: BTreeMap<(Place, String), Vec<Element>>,
}

/// How much is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Depth {
    /// Tables and chains.
    Names,
    /// Tables and chains, and the rules that jump to leftovers.
    Outline,
    /// All rules of tables that can matter too, and what is in their sets.
    Whole,
}

/// Which table something belongs to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) kind: Kind,
    pub(super) table: String,
}

#[derive(Debug)]
pub(super) struct LiveTable {
    pub(super) place: Place,
    /// Counts up: a table made later has a greater one.
    pub(super) handle: u64,
    /// The kernel does not enter its chains.
    pub(super) is_dormant: bool,
}

#[derive(Debug)]
pub(super) struct LiveChain {
    pub(super) place: Place,
    pub(super) name: String,
    /// Where the kernel enters it, and how early, if it is for NAT.
    pub(super) nat: Option<(Hook, i32)>,
}

#[derive(Debug)]
pub(super) struct LiveRule {
    pub(super) place: Place,
    pub(super) chain: String,
    pub(super) handle: u64,
    /// The attributes as they came.
    pub(super) attributes: Vec<u8>,
}

/// A key of a set; with intervals, the first of one or the one behind it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Element {
    pub(super) key: Vec<u8>,
    pub(super) is_end: bool,
}

// === impl Snapshot ===

impl Snapshot {
    /// Everything that can matter.
    pub(super) fn whole(netfilter: &mut Netfilter) -> Result<Self, NativeError> {
        Self::take(netfilter, Depth::Whole)
    }

    /// As much as is needed to say whether there is anything of ours.
    pub(super) fn names(netfilter: &mut Netfilter) -> Result<Self, NativeError> {
        Self::take(netfilter, Depth::Names)
    }

    /// As much as is needed to take our rules out.
    pub(super) fn outline(netfilter: &mut Netfilter) -> Result<Self, NativeError> {
        Self::take(netfilter, Depth::Outline)
    }

    /// Reads until nobody changed anything meanwhile.
    fn take(netfilter: &mut Netfilter, depth: Depth) -> Result<Self, NativeError> {
        for _ in 0..ATTEMPTS {
            if let Some(snapshot) = Reader::new(netfilter, depth).read()? {
                return Ok(snapshot);
            }
        }
        Err(NativeError::Unstable)
    }

    /// Our own tables.
    pub(super) fn ours(&self) -> impl Iterator<Item = &LiveTable> {
        self.tables.iter().filter(|table| table.place.is_ours())
    }

    /// The chains of ours by name that stand in tables of others: another way of setting the same
    /// rules.
    pub(super) fn leftovers(&self) -> impl Iterator<Item = &LiveChain> {
        self.chains.iter().filter(|chain| chain.is_leftover())
    }

    pub(super) fn chains_of(&self, place: &Place) -> impl Iterator<Item = &LiveChain> {
        self.chains
            .iter()
            .filter(move |chain| chain.place == *place)
    }

    pub(super) fn rules_of(&self, place: &Place, chain: &str) -> impl Iterator<Item = &LiveRule> {
        let rules = self.rules.iter();
        rules.filter(move |rule| rule.place == *place && rule.chain == chain)
    }
}

/// Whether a chain carries rules of ours, by its name.
pub(super) fn is_our_name(name: &str) -> bool {
    Chain::OURS.iter().any(|chain| chain.name() == name)
}

// === impl Place ===

impl Place {
    pub(super) fn is_ours(&self) -> bool {
        self.table.as_bytes() == TABLE.to_bytes()
    }
}

// === impl LiveChain ===

impl LiveChain {
    /// Whether it has a name of ours and is in a table of others.
    fn is_leftover(&self) -> bool {
        is_our_name(&self.name) && !self.place.is_ours()
    }
}

// === impl LiveRule ===

impl LiveRule {
    pub(super) fn attributes(&self) -> IterableRuleAttrs<'_> {
        RuleAttrs::new(&self.attributes)
    }

    pub(super) fn expressions(&self) -> Option<IterableExprListAttrs<'_>> {
        self.attributes().get_expressions().ok()
    }
}
