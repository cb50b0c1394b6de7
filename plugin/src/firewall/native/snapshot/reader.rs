//! One reading of nf_tables, dump by dump.

use std::ffi::CStr;

use netlink_bindings::{
    nftables::{
        Nfgenmsg, OpGetchainDump, OpGetruleDump, OpGetsetelemDump, OpGettableDump, Request,
        SetElemFlags, SetelemListElemAttrs, TableFlags,
    },
    traits::NetlinkRequest,
};

use super::{Depth, Element, LiveChain, LiveRule, LiveTable, Place, Snapshot};
use crate::firewall::native::{
    decode,
    error::NativeError,
    hook::Hook,
    socket::{Dumped, Netfilter},
    table::Kind,
};

/// One reading. `None` where somebody changed something meanwhile.
pub(super) struct Reader<'a> {
    netfilter: &'a mut Netfilter,
    depth: Depth,
    /// The generation of the rules that the first answer was about (its low half).
    generation: Option<u16>,
    is_disturbed: bool,
    snapshot: Snapshot,
}

// === impl Reader ===

impl<'a> Reader<'a> {
    pub(super) fn new(netfilter: &'a mut Netfilter, depth: Depth) -> Self {
        Self {
            netfilter,
            depth,
            generation: None,
            is_disturbed: false,
            snapshot: Snapshot::default(),
        }
    }

    pub(super) fn read(mut self) -> Result<Option<Snapshot>, NativeError> {
        self.tables()?;
        // The usual namespace of a pod that is about to start.
        if self.snapshot.tables.is_empty() {
            return Ok((!self.is_disturbed).then_some(self.snapshot));
        }
        self.chains()?;
        for place in self.relevant() {
            self.rules(&place)?;
        }
        if self.depth == Depth::Whole {
            self.sets()?;
        }
        Ok((!self.is_disturbed).then_some(self.snapshot))
    }

    fn tables(&mut self) -> Result<(), NativeError> {
        let request = Request::new().op_gettable_dump(&Nfgenmsg::new());
        let mut tables = Vec::new();
        self.dump(&request, |data| {
            let (header, table) = OpGettableDump::decode_reply(data);
            let flags = table.get_flags().unwrap_or_default();
            tables.extend(
                place(&header, table.get_name().ok()).map(|place| LiveTable {
                    place,
                    handle: table.get_handle().unwrap_or_default(),
                    is_dormant: flags & TableFlags::Dormant as u32 != 0,
                }),
            );
        })?;
        self.snapshot.tables = tables;
        Ok(())
    }

    fn chains(&mut self) -> Result<(), NativeError> {
        let request = Request::new().op_getchain_dump(&Nfgenmsg::new());
        let mut chains = Vec::new();
        self.dump(&request, |data| {
            let (header, chain) = OpGetchainDump::decode_reply(data);
            let hook = || {
                let is_nat = chain.get_type().is_ok_and(|of| of == c"nat");
                let hook = chain.get_hook().ok().filter(|_| is_nat)?;
                let number = Hook::from_number(hook.get_num().ok()?)?;
                Some((number, hook.get_priority().ok()?))
            };
            chains.extend(
                place(&header, chain.get_table().ok()).map(|place| LiveChain {
                    place,
                    name: text(chain.get_name().ok()),
                    nat: hook(),
                }),
            );
        })?;
        self.snapshot.chains = chains;
        Ok(())
    }

    /// The tables whose rules can matter: ours, those with leftovers, those that do NAT.
    fn relevant(&self) -> Vec<Place> {
        let matters = |chain: &&LiveChain| match self.depth {
            Depth::Names => false,
            Depth::Outline => chain.is_leftover(),
            Depth::Whole => chain.place.is_ours() || chain.nat.is_some() || chain.is_leftover(),
        };
        let chains = self.snapshot.chains.iter().filter(matters);
        let mut places: Vec<Place> = chains.map(|chain| chain.place.clone()).collect();
        places.sort();
        places.dedup();
        places
    }

    fn rules(&mut self, place: &Place) -> Result<(), NativeError> {
        let mut request = Request::new().op_getrule_dump(&place.kind.header());
        request.encode().push_table_bytes(place.table.as_bytes());
        let mut rules = Vec::new();
        self.dump(&request, |data| {
            let (_, rule) = OpGetruleDump::decode_reply(data);
            // Kernels before 4.7 do not filter.
            if text(rule.get_table().ok()) == place.table {
                rules.push(LiveRule {
                    place: place.clone(),
                    chain: text(rule.get_chain().ok()),
                    handle: rule.get_handle().unwrap_or_default(),
                    attributes: rule.get_buf().to_vec(),
                });
            }
        })?;
        self.snapshot.rules.append(&mut rules);
        Ok(())
    }

    fn sets(&mut self) -> Result<(), NativeError> {
        let rules = self.snapshot.rules.iter();
        let mut used: Vec<(Place, String)> = rules
            .flat_map(|rule| decode::sets_of(rule).map(|set| (rule.place.clone(), set)))
            .collect();
        used.sort();
        used.dedup();
        for (place, name) in used {
            let mut request = Request::new().op_getsetelem_dump(&place.kind.header());
            request
                .encode()
                .push_table_bytes(place.table.as_bytes())
                .push_set_bytes(name.as_bytes());
            let mut elements = Vec::new();
            self.dump(&request, |data| elements.extend(self::elements(data)))?;
            elements.sort();
            self.snapshot.sets.insert((place, name), elements);
        }
        Ok(())
    }

    fn dump(
        &mut self,
        request: &impl NetlinkRequest,
        mut each: impl FnMut(&[u8]),
    ) -> Result<(), NativeError> {
        let first = &mut self.generation;
        let mut is_disturbed = false;
        let dumped = self.netfilter.dump(request, |data| {
            let header = data.get(..Nfgenmsg::len());
            let generation = header
                .and_then(Nfgenmsg::new_from_slice)
                .map(|h| h.res_id());
            is_disturbed |= first.is_some() && generation != *first;
            *first = generation;
            each(data);
        })?;
        self.is_disturbed |= is_disturbed || dumped == Dumped::Disturbed;
        Ok(())
    }
}

fn elements(data: &[u8]) -> Vec<Element> {
    let (_, list) = OpGetsetelemDump::decode_reply(data);
    let Ok(list) = list.get_elements() else {
        return Vec::new();
    };
    let elements = list.flatten().map(|element| {
        let SetelemListElemAttrs::Elem(element) = element;
        let key = element.get_key().and_then(|key| key.get_value());
        let flags = element.get_flags().unwrap_or_default();
        let end = (SetElemFlags::IntervalEnd as u32).to_be_bytes();
        Element {
            key: key.unwrap_or_default().to_vec(),
            is_end: flags == end,
        }
    });
    elements.collect()
}

/// `None` for tables that no connection of a pod meets as such (`bridge`, `arp`, `netdev`).
fn place(header: &Nfgenmsg, table: Option<&CStr>) -> Option<Place> {
    let kind = Kind::from_number(header.nfgen_family)?;
    let table = text(table);
    Some(Place { kind, table })
}

fn text(name: Option<&CStr>) -> String {
    name.map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}
