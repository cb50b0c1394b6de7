//! What the kernel has, as independent tools print it.

use std::fmt;

use crate::netns::Netns;

/// The name of the tables that `native` sets.
pub const NATIVE: &str = "linkerd-cni";

/// One of the two implementations of iptables in the kernel.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Tables {
    /// `iptables-nft`: an nftables table named `nat`.
    Nft,
    /// `iptables-legacy`: the old tables.
    Legacy,
}

/// An address family.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

// === impl Family ===

impl fmt::Display for Family {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}

/// `iptables-save` of everything in the namespace, in these tables and this
/// family: without comments (they carry the date) and packet counters.
///
/// Reading does not bring a table into being.
///
/// # Panics
///
/// If the program fails.
pub fn save(netns: &Netns, tables: Tables, family: Family) -> String {
    let program = match (tables, family) {
        (Tables::Nft, Family::V4) => "iptables-nft-save",
        (Tables::Nft, Family::V6) => "ip6tables-nft-save",
        (Tables::Legacy, Family::V4) => "iptables-legacy-save",
        (Tables::Legacy, Family::V6) => "ip6tables-legacy-save",
    };
    let saved = netns.run(program, &[]);
    without_counters(&saved.unwrap_or_else(|error| panic!("{error:#}")))
}

/// The tables that `native` sets, of both families, as `nft` lists them.
///
/// # Panics
///
/// If the program fails.
pub fn native(netns: &Netns) -> String {
    let all = netns.run("nft", &["list", "ruleset"]);
    let all = all.unwrap_or_else(|error| panic!("{error:#}"));
    let mut is_ours = false;
    let mut listed = String::new();
    for line in all.lines() {
        if line.starts_with("table ") {
            is_ours = line.ends_with(&format!(" {NATIVE} {{"));
        }
        if is_ours {
            listed += &format!("{line}\n");
        }
    }
    listed
}

/// Everything that is in the namespace, in each implementation and family.
///
/// # Panics
///
/// If a program fails.
pub fn everything(netns: &Netns) -> String {
    let mut all = String::new();
    for tables in [Tables::Nft, Tables::Legacy] {
        for family in [Family::V4, Family::V6] {
            all += &format!("## {tables:?} {family:?}\n{}", save(netns, tables, family));
        }
    }
    all + "## native\n" + &native(netns)
}

/// As [`everything`], less tables and chains that are empty: what a connection
/// notices. (Looking into a legacy table brings it into being, for good.)
///
/// # Panics
///
/// If a program fails.
pub fn effective(netns: &Netns) -> Vec<String> {
    let everything = everything(netns);
    let mut is_native = false;
    let lines = everything.lines().filter(|line| {
        let is_heading = line.starts_with("## ");
        is_native |= is_heading && line.ends_with("native");
        line.starts_with("-A ") || custom_chain(line) || (is_native && !is_heading)
    });
    lines.map(str::to_owned).collect()
}

/// Applies a payload of `iptables-restore` on top of what is there.
///
/// # Panics
///
/// If the program fails.
pub fn restore(netns: &Netns, tables: Tables, family: Family, payload: &str) {
    let program = match (tables, family) {
        (Tables::Nft, Family::V4) => "iptables-nft-restore",
        (Tables::Nft, Family::V6) => "ip6tables-nft-restore",
        (Tables::Legacy, Family::V4) => "iptables-legacy-restore",
        (Tables::Legacy, Family::V6) => "ip6tables-legacy-restore",
    };
    netns
        .run_with_input(program, &["--noflush"], payload)
        .unwrap_or_else(|error| panic!("{error:#}"));
}

/// `:NAME - [0:0]`: a chain that somebody made; built-in ones have a policy.
fn custom_chain(line: &str) -> bool {
    line.starts_with(':') && line.split(' ').nth(1) == Some("-")
}

fn without_counters(saved: &str) -> String {
    let mut text = String::new();
    for line in saved.lines().filter(|line| !line.starts_with('#')) {
        let line = match (line.starts_with(':'), line.rfind(" [")) {
            (true, Some(counters)) => &line[..counters],
            _ => line,
        };
        text.push_str(line);
        text.push('\n');
    }
    text
}
