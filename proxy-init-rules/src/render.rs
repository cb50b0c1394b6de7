//! Transactions for `iptables-restore --noflush`: each takes effect as a whole or not at all.

use std::fmt::Write as _;

use crate::{
    parse::{LiveRule, NatTable},
    rule::{Chain, Rule},
    ruleset::RuleSet,
};

impl RuleSet {
    /// The transaction for a namespace without any rules of ours. It fails as a whole if one of
    /// our chains is there already, because `-N` refuses to make it again; so nothing needs to be
    /// read first.
    #[must_use]
    pub fn render_install(&self) -> String {
        let chains = Chain::OURS.map(|chain| format!("-N {chain}"));
        let rules = self.rules().iter().map(ToString::to_string);
        transaction(chains.into_iter().chain(rules))
    }

    /// The transaction that puts these rules in the place of those that `found` has. A jump that
    /// is right already keeps its place among the rules of others.
    #[must_use]
    pub fn render_replace(&self, found: &NatTable) -> String {
        let chains = Chain::OURS.map(|chain| match found.rules_of(chain.name()) {
            Some(_) => format!("-F {chain}"),
            None => format!("-N {chain}"),
        });
        let (kept, stale) = jumps(found);
        let deletions = stale.into_iter().map(delete);
        let rules = self.rules().iter().filter(|rule| !kept.contains(rule));
        let additions = rules.map(ToString::to_string);
        transaction(chains.into_iter().chain(deletions).chain(additions))
    }
}

/// The transaction that takes our chains and the jumps to them out of a table that has them as
/// [`RuleSet::render_install`] left them, whatever their rules. It fails as a whole if the table
/// has not; so nothing needs to be read first.
#[must_use]
pub fn render_uninstall() -> String {
    let jumps = Chain::OURS.map(Rule::jump_to);
    let deletions = jumps.map(|jump| format!("-D {} {}", jump.chain, jump.spec()));
    let flushes = Chain::OURS.map(|chain| format!("-F {chain}"));
    let removals = Chain::OURS.map(|chain| format!("-X {chain}"));
    transaction([deletions, flushes, removals].into_iter().flatten())
}

impl NatTable {
    /// The transaction that takes our chains and every jump to them out; `None` if there is
    /// nothing to take out.
    #[must_use]
    pub fn render_remove(&self) -> Option<String> {
        let ours = Chain::OURS.map(Chain::name);
        let present: Vec<_> = ours
            .into_iter()
            .filter(|name| self.rules_of(name).is_some())
            .collect();
        if present.is_empty() {
            return None;
        }
        let jumps = all_jumps(self).map(delete);
        let flushes = present.iter().map(|name| format!("-F {name}"));
        let removals = present.iter().map(|name| format!("-X {name}"));
        Some(transaction(jumps.chain(flushes).chain(removals)))
    }
}

type Located<'a> = (&'a str, &'a LiveRule);

/// Jumps that stand exactly as we would set them, and all others to our chains. Where one chain
/// has several, none is kept.
fn jumps(found: &NatTable) -> (Vec<Rule>, Vec<Located<'_>>) {
    let right = |(_, rule): &Located<'_>| {
        rule.rule()
            .filter(|ours| ours.spec() == rule.text())
            .cloned()
    };
    let all: Vec<Located<'_>> = all_jumps(found).collect();
    let is_alone = |jump: &Located<'_>| {
        all.iter()
            .filter(|(_, other)| other.target() == jump.1.target())
            .count()
            == 1
    };
    let kept: Vec<Rule> = all
        .iter()
        .filter(|jump| is_alone(jump))
        .filter_map(right)
        .collect();
    let stale = all
        .iter()
        .filter(|jump| !right(jump).is_some_and(|rule| kept.contains(&rule)))
        .copied()
        .collect();
    (kept, stale)
}

fn all_jumps(table: &NatTable) -> impl Iterator<Item = Located<'_>> {
    let is_jump = |rule: &&LiveRule| {
        rule.target()
            .and_then(Chain::from_name)
            .is_some_and(|chain| Chain::OURS.contains(&chain))
    };
    // Rules of our own chains go with the chain.
    let others = table
        .chains()
        .iter()
        .filter(|chain| Chain::OURS.iter().all(|ours| ours.name() != chain.name()));
    others.flat_map(move |chain| {
        chain
            .rules()
            .iter()
            .filter(is_jump)
            .map(move |rule| (chain.name(), rule))
    })
}

/// The text is what `iptables-save` printed, quoted by it.
fn delete((chain, rule): Located<'_>) -> String {
    format!("-D {chain} {}", rule.text())
}

fn transaction(commands: impl Iterator<Item = String>) -> String {
    let mut text = String::from("*nat\n");
    for command in commands {
        let _ = writeln!(text, "{command}");
    }
    text.push_str("COMMIT\n");
    text
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use crate::{Config, Family, NatTable, RawConfig, RuleSet};

    fn rules() -> RuleSet {
        let raw = RawConfig::from_value(&json!({
            "incoming-proxy-port": 4143, "outgoing-proxy-port": 4140,
        }));
        RuleSet::new(&Config::try_from(raw.unwrap()).unwrap(), Family::Ipv4)
    }

    fn table(text: &str) -> NatTable {
        NatTable::parse(text, Family::Ipv4).unwrap()
    }

    #[test]
    fn the_first_transaction_makes_the_chains() {
        expect![[r#"
            *nat
            -N PROXY_INIT_REDIRECT
            -N PROXY_INIT_OUTPUT
            -A PROXY_INIT_REDIRECT -p tcp -m comment --comment "proxy-init/redirect-all-incoming-to-proxy-port" -j REDIRECT --to-ports 4143
            -A PREROUTING -m comment --comment "proxy-init/install-proxy-init-prerouting" -j PROXY_INIT_REDIRECT
            -A PROXY_INIT_OUTPUT -o lo -m comment --comment "proxy-init/ignore-loopback" -j RETURN
            -A PROXY_INIT_OUTPUT -p tcp -m comment --comment "proxy-init/redirect-all-outgoing-to-proxy-port" -j REDIRECT --to-ports 4140
            -A OUTPUT -m comment --comment "proxy-init/install-proxy-init-output" -j PROXY_INIT_OUTPUT
            COMMIT
        "#]].assert_eq(&rules().render_install());
    }

    #[test]
    fn the_second_keeps_a_right_jump_and_replaces_others() {
        let found = table(
            "*nat\n:PROXY_INIT_REDIRECT - [0:0]\n\
             -A PREROUTING -m comment --comment \"proxy-init/install-proxy-init-prerouting\" -j PROXY_INIT_REDIRECT\n\
             -A OUTPUT -p udp -j OTHERS\n\
             -A OUTPUT -m comment --comment \"proxy-init/install-proxy-init-output/17\" -j PROXY_INIT_OUTPUT\n",
        );
        expect![[r#"
            *nat
            -F PROXY_INIT_REDIRECT
            -N PROXY_INIT_OUTPUT
            -D OUTPUT -m comment --comment "proxy-init/install-proxy-init-output/17" -j PROXY_INIT_OUTPUT
            -A PROXY_INIT_REDIRECT -p tcp -m comment --comment "proxy-init/redirect-all-incoming-to-proxy-port" -j REDIRECT --to-ports 4143
            -A PROXY_INIT_OUTPUT -o lo -m comment --comment "proxy-init/ignore-loopback" -j RETURN
            -A PROXY_INIT_OUTPUT -p tcp -m comment --comment "proxy-init/redirect-all-outgoing-to-proxy-port" -j REDIRECT --to-ports 4140
            -A OUTPUT -m comment --comment "proxy-init/install-proxy-init-output" -j PROXY_INIT_OUTPUT
            COMMIT
        "#]].assert_eq(&rules().render_replace(&found));
    }

    #[test]
    fn what_was_installed_is_removed_without_reading_it() {
        let found = table(&rules().render_install());
        assert_eq!(super::render_uninstall(), found.render_remove().unwrap());
    }

    #[test]
    fn removal_takes_every_jump_and_both_chains() {
        let install = rules().render_install();
        let twice = install.replace(
            "COMMIT",
            "-A OUTPUT -m mark --mark 0x1 -j PROXY_INIT_OUTPUT\nCOMMIT",
        );
        expect![[r#"
            *nat
            -D PREROUTING -m comment --comment "proxy-init/install-proxy-init-prerouting" -j PROXY_INIT_REDIRECT
            -D OUTPUT -m comment --comment "proxy-init/install-proxy-init-output" -j PROXY_INIT_OUTPUT
            -D OUTPUT -m mark --mark 0x1 -j PROXY_INIT_OUTPUT
            -F PROXY_INIT_REDIRECT
            -F PROXY_INIT_OUTPUT
            -X PROXY_INIT_REDIRECT
            -X PROXY_INIT_OUTPUT
            COMMIT
        "#]].assert_eq(&table(&twice).render_remove().unwrap());
        assert_eq!(table("*nat\n:OUTPUT ACCEPT [0:0]\n").render_remove(), None);
    }
}
