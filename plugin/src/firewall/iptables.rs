//! The iptables programs: one `iptables-restore` transaction, fed on standard input.

use std::{path::PathBuf, time::Duration};

use proxy_init_rules::{Family, NatTable, RuleSet, render_uninstall};

use super::{Backend, BackendKind, Failure, Installed};
use crate::exec;

/// Old programs know nothing but the host's own lock: they wait for it, but not without limit.
const RESTORE: [&str; 4] = ["--noflush", "-v", "-w", "5"];
const SAVE: [&str; 2] = ["-t", "nat"];

/// A comment behind the transaction. With `-v` the programs print comments, so that this one shows
/// that they have read all of their input: a read error is the end of it to them, and no error.
const TO_THE_END: &str = "# linkerd-cni: read to the end";

/// The exit status by which iptables says that it did not get its lock (`RESOURCE_PROBLEM`).
const RESOURCE_PROBLEM: i32 = 4;

/// How often rules are read and set anew while somebody else changes the table in between: the
/// kernel refuses a legacy table that was made from an older one (EAGAIN, which
/// `iptables-legacy-restore` does not tell from other refusals).
const ATTEMPTS: usize = 8;

pub(super) struct Iptables {
    kind: BackendKind,
    patience: Duration,
}

impl Iptables {
    pub(super) fn new(kind: BackendKind, patience: Duration) -> Self {
        Self { kind, patience }
    }

    fn restore(&self, family: Family, payload: &str) -> Result<Ran, Failure> {
        let payload = format!("{payload}{TO_THE_END}\n");
        self.run(family, "restore", &RESTORE, &payload)
    }

    /// Sets rules, and makes sure that they are there.
    fn set(&self, family: Family, payload: &str) -> Result<(), Failure> {
        let Ran { command, printed } = self.restore(family, payload)?;
        if printed.contains(TO_THE_END) || self.read(family)?.has_ours() {
            return Ok(());
        }
        Err(Failure::Idle { command })
    }

    fn save(&self, family: Family, args: &[&str]) -> Result<NatTable, Failure> {
        let Ran { command, printed } = self.run(family, "save", args, "")?;
        NatTable::parse(&printed, family).map_err(|source| Failure::Unreadable { command, source })
    }

    fn run(&self, family: Family, tool: &str, args: &[&str], input: &str) -> Result<Ran, Failure> {
        let program = self.program(family, tool)?;
        let command = exec::command_line(&program, args);
        let output = exec::run(&program, args, input, self.patience)?;
        if output.status.success() {
            let printed = output.stdout;
            return Ok(Ran { command, printed });
        }
        let stderr = output.stderr;
        if output.status.code() == Some(RESOURCE_PROBLEM) && stderr.contains("xtables lock") {
            return Err(Failure::Locked { command });
        }
        Err(Failure::Refused {
            hint: hint(self.kind, family, &stderr),
            status: output.status,
            command,
            stderr,
        })
    }

    fn program(&self, family: Family, tool: &str) -> Result<PathBuf, Failure> {
        let program = self.name(family, tool);
        exec::find(&program, std::env::var_os("PATH")).ok_or(Failure::Missing { program })
    }

    fn name(&self, family: Family, tool: &str) -> String {
        let base = match family {
            Family::Ipv4 => "iptables",
            Family::Ipv6 => "ip6tables",
        };
        match self.kind {
            BackendKind::Plain => format!("{base}-{tool}"),
            kind => format!("{base}-{kind}-{tool}"),
        }
    }

    fn fresh(&self, rules: &RuleSet) -> Result<Installed, Failure> {
        self.set(rules.family(), &rules.render_install())?;
        Ok(Installed::Fresh)
    }

    fn replace(&self, rules: &RuleSet, found: &NatTable) -> Result<Installed, Failure> {
        self.set(rules.family(), &rules.render_replace(found))?;
        Ok(Installed::Replaced)
    }
}

/// Whether the program that sets the rules is on this host.
#[must_use]
pub(crate) fn is_installed(kind: BackendKind, family: Family) -> bool {
    Iptables::new(kind, exec::DEADLINE)
        .program(family, "restore")
        .is_ok()
}

/// Whether the program that shows the rules is on this host.
#[must_use]
pub(super) fn can_read(kind: BackendKind, family: Family) -> bool {
    Iptables::new(kind, exec::DEADLINE)
        .program(family, "save")
        .is_ok()
}

/// Whether the plain programs are those of nft: they say so beside their version,
/// since 1.8.0.
///
/// # Errors
/// They cannot be asked.
pub(super) fn is_plain_nft() -> Result<bool, Failure> {
    let plain = Iptables::new(BackendKind::Plain, exec::DEADLINE);
    let ran = plain.run(Family::Ipv4, "restore", &["--version"], "")?;
    Ok(ran.printed.contains("nf_tables"))
}

/// A command that went well.
struct Ran {
    command: String,
    printed: String,
}

impl Backend for Iptables {
    /// On a fresh namespace that is one process. Only if its transaction fails is the table read,
    /// to see whether the reason is that our chains are there already.
    fn install(&self, rules: &RuleSet) -> Result<Installed, Failure> {
        let mut last = match self.fresh(rules) {
            Err(refused @ Failure::Refused { .. }) => refused,
            done => return done,
        };
        for _ in 0..ATTEMPTS {
            let again = match self.read(rules.family()) {
                Ok(found) if found.has_ours() => self.replace(rules, &found),
                Ok(_) if self.kind != BackendKind::Nft => self.fresh(rules),
                // The table cannot be read, or is as fresh as can be: the refusal stands.
                _ => return Err(last),
            };
            match again {
                Err(refused @ Failure::Refused { .. }) => last = refused,
                done => return done,
            }
        }
        Err(last)
    }

    fn read(&self, family: Family) -> Result<NatTable, Failure> {
        self.save(family, &SAVE)
    }

    /// The legacy programs make the table that they are asked for; without a name they print those
    /// that are there.
    fn peek(&self, family: Family) -> Result<NatTable, Failure> {
        match self.kind {
            BackendKind::Nft => self.save(family, &SAVE),
            _ => self.save(family, &[]),
        }
    }

    /// One process where the rules are as we set them; else the table is read to see what is
    /// there.
    fn remove(&self, family: Family) -> Result<bool, Failure> {
        let mut last = match self.restore(family, &render_uninstall()) {
            Err(refused @ Failure::Refused { .. }) => refused,
            done => return done.map(|_| true),
        };
        for _ in 0..ATTEMPTS {
            let Some(payload) = self.read(family)?.render_remove() else {
                return Ok(false);
            };
            match self.restore(family, &payload) {
                Err(refused @ Failure::Refused { .. }) => last = refused,
                done => return done.map(|_| true),
            }
        }
        Err(last)
    }
}

/// What is likely the reason, from what the program said: mostly a missing kernel module.
fn hint(kind: BackendKind, family: Family, stderr: &str) -> String {
    let nat = match family {
        Family::Ipv4 => "iptable_nat",
        Family::Ipv6 => "ip6table_nat",
    };
    let has = |texts: &[&str]| texts.iter().any(|text| stderr.contains(text));
    let likely = if has(&["you must be root"]) {
        "is CAP_NET_ADMIN missing, or a system call refused by a seccomp filter?".to_owned()
    } else if has(&["(Invalid argument)"]) {
        // xt_owner takes rules only from inside the user namespace that owns the network namespace.
        "does the pod have a user namespace of its own (hostUsers: false)? The kernel takes no \
         rules about owners from outside of it"
            .to_owned()
    } else if has(&["unable to initialize table"]) {
        format!("is the kernel module {nat} loaded, are CAP_NET_ADMIN and CAP_NET_RAW there?")
    } else if has(&[
        "Table does not exist",
        "can't initialize",
        "do you need to insmod",
    ]) {
        format!("is the kernel module {nat} loaded?")
    } else if has(&[
        "fetch rule set generation id",
        "Protocol not supported",
        "TABLE_ADD",
    ]) {
        "are the kernel modules nf_tables and nft_chain_nat loaded?".to_owned()
    } else if has(&[
        "No chain/target/match by that name",
        "RULE_APPEND",
        "Extension",
    ]) {
        let compat = if kind == BackendKind::Legacy {
            ""
        } else {
            "nft_compat, "
        };
        format!(
            "are the kernel modules {compat}xt_REDIRECT, xt_comment, xt_multiport, xt_owner and \
             xt_tcpudp loaded?"
        )
    } else {
        return String::new();
    };
    format!(" ({likely})")
}
