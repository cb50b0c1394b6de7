//! From a rule of nf_tables to the words of `iptables-save`, in which everything else here thinks.
//! What has no such words is named.

use proxy_init_rules::{Family, PortRange};

use super::{
    expression::COMMENT,
    snapshot::{Element, LiveRule, Snapshot},
    table::Kind,
};

mod conditions;
mod registers;
mod statements;
mod words;

use words::Words;
pub(super) use words::name;

/// The rule as a connection of this family meets it, without its chain; `None` if it is about the
/// other family only.
pub(super) fn text(rule: &LiveRule, family: Family, snapshot: &Snapshot) -> Option<String> {
    let mut words = Words::default();
    let mut registers = registers::Registers::default();
    for (name, data) in expressions(rule) {
        match name {
            "meta" | "payload" | "bitwise" | "immediate" | "ct" | "fib" | "rt" | "socket"
            | "hash" | "numgen" | "exthdr" | "byteorder" | "osf" | "xfrm" | "tunnel"
                if registers.load(name, data) => {}
            "cmp" => conditions::compare(data, &registers, &mut words),
            "range" => conditions::range(data, &registers, &mut words),
            "lookup" => {
                let set = |name: &str| {
                    let key = (rule.place.clone(), name.to_owned());
                    snapshot.sets.get(&key).map(Vec::as_slice)
                };
                conditions::look_up(data, &registers, set, &mut words);
            }
            name => statements::read(name, data, &registers, &mut words),
        }
    }
    if words.only_for.is_some_and(|only| only != family) {
        return None;
    }
    words.comment = comment(rule);
    Some(words.text())
}

/// The names of the sets that a rule looks something up in.
pub(super) fn sets_of(rule: &LiveRule) -> impl Iterator<Item = String> {
    let lookups = expressions(rule)
        .into_iter()
        .filter(|(name, _)| *name == "lookup");
    lookups.filter_map(|(_, data)| conditions::set_name(data).map(str::to_owned))
}

/// The chains that a rule jumps or goes to.
pub(super) fn targets_of(rule: &LiveRule) -> impl Iterator<Item = String> {
    let all = expressions(rule).into_iter();
    all.filter(|(name, _)| *name == "immediate")
        .filter_map(|(_, data)| statements::target_chain(data))
}

/// Each expression's name and attributes.
fn expressions(rule: &LiveRule) -> Vec<(&str, &[u8])> {
    use netlink_bindings::utils::{IterableChunks, find_attr};

    const NAME: u16 = 1;
    const DATA: u16 = 2;
    let Some(list) = rule.expressions() else {
        return Vec::new();
    };
    let elements = IterableChunks::new(list.get_buf());
    let both = elements.filter_map(|(_, element)| {
        let name = find_attr(element, NAME)?.strip_suffix(&[0])?;
        let data = find_attr(element, DATA).unwrap_or_default();
        Some((std::str::from_utf8(name).ok()?, data))
    });
    both.collect()
}

/// What `nft` keeps beside a rule: entries of a type, a length and a value.
fn comment(rule: &LiveRule) -> Option<String> {
    let mut data = rule.attributes().get_userdata().ok()?;
    while let [kind, length, rest @ ..] = data {
        let value = rest.get(..usize::from(*length))?;
        if *kind == COMMENT {
            let text = value.strip_suffix(&[0]).unwrap_or(value);
            return Some(String::from_utf8_lossy(text).into_owned());
        }
        data = rest.get(usize::from(*length)..)?;
    }
    None
}

/// The ports in a set, with or without intervals; `None` if its keys are no ports.
fn ports(elements: &[Element]) -> Option<Vec<PortRange>> {
    let mut ranges: Vec<PortRange> = Vec::new();
    let has_intervals = elements.iter().any(|element| element.is_end);
    let mut start = None;
    for element in elements {
        let port = u16::from_be_bytes(element.key.as_slice().try_into().ok()?);
        match (element.is_end, start.take()) {
            (false, _) if !has_intervals => ranges.push(PortRange::single(port)),
            (false, before) => {
                // An end that is missing is the start of the next.
                ranges.extend(before.and_then(|low| PortRange::new(low, port.checked_sub(1)?)));
                start = Some(port);
            }
            (true, Some(low)) => ranges.extend(PortRange::new(low, port.checked_sub(1)?)),
            (true, None) => {}
        }
    }
    ranges.extend(start.and_then(|low| PortRange::new(low, u16::MAX)));
    Some(PortRange::joined(ranges))
}

impl Kind {
    /// The family of a number of `meta nfproto`.
    fn family(number: u8) -> Option<Family> {
        match Self::from_number(number)? {
            Self::Ip => Some(Family::Ipv4),
            Self::Ip6 => Some(Family::Ipv6),
            Self::Inet => None,
        }
    }
}
