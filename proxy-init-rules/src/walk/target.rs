//! What a rule does with a connection that it is about.

use crate::parse::{LiveRule, NatTable};

/// Targets that change nothing about where a connection goes, and let it meet the next rule.
const HARMLESS: [&str; 14] = [
    "AUDIT",
    "CLASSIFY",
    "CONNMARK",
    "CONNSECMARK",
    "CT",
    "DSCP",
    "LOG",
    "MARK",
    "NFLOG",
    "NOTRACK",
    "SECMARK",
    "SET",
    "TRACE",
    "ULOG",
];

pub(super) enum Target<'a> {
    /// On to the next rule.
    GoesOn,
    Return,
    Accept,
    Drop,
    /// To a port of the pod itself, if the rule names one.
    Redirect(Option<u16>),
    /// To another address.
    Elsewhere,
    Chain {
        name: &'a str,
        comes_back: bool,
    },
    Unknown(&'a str),
}

impl<'a> Target<'a> {
    pub(super) fn of(rule: &'a LiveRule, table: &NatTable) -> Self {
        let Some(name) = rule.target() else {
            return Self::GoesOn;
        };
        match name {
            "RETURN" => Self::Return,
            "ACCEPT" => Self::Accept,
            "DROP" | "REJECT" => Self::Drop,
            "REDIRECT" => Self::Redirect(redirect_port(rule)),
            "DNAT" | "NETMAP" | "TPROXY" => Self::Elsewhere,
            name if HARMLESS.contains(&name) => Self::GoesOn,
            name if table.rules_of(name).is_some() => Self::Chain {
                name,
                comes_back: rule.value_of(&["-g", "--goto"]).is_none(),
            },
            name => Self::Unknown(name),
        }
    }
}

/// The target and its options, as they were printed.
pub(super) fn text(rule: &LiveRule) -> String {
    let words = rule.words();
    let at = words.iter().position(|word| word == "-j");
    words[at.unwrap_or(0)..].join(" ")
}

fn redirect_port(rule: &LiveRule) -> Option<u16> {
    rule.value_of(&["--to-ports", "--to-port"])?.parse().ok()
}
