//! The ways in which the plugin reaches the kernel: what is tested in each is
//! tested over this list.

use crate::process;
use crate::rules::Tables;

/// A value of `iptables-mode`.
#[derive(Clone, Copy, Debug)]
pub struct Backend {
    /// The value.
    pub mode: &'static str,
    /// Where its rules show.
    pub tables: Tables,
    /// Whether it runs programs of the host.
    pub has_programs: bool,
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
        has_programs: true,
    };
    vec![
        of("nft", Tables::Nft),
        of("legacy", Tables::Legacy),
        of("plain", plain()),
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
