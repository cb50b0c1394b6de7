//! From rule to rule.

use std::collections::HashSet;

use super::{
    Connection, End, Outcome, Place, Step, Walk,
    condition::{self, Answer},
    target::{self, Target},
};
use crate::{
    parse::{LiveRule, NatTable},
    rule::Chain,
};

/// How deep chains may call each other before we stop looking (the kernel forbids loops).
const DEEPEST: usize = 16;

/// How many rules are listed before chains are left out that have let the connection through
/// already. A few chains that each call the next one several times are billions of steps, and
/// everybody who may set rules in a pod can set such ones.
const MOST_STEPS: usize = 10_000;

pub(super) struct Walker<'a> {
    table: &'a NatTable,
    connection: &'a Connection,
    steps: Vec<Step>,
    /// The last rule that said `RETURN`.
    left_alone: Option<Place>,
    /// Chains that the connection came back out of, as it would a second time.
    let_through: HashSet<String>,
}

// === impl Walker ===

impl<'a> Walker<'a> {
    pub(super) fn new(table: &'a NatTable, connection: &'a Connection) -> Self {
        Self {
            table,
            connection,
            steps: Vec::new(),
            left_alone: None,
            let_through: HashSet::new(),
        }
    }

    pub(super) fn run(mut self) -> Walk {
        let base = self.connection.way.base();
        let end = self.chain(base.name(), 0);
        let by = self.left_alone;
        Walk {
            steps: self.steps,
            end: end.unwrap_or(End::Untouched { by }),
        }
    }

    /// `None`: the connection came back out of the chain.
    fn chain(&mut self, name: &str, depth: usize) -> Option<End> {
        let rules = self.table.rules_of(name).unwrap_or_default();
        for (index, rule) in rules.iter().enumerate() {
            let at = Place {
                chain: name.to_owned(),
                number: index + 1,
            };
            if !self.meets(rule, &at, depth) {
                continue;
            }
            match Target::of(rule, self.table) {
                Target::GoesOn | Target::Unknown(_) => {}
                Target::Return => {
                    self.left_alone = Some(at);
                    return None;
                }
                Target::Accept => return Some(End::Untouched { by: Some(at) }),
                Target::Drop => return Some(End::Dropped { by: at }),
                Target::Redirect(port) => return Some(redirected(rule, port, at)),
                Target::Elsewhere => {
                    let action = target::text(rule);
                    return Some(End::Elsewhere { action, by: at });
                }
                Target::Chain { name, comes_back } => {
                    let end = self.inner(name, depth);
                    if end.is_some() || !comes_back {
                        return end;
                    }
                }
            }
        }
        None
    }

    fn inner(&mut self, name: &str, depth: usize) -> Option<End> {
        let is_known = self.steps.len() > MOST_STEPS && self.let_through.contains(name);
        if depth >= DEEPEST || is_known {
            return None;
        }
        let end = self.chain(name, depth + 1);
        if end.is_none() {
            self.let_through.insert(name.to_owned());
        }
        end
    }

    fn meets(&mut self, rule: &LiveRule, at: &Place, depth: usize) -> bool {
        let target = Target::of(rule, self.table);
        let outcome = match (condition::of(rule, self.connection), target) {
            (Answer::No(why), _) => Outcome::Passed(why),
            // A rule that only counts or logs takes nobody elsewhere.
            (Answer::Unknown(why), Target::GoesOn) => Outcome::Passed(why),
            (Answer::Unknown(why), _) => Outcome::Unknown(why),
            (Answer::Yes, Target::Unknown(name)) => {
                Outcome::Unknown(format!("what {name} does is not known here"))
            }
            (Answer::Yes, _) => Outcome::Matched,
        };
        let matched = outcome == Outcome::Matched;
        self.steps.push(Step {
            at: at.clone(),
            depth,
            text: rule.text().to_owned(),
            outcome,
        });
        matched
    }
}

fn redirected(rule: &LiveRule, port: Option<u16>, by: Place) -> End {
    let ours = Chain::from_name(&by.chain).filter(|chain| Chain::OURS.contains(chain));
    match (ours, port) {
        (Some(side), Some(port)) => End::Proxy { side, port, by },
        _ => {
            let action = target::text(rule);
            End::Elsewhere { action, by }
        }
    }
}
