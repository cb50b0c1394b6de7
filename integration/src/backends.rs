//! The ways in which the plugin reaches the kernel: what is tested in each is
//! tested over this list.

use crate::netns::Netns;
use crate::process;
use crate::rules::{self, Family, Tables};

/// The one that runs no program.
const NATIVE: &str = "native";

/// A value of `iptables-mode`.
#[derive(Clone, Copy, Debug)]
pub struct Backend {
    /// The value.
    pub mode: &'static str,
    /// The tables that it shares with others, where a program shows them.
    pub tables: Tables,
    /// Whether it runs programs of the host.
    pub has_programs: bool,
}

// === impl Backend ===

impl Backend {
    /// The rules of this chain, as an independent tool prints them.
    ///
    /// # Panics
    ///
    /// If the tool fails.
    pub fn rules(&self, netns: &Netns, family: Family, chain: &str) -> String {
        if self.has_programs {
            let saved = rules::save(netns, self.tables, family);
            let of_chain = format!("-A {chain} ");
            let rules = saved.lines().filter(|line| line.starts_with(&of_chain));
            return rules.collect::<Vec<_>>().join("\n");
        }
        let listed = rules::native(netns);
        let after = listed.split_once(&format!("chain {chain} {{"));
        let rules = after.and_then(|(_, after)| after.split_once("\n\t}"));
        rules.map_or(String::new(), |(rules, _)| rules.to_owned())
    }
}

/// Every backend that reaches the kernel.
///
/// # Panics
///
/// If this machine has no `iptables`.
pub fn all() -> Vec<Backend> {
    let of = |mode, tables| Backend {
        mode,
        tables,
        has_programs: mode != NATIVE,
    };
    vec![
        of("nft", Tables::Nft),
        of("legacy", Tables::Legacy),
        of("plain", plain()),
        of(NATIVE, Tables::Nft),
    ]
}

/// Those that run programs of the host, which can be missing, fail or hang.
///
/// # Panics
///
/// As [`all`].
pub fn with_programs() -> Vec<Backend> {
    all()
        .into_iter()
        .filter(|backend| backend.has_programs)
        .collect()
}

/// What this machine's `iptables` is.
///
/// # Panics
///
/// If it is not installed.
pub fn plain() -> Tables {
    let version = process::run("iptables", &["--version"]).expect("iptables is installed");
    if version.contains("nf_tables") {
        Tables::Nft
    } else {
        Tables::Legacy
    }
}
