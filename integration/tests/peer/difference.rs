//! In what two outcomes differ, in the words of `PEER.md`. Pure.

use std::collections::{BTreeMap, BTreeSet};

use crate::outcome::{Outcome, connections};

/// One of the two lets the pod start, the other does not.
const ADD: &str = "ADD";
/// Rules stay behind in the namespace of a pod that does not start.
const LEFT: &str = "rules left behind";

/// The chains that may differ.
const CHAINS: [&str; 4] = [
    "PREROUTING",
    "OUTPUT",
    "PROXY_INIT_REDIRECT",
    "PROXY_INIT_OUTPUT",
];

/// The sorts of rules, by their comments (rules.md 3). The rest of a comment says which ports or
/// subnets.
const SORTS: [&str; 10] = [
    "ignore-port",
    "ignore-subnet",
    "ignore-interface",
    "ignore-proxy-user-id",
    "ignore-proxy-group-id",
    "ignore-loopback",
    "redirect-all-incoming-to-proxy-port",
    "redirect-all-outgoing-to-proxy-port",
    "redirect-port",
    "install-proxy-init",
];

/// A rule without one of these comments, or a chain.
const OTHER: &str = "other";

/// What differs, and how.
pub(crate) type Differences = BTreeMap<String, String>;

/// Everything that can differ.
pub(crate) fn aspects() -> BTreeSet<String> {
    let of_chain = CHAINS.into_iter().flat_map(|chain| {
        let sorts = SORTS.into_iter().chain([OTHER, "order"]);
        sorts.map(move |sort| format!("{chain} {sort}"))
    });
    let of_connections = connections().map(|name| format!("connection {name}"));
    let whole = [ADD, LEFT].map(str::to_owned);
    whole
        .into_iter()
        .chain(of_chain)
        .chain(of_connections)
        .collect()
}

/// In what the reference's outcome and ours differ.
pub(crate) fn between(reference: &Outcome, ours: &Outcome) -> Differences {
    let mut found = Differences::new();
    let mut add = |aspect: String, theirs: &str, our: &str| {
        found.insert(aspect, format!("reference: {theirs}\n  ours:      {our}"));
    };
    if reference.added && ours.added {
        of_rules(reference, ours, &mut add);
        for (name, theirs) in &reference.landed {
            let our = ours.landed.get(name).map_or("not tried", String::as_str);
            if theirs != our {
                add(format!("connection {name}"), theirs, our);
            }
        }
        return found;
    }
    if reference.added != ours.added {
        add(ADD.to_owned(), &verdict(reference), &verdict(ours));
    }
    let left = |outcome: &Outcome| (!outcome.added && !outcome.rules.is_empty()).to_string();
    if left(reference) != left(ours) {
        add(LEFT.to_owned(), &left(reference), &left(ours));
    }
    found
}

fn verdict(outcome: &Outcome) -> String {
    match outcome.added {
        true => "the pod starts".to_owned(),
        false => format!("it does not: {}", outcome.said),
    }
}

/// The rules of each sort, then their order.
fn of_rules(reference: &Outcome, ours: &Outcome, add: &mut impl FnMut(String, &str, &str)) {
    let (theirs, our) = (sorted(reference), sorted(ours));
    let sorts: BTreeSet<&String> = theirs.keys().chain(our.keys()).collect();
    let none = String::new();
    let mut is_same = true;
    for sort in sorts {
        let of = |all: &BTreeMap<String, String>| all.get(sort).unwrap_or(&none).clone();
        let (theirs, our) = (of(&theirs), of(&our));
        if theirs != our {
            add(sort.clone(), &theirs, &our);
            is_same = false;
        }
    }
    if !is_same {
        return;
    }
    for chain in CHAINS {
        let of = |outcome: &Outcome| {
            let lines = outcome.rules.iter().map(|(at, line)| (at, untraced(line)));
            let lines = lines.filter(|(_, line)| chain_of(line) == chain);
            lines
                .map(|(at, line)| format!("\n    {at}: {line}"))
                .collect()
        };
        let (theirs, our): (String, String) = (of(reference), of(ours));
        if theirs != our {
            add(format!("{chain} order"), &theirs, &our);
        }
    }
}

/// By chain and sort.
fn sorted(outcome: &Outcome) -> BTreeMap<String, String> {
    let mut all: BTreeMap<String, String> = BTreeMap::new();
    for (at, line) in &outcome.rules {
        let line = untraced(line);
        let sort = format!("{} {}", chain_of(&line), sort_of(&line));
        *all.entry(sort).or_default() += &format!("\n    {at}: {line}");
    }
    all
}

fn chain_of(line: &str) -> &str {
    let line = line.strip_prefix("-A ").or(line.strip_prefix(':'));
    let chain = line.and_then(|rest| rest.split(' ').next());
    chain.unwrap_or_default()
}

fn sort_of(line: &str) -> &'static str {
    let comment = line.split_once("proxy-init/").map(|(_, comment)| comment);
    let sort = comment.and_then(|comment| SORTS.into_iter().find(|sort| comment.starts_with(sort)));
    sort.unwrap_or(OTHER)
}

/// Without the time of the run, which releases before 2.4 append to each comment.
fn untraced(line: &str) -> String {
    let words = line.split(' ').map(|word| {
        let (quote, bare) = match word.strip_suffix('"') {
            Some(bare) => ("\"", bare),
            None => ("", word),
        };
        match bare.rsplit_once('/') {
            Some((rest, time)) if time.len() > 8 && time.bytes().all(|b| b.is_ascii_digit()) => {
                format!("{rest}{quote}")
            }
            _ => word.to_owned(),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORTS: &str = r#"-A PROXY_INIT_REDIRECT -p tcp -m multiport --dports 25 -m comment --comment "proxy-init/ignore-port-25" -j RETURN"#;
    const SUBNET: &str = r#"-A PROXY_INIT_REDIRECT -s 10.0.0.0/8 -m comment --comment "proxy-init/ignore-subnet-10.0.0.0/8" -j RETURN"#;

    fn outcome(lines: &[&str]) -> Outcome {
        let rules = lines
            .iter()
            .map(|line| ("Nft V4".to_owned(), (*line).to_owned()));
        Outcome {
            added: true,
            rules: rules.collect(),
            landed: BTreeMap::from([("in-8080", "IPv4 untouched at 8080; ".to_owned())]),
            ..Outcome::default()
        }
    }

    fn names(reference: &Outcome, ours: &Outcome) -> Vec<String> {
        between(reference, ours).into_keys().collect()
    }

    #[test]
    fn the_same_rules_do_not_differ_whenever_they_were_made() {
        let dated = PORTS.replace("port-25\"", "port-25/1764585600\"");
        assert_eq!(
            names(&outcome(&[&dated, SUBNET]), &outcome(&[PORTS, SUBNET])),
            Vec::<String>::new()
        );
    }

    #[test]
    fn each_sort_of_rule_is_a_difference_of_its_own_and_so_is_their_order() {
        let both = outcome(&[PORTS, SUBNET]);
        assert_eq!(
            names(&both, &outcome(&[SUBNET])),
            ["PROXY_INIT_REDIRECT ignore-port"]
        );
        assert_eq!(
            names(&both, &outcome(&[])),
            [
                "PROXY_INIT_REDIRECT ignore-port",
                "PROXY_INIT_REDIRECT ignore-subnet"
            ]
        );
        assert_eq!(
            names(&both, &outcome(&[SUBNET, PORTS])),
            ["PROXY_INIT_REDIRECT order"]
        );
        let foreign = "-A PROXY_INIT_REDIRECT -j ACCEPT";
        assert_eq!(
            names(&both, &outcome(&[PORTS, SUBNET, foreign])),
            ["PROXY_INIT_REDIRECT other"]
        );
    }

    #[test]
    fn a_rule_of_another_family_is_a_difference() {
        let mut other = outcome(&[PORTS]);
        "Nft V6".clone_into(&mut other.rules[0].0);
        assert_eq!(
            names(&outcome(&[PORTS]), &other),
            ["PROXY_INIT_REDIRECT ignore-port"]
        );
    }

    #[test]
    fn where_a_connection_lands_is_a_difference() {
        let mut other = outcome(&[PORTS]);
        other.landed.insert("in-8080", "IPv4 nowhere; ".to_owned());
        assert_eq!(names(&outcome(&[PORTS]), &other), ["connection in-8080"]);
    }

    #[test]
    fn of_a_pod_that_does_not_start_only_that_and_what_is_left_counts() {
        let failed = |lines| Outcome {
            added: false,
            landed: BTreeMap::new(),
            ..outcome(lines)
        };
        let added = outcome(&[PORTS]);
        assert_eq!(names(&failed(&[]), &added), ["ADD"]);
        assert_eq!(names(&failed(&[PORTS]), &added), ["ADD", LEFT]);
        assert_eq!(names(&failed(&[PORTS]), &failed(&[])), [LEFT]);
        assert_eq!(names(&failed(&[]), &failed(&[])), Vec::<String>::new());
    }

    #[test]
    fn every_difference_has_a_name_that_the_list_may_use() {
        let all = aspects();
        for line in [
            PORTS,
            SUBNET,
            "-A OUTPUT -j PROXY_INIT_OUTPUT",
            ":PROXY_INIT_OUTPUT -",
        ] {
            for name in names(&outcome(&[line]), &outcome(&[])) {
                assert!(all.contains(&name), "{name}");
            }
        }
    }
}
