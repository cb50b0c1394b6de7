//! As `matrix.rs`, for `native`: what `nft` did to any rule is named, and nothing
//! else is.

use crate::matrix::every_kind_of_rule;
use linkerd_cni_integration::rules;
use linkerd_cni_integration::stage::Stage;

#[test]
fn each_change_is_named_alone_with_native() {
    Matrix::new(true).run();
}

#[test]
fn each_change_is_named_alone_with_native_for_one_family() {
    Matrix::new(false).run();
}

/// Our chains, and those that jump to them.
const OURS: [(&str, &str); 2] = [
    ("PROXY_INIT_REDIRECT", "PREROUTING"),
    ("PROXY_INIT_OUTPUT", "OUTPUT"),
];

struct Matrix {
    stage: Stage,
    /// `inet` or `ip`.
    kind: &'static str,
    /// What `nft` listed after ADD.
    saved: String,
}

/// A rule as `nft` lists it.
#[derive(Clone, Debug)]
struct Rule {
    chain: String,
    /// Its place among the rules of the chain that are about its family.
    places: Vec<(&'static str, usize)>,
    handle: u64,
    text: String,
}

// === impl Matrix ===

impl Matrix {
    fn new(ipv6: bool) -> Self {
        let stage = every_kind_of_rule("native").linkerd("ipv6", ipv6);
        stage.add().succeed();
        let saved = rules::native(&stage.netns);
        let kind = if ipv6 { "inet" } else { "ip" };
        Self { stage, kind, saved }
    }

    fn run(&self) {
        self.stage.call("CHECK").succeed();
        let rules = self.rules();
        assert!(rules.len() > 8, "{rules:#?}");
        for at in 0..rules.len() {
            // Handles are new after each repair.
            let now = || self.rules();
            self.deleted(&now()[at]);
            self.changed(&now()[at]);
            self.duplicated(&now()[at]);
            self.moved(&now()[at], &rules);
        }
        for (chain, base) in OURS {
            self.overtaken(base);
            self.flushed(chain);
            self.chain_deleted(chain, base);
            self.base_is_no_longer_entered(base);
        }
        self.one_family_dropped();
        self.dropped();
        self.asleep();
        self.stage.call("CHECK").succeed();
    }

    fn deleted(&self, rule: &Rule) {
        self.nft(&self.deletion(rule));
        self.names(rule, |place| format!("rule {place} is missing: "));
    }

    fn changed(&self, rule: &Rule) {
        let added = self.behind(rule, &changed(&rule.text));
        self.nft(&format!("{added}\n{}", self.deletion(rule)));
        self.names(rule, |place| format!("rule {place} was changed from: "));
    }

    fn duplicated(&self, rule: &Rule) {
        self.nft(&self.behind(rule, &rule.text));
        self.names(rule, |place| {
            format!("rule {} is a second copy: ", place + 1)
        });
    }

    fn behind(&self, rule: &Rule, text: &str) -> String {
        let (kind, chain, handle) = (self.kind, &rule.chain, rule.handle);
        format!("add rule {kind} linkerd-cni {chain} handle {handle} {text}")
    }

    /// From its place to the last, or from the last to the first.
    fn moved(&self, rule: &Rule, rules: &[Rule]) {
        let of_chain: Vec<&Rule> = rules.iter().filter(|r| r.chain == rule.chain).collect();
        let (family, place) = rule.places[0];
        let count = of_chain
            .iter()
            .filter(|r| r.place(family).is_some())
            .count();
        if count < 3 {
            return;
        }
        let to = if place == count { 1 } else { count };
        let how = if to == 1 { "insert" } else { "add" };
        let (kind, chain, text) = (self.kind, &rule.chain, &rule.text);
        let moved = format!("{how} rule {kind} linkerd-cni {chain} {text}");
        self.nft(&format!("{}\n{moved}", self.deletion(rule)));
        let output = self.stage.call("CHECK").fail(101);
        // Of two that were swapped either is out of place.
        assert!(
            output.msg().contains(" is out of place, it stands at "),
            "{output:#?}"
        );
        assert!(output.msg().contains(&rule.chain), "{output:#?}");
        let lines = output.details().lines().count().max(1);
        assert_eq!(lines, rule.places.len(), "{output:#?}");
        self.put_back();
    }

    fn overtaken(&self, base: &str) {
        let kind = self.kind;
        self.nft(&format!(
            "insert rule {kind} linkerd-cni {base} meta l4proto tcp accept"
        ));
        self.says(
            base,
            "rule 1 of somebody else stands before ours and takes connections away: -p tcp -j ACCEPT",
        );
    }

    fn flushed(&self, chain: &str) {
        self.nft(&format!("flush chain {} linkerd-cni {chain}", self.kind));
        self.says(chain, "the chain is empty, all its rules are missing");
    }

    fn chain_deleted(&self, chain: &str, base: &str) {
        let kind = self.kind;
        self.nft(&format!("flush chain {kind} linkerd-cni {base}"));
        self.nft(&format!("flush chain {kind} linkerd-cni {chain}"));
        self.nft(&format!("delete chain {kind} linkerd-cni {chain}"));
        self.says(chain, "the chain is missing, and with it the jump to it");
    }

    /// A chain of the same name and with the same rules that no packet meets.
    fn base_is_no_longer_entered(&self, base: &str) {
        let kind = self.kind;
        let jump = self.rules().into_iter().find(|rule| rule.chain == base);
        let jump = jump.expect("there is a jump").text;
        self.nft(&format!("flush chain {kind} linkerd-cni {base}"));
        self.nft(&format!("delete chain {kind} linkerd-cni {base}"));
        self.nft(&format!("add chain {kind} linkerd-cni {base}"));
        self.nft(&format!("add rule {kind} linkerd-cni {base} {jump}"));
        self.says(base, "rule 1 is missing: ");
    }

    fn one_family_dropped(&self) {
        if self.kind != "inet" {
            return;
        }
        for (only, other) in [("ipv4", "IPv6"), ("ipv6", "IPv4")] {
            let rule = self
                .rules()
                .into_iter()
                .find(|rule| rule.chain == "PREROUTING");
            let handle = rule.expect("there is a jump").handle;
            self.nft(&format!(
                "replace rule inet linkerd-cni PREROUTING handle {handle} \
                 meta nfproto {only} jump PROXY_INIT_REDIRECT"
            ));
            let output = self.stage.call("CHECK").fail(101);
            let expected =
                format!("pod emojivoto/web-meshed: {other} PREROUTING: rule 1 is missing: ");
            assert!(output.msg().starts_with(&expected), "{output:#?}");
            assert_eq!(output.details(), "");
            self.put_back();
        }
    }

    fn dropped(&self) {
        self.nft(&format!("delete table {} linkerd-cni", self.kind));
        let output = self.stage.call("CHECK").fail(101);
        let words = "no redirect rules at all, traffic is in the clear";
        assert!(output.msg().contains(words), "{output:#?}");
        let count = output.details().matches(words).count().max(1);
        assert_eq!(count, self.families().len(), "{output:#?}");
        self.nft(&self.saved);
    }

    /// A table that the kernel was told to sleep through.
    fn asleep(&self) {
        self.nft(&format!(
            "add table {} linkerd-cni {{ flags dormant; }}",
            self.kind
        ));
        let output = self.stage.call("CHECK").fail(101);
        for base in ["PREROUTING", "OUTPUT"] {
            output.says(&[&format!("{base}: rule 1 is missing")]);
        }
        self.put_back();
    }

    /// CHECK names this in each family that the rule is about, and nothing else;
    /// then everything is as it was again.
    #[track_caller]
    fn names(&self, rule: &Rule, what: impl Fn(usize) -> String) {
        let lines = rule
            .places
            .iter()
            .map(|(family, place)| format!("{family} {}: {}", rule.chain, what(*place)));
        self.names_lines(&lines.collect::<Vec<_>>());
    }

    #[track_caller]
    fn says(&self, chain: &str, what: &str) {
        let families = self.families().into_iter();
        let lines = families.map(|family| format!("{family} {chain}: {what}"));
        self.names_lines(&lines.collect::<Vec<_>>());
    }

    #[track_caller]
    fn names_lines(&self, lines: &[String]) {
        let output = self.stage.call("CHECK").fail(101);
        let found: Vec<&str> = match output.details() {
            "" => vec![
                output
                    .msg()
                    .trim_start_matches("pod emojivoto/web-meshed: "),
            ],
            details => details.lines().collect(),
        };
        assert_eq!(found.len(), lines.len(), "{lines:#?}: {output:#?}");
        for (found, line) in found.iter().zip(lines) {
            assert!(found.starts_with(line), "{line}: {output:#?}");
        }
        self.put_back();
    }

    fn families(&self) -> Vec<&'static str> {
        match self.kind {
            "inet" => vec!["IPv4", "IPv6"],
            _ => vec!["IPv4"],
        }
    }

    fn put_back(&self) {
        let kind = self.kind;
        self.nft(&format!("delete table {kind} linkerd-cni\n{}", self.saved));
    }

    fn deletion(&self, rule: &Rule) -> String {
        let (kind, chain, handle) = (self.kind, &rule.chain, rule.handle);
        format!("delete rule {kind} linkerd-cni {chain} handle {handle}")
    }

    #[track_caller]
    fn nft(&self, text: &str) {
        let ran = self.stage.netns.run_with_input("nft", &["-f", "-"], text);
        ran.unwrap_or_else(|error| panic!("{text}: {error:#}"));
    }

    fn rules(&self) -> Vec<Rule> {
        let words = ["-a", "list", "table", self.kind, "linkerd-cni"];
        let listed = self.stage.netns.run("nft", &words);
        let listed = listed.unwrap_or_else(|error| panic!("{error:#}"));
        let mut rules: Vec<Rule> = Vec::new();
        let mut chain = "";
        for line in listed.lines().map(str::trim) {
            if let Some(name) = line.strip_prefix("chain ") {
                chain = name.split(' ').next().unwrap_or_default();
            }
            let Some((text, handle)) = line.split_once(" # handle ") else {
                continue;
            };
            if text.ends_with('{') {
                continue;
            }
            let place = |family: &'static str| {
                let before = rules.iter().filter(|rule| rule.chain == chain);
                let before = before.filter(|rule| rule.place(family).is_some());
                (family, 1 + before.count())
            };
            let is_about = |family: &&'static str| match *family {
                "IPv4" => !text.starts_with("ip6 "),
                _ => !text.starts_with("ip "),
            };
            let families = self.families().into_iter();
            rules.push(Rule {
                chain: chain.to_owned(),
                places: families.filter(is_about).map(place).collect(),
                handle: handle.parse().expect("a number"),
                text: text.to_owned(),
            });
        }
        rules
    }
}

// === impl Rule ===

impl Rule {
    fn place(&self, family: &str) -> Option<usize> {
        let mut places = self.places.iter();
        places
            .find(|(of, _)| *of == family)
            .map(|(_, place)| *place)
    }
}

/// Another port, id, subnet or name; a jump gets a condition.
fn changed(text: &str) -> String {
    for (from, to) in [
        ("redirect to :414", "redirect to :499"),
        ("dport { 222", "dport { 4999"),
        ("dport { 25", "dport { 4999"),
        ("skuid 2102", "skuid 4999"),
        ("skgid 2103", "skgid 4999"),
        ("\"lo\"", "\"eth9\""),
        ("\"net1\"", "\"net9\""),
        ("\"tun*\"", "\"tap*\""),
        ("192.168.77.", "192.168.66."),
        ("10.9.", "10.8."),
        ("fd77:", "fd66:"),
        ("fd78:", "fd68:"),
    ] {
        if text.contains(from) {
            return text.replacen(from, to, 1);
        }
    }
    format!("meta l4proto tcp {text}")
}
