//! For each rule of a dual-stack rule set, on each backend: what `iptables` did
//! to it is named, and nothing else is.

use linkerd_cni_integration::rules::{self, Family, Tables};
use linkerd_cni_integration::stage::Stage;
use serde_json::json;

#[test]
fn each_change_is_named_alone_with_nft() {
    for family in [Family::V4, Family::V6] {
        Matrix::new("nft", Tables::Nft, family).run();
    }
}

#[test]
fn each_change_is_named_alone_with_legacy() {
    for family in [Family::V4, Family::V6] {
        Matrix::new("legacy", Tables::Legacy, family).run();
    }
}

/// Our chains, and the kernel's that jump to them.
const OURS: [(&str, &str); 2] = [
    ("PROXY_INIT_REDIRECT", "PREROUTING"),
    ("PROXY_INIT_OUTPUT", "OUTPUT"),
];

struct Matrix {
    stage: Stage,
    family: Family,
    program: &'static str,
    tables: Tables,
    /// What `iptables-save` printed after ADD.
    saved: String,
}

/// A rule as it was saved.
#[derive(Clone, Debug)]
struct Rule {
    chain: String,
    place: usize,
    words: Vec<String>,
}

/// A pod that gets every kind of rule.
pub(crate) fn every_kind_of_rule(mode: &str) -> Stage {
    Stage::new("meshed")
        .linkerd("iptables-mode", mode)
        .linkerd("proxy-gid", 2103)
        .linkerd("ports-to-redirect", json!((8000..8020).collect::<Vec<_>>()))
        .linkerd(
            "subnets-to-ignore",
            json!(["192.168.77.0/24", "10.9.0.0/16", "fd77::/64", "fd78::/64"]),
        )
        .linkerd("interfaces-to-ignore", json!(["net1", "tun+"]))
        .linkerd(
            "outbound-ports-to-redirect",
            json!((9000..9020).collect::<Vec<_>>()),
        )
        .linkerd(
            "outbound-subnets-to-ignore",
            json!(["192.168.77.0/24", "10.9.0.0/16", "fd77::/64", "fd78::/64"]),
        )
        .top("cniVersion", "1.0.0")
}

// === impl Matrix ===

impl Matrix {
    fn new(mode: &str, tables: Tables, family: Family) -> Self {
        let stage = every_kind_of_rule(mode);
        stage.add().succeed();
        let saved = rules::save(&stage.netns, tables, family);
        let program = match (tables, family) {
            (Tables::Nft, Family::V4) => "iptables-nft",
            (Tables::Nft, Family::V6) => "ip6tables-nft",
            (Tables::Legacy, Family::V4) => "iptables-legacy",
            (Tables::Legacy, Family::V6) => "ip6tables-legacy",
        };
        Self {
            stage,
            family,
            program,
            tables,
            saved,
        }
    }

    fn run(&self) {
        self.stage.call("CHECK").succeed();
        let rules = self.rules();
        assert!(rules.len() > 10, "{rules:#?}");
        for rule in &rules {
            self.deleted(rule);
            self.changed(rule);
            self.duplicated(rule);
            self.moved(rule, &rules);
        }
        for (chain, base) in OURS {
            self.overtaken(base);
            self.flushed(chain);
            self.chain_deleted(chain, base);
        }
        self.family_dropped();
        self.stage.call("CHECK").succeed();
    }

    fn deleted(&self, rule: &Rule) {
        self.iptables(&["-D", &rule.chain, &rule.place.to_string()]);
        self.names(&rule.chain, &format!("rule {} is missing: ", rule.place));
    }

    fn changed(&self, rule: &Rule) {
        let place = rule.place.to_string();
        let changed = rule.changed();
        let words: Vec<&str> = ["-R", &rule.chain, &place]
            .into_iter()
            .chain(changed.iter().map(String::as_str))
            .collect();
        self.iptables(&words);
        self.names(&rule.chain, &format!("rule {place} was changed from: "));
    }

    fn duplicated(&self, rule: &Rule) {
        let next = rule.place + 1;
        self.insert(rule, next);
        self.names(&rule.chain, &format!("rule {next} is a second copy: "));
    }

    /// From its place to the last, or from the last to the first.
    fn moved(&self, rule: &Rule, rules: &[Rule]) {
        let count = rules.iter().filter(|r| r.chain == rule.chain).count();
        if count < 3 {
            return;
        }
        let to = if rule.place == count { 1 } else { count };
        self.iptables(&["-D", &rule.chain, &rule.place.to_string()]);
        self.insert(rule, to);
        let from = rule.place;
        let expected = if from + 1 == to {
            // The last two are swapped: either is out of place.
            let words = self.stage.call("CHECK").fail(101).msg().to_owned();
            let other = format!("rule {to} is out of place, it stands at {from}: ");
            if words.contains(&other) {
                other
            } else {
                format!("rule {from} is out of place, it stands at {to}: ")
            }
        } else {
            format!("rule {from} is out of place, it stands at {to}: ")
        };
        self.names(&rule.chain, &expected);
    }

    fn overtaken(&self, base: &str) {
        self.iptables(&["-I", base, "1", "-p", "tcp", "-j", "ACCEPT"]);
        self.names(
            base,
            "rule 1 of somebody else stands before ours and takes connections away: -p tcp -j ACCEPT",
        );
    }

    fn flushed(&self, chain: &str) {
        self.iptables(&["-F", chain]);
        self.names(chain, "the chain is empty, all its rules are missing");
    }

    fn chain_deleted(&self, chain: &str, base: &str) {
        self.iptables(&["-D", base, "1"]);
        self.iptables(&["-F", chain]);
        self.iptables(&["-X", chain]);
        self.names(chain, "the chain is missing, and with it the jump to it");
    }

    fn family_dropped(&self) {
        self.iptables(&["-F"]);
        self.iptables(&["-X"]);
        let expected = format!(
            "pod emojivoto/web-meshed: {}: no redirect rules at all, traffic is in the clear",
            self.family
        );
        let output = self.stage.call("CHECK").fail(101);
        assert_eq!((output.msg(), output.details()), (&*expected, ""));
        self.put_back();
    }

    /// CHECK names this and nothing else; then everything is as it was again.
    #[track_caller]
    fn names(&self, chain: &str, what: &str) {
        let expected = format!("pod emojivoto/web-meshed: {} {chain}: {what}", self.family);
        let output = self.stage.call("CHECK").fail(101);
        let is_alone = output.details().is_empty();
        assert!(
            output.msg().starts_with(&expected) && is_alone,
            "{expected}: {output:#?}"
        );
        self.put_back();
    }

    fn put_back(&self) {
        self.iptables(&["-F"]);
        rules::restore(&self.stage.netns, self.tables, self.family, &self.saved);
    }

    fn insert(&self, rule: &Rule, place: usize) {
        let place = place.to_string();
        let words: Vec<&str> = ["-I", &rule.chain, &place]
            .into_iter()
            .chain(rule.words.iter().map(String::as_str))
            .collect();
        self.iptables(&words);
    }

    fn iptables(&self, words: &[&str]) {
        let words = [&["-t", "nat"], words].concat();
        let ran = self.stage.netns.run(self.program, &words);
        ran.unwrap_or_else(|error| panic!("{error:#}"));
    }

    fn rules(&self) -> Vec<Rule> {
        let mut rules: Vec<Rule> = Vec::new();
        for line in self.saved.lines() {
            let Some(rest) = line.strip_prefix("-A ") else {
                continue;
            };
            let (chain, spec) = rest.split_once(' ').expect("a rule says something");
            let place = 1 + rules.iter().filter(|rule| rule.chain == chain).count();
            rules.push(Rule {
                chain: chain.to_owned(),
                place,
                // No comment of ours has a blank.
                words: spec.split(' ').map(|word| word.replace('"', "")).collect(),
            });
        }
        rules
    }
}

// === impl Rule ===

impl Rule {
    /// The same rule with another port, or whatever it has in place of one.
    fn changed(&self) -> Vec<String> {
        let mut words = self.words.clone();
        let value = |option: &str| self.words.iter().position(|word| word == option);
        let (at, to) = if let Some(at) = value("--to-ports") {
            (at + 1, "4999".to_owned())
        } else if let Some(at) = value("--dports") {
            let (_, rest) = words[at + 1].split_once(',').unwrap_or(("", "4998"));
            (at + 1, format!("4999,{rest}"))
        } else if let Some(at) = value("--uid-owner").or(value("--gid-owner")) {
            (at + 1, "4999".to_owned())
        } else if let Some(at) = value("-s").or(value("-d")) {
            (at + 1, words[at + 1].replace('7', "6").replace('9', "8"))
        } else if let Some(at) = value("-i").or(value("-o")) {
            (at + 1, "eth9".to_owned())
        } else {
            words.splice(0..0, ["-p".to_owned(), "tcp".to_owned()]);
            return words;
        };
        words[at] = to;
        words
    }
}
