//! Both families or none, with the first backend that works.

use std::{fmt, time::Duration};

use proxy_init_rules::{Config, Family, IptablesMode, RuleSet};

use super::{Backend, BackendKind, Failure, Installed, choice, native, supersede::supersede};
use crate::{cni::in_words, exec, netns};

/// What is to be applied.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    mode: IptablesMode,
    simulate: bool,
    ipv4: RuleSet,
    ipv6: Option<(RuleSet, Ipv6)>,
}

/// What becomes of the pod if IPv6 cannot be redirected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ipv6 {
    /// The pod has no IPv6 address: a failure is a warning.
    Attempt,
    /// It has one: a failure is an error.
    Require,
}

/// What has been applied.
#[derive(Debug)]
pub(crate) struct Applied {
    /// With which backend.
    pub backend: BackendKind,
    /// The rules that are in the kernel now.
    pub rule_sets: Vec<RuleSet>,
    /// What to warn of.
    pub warnings: Vec<String>,
}

/// Why nothing has been applied.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// Somebody holds the lock.
    #[error("the rules could not be applied in time: {0}")]
    Locked(Box<Failure>),
    /// No backend works in this namespace.
    #[error(
        "the redirect rules could not be applied and the pod must not start without them: no \
         iptables program works in its namespace, nor does nf_tables without one; tried {}, see \
         details",
        tried(.0)
    )]
    NoBackend(Vec<Attempt>),
}

/// A backend that did not work.
#[derive(Debug)]
pub struct Attempt {
    backend: BackendKind,
    failure: Box<Failure>,
    /// If the other family's rules could not be taken back.
    left_behind: Option<Box<Failure>>,
}

impl Order {
    /// The rules that `config` asks for.
    #[must_use]
    pub(crate) fn new(config: &Config, pod_has_ipv6: bool) -> Self {
        let need = if pod_has_ipv6 {
            Ipv6::Require
        } else {
            Ipv6::Attempt
        };
        Self {
            mode: config.iptables_mode,
            simulate: config.simulate,
            ipv4: RuleSet::new(config, Family::Ipv4),
            ipv6: config
                .ipv6
                .then(|| (RuleSet::new(config, Family::Ipv6), need)),
        }
    }
}

/// Applies the rules in the namespace of the calling thread. Rules of ours that other backends have
/// set there before go, once the new ones are in.
///
/// # Errors
/// Nothing has been applied: a lock is held, or no backend works. The error lists each backend
/// that was tried.
pub(crate) fn apply(order: &Order) -> Result<Applied, ApplyError> {
    let kinds = if order.simulate {
        vec![BackendKind::Simulate]
    } else {
        kinds(order.mode)
    };
    let mut attempts: Vec<Attempt> = Vec::new();
    let mut patience = exec::DEADLINE;
    for kind in kinds {
        match with(kind, order, patience) {
            Ok(mut applied) => {
                let warnings = fallback(order.mode, kind, &attempts).into_iter();
                applied.warnings.extend(warnings.chain(supersede(kind)));
                return Ok(applied);
            }
            Err(Attempt { failure, .. }) if matches!(*failure, Failure::Locked { .. }) => {
                return Err(ApplyError::Locked(failure));
            }
            Err(attempt) => {
                patience = attempt.failure.patience(patience);
                attempts.push(attempt);
            }
        }
    }
    Err(ApplyError::NoBackend(attempts))
}

fn kinds(mode: IptablesMode) -> Vec<BackendKind> {
    let is_of_another_user = netns::is_of_another_user();
    if is_of_another_user {
        tracing::info!(
            iptables_mode = %mode,
            "The network namespace belongs to another user namespace, so the rules are set natively",
        );
    }
    choice::order(mode, is_of_another_user)
}

fn with(kind: BackendKind, order: &Order, patience: Duration) -> Result<Applied, Attempt> {
    match kind {
        BackendKind::Native => natively(order),
        _ => in_turn(kind, order, patience),
    }
}

/// Both families in one transaction.
fn natively(order: &Order) -> Result<Applied, Attempt> {
    let failed = |failure| Attempt {
        backend: BackendKind::Native,
        failure: Box::new(failure),
        left_behind: None,
    };
    let mut rule_sets = vec![order.ipv4.joined()];
    rule_sets.extend(order.ipv6.iter().map(|(rules, _)| rules.joined()));
    let mut warnings = Vec::new();
    match (native::install(&rule_sets), &order.ipv6) {
        (Ok(_), _) => {}
        (Err(failure), Some((_, Ipv6::Attempt))) => {
            rule_sets.truncate(1);
            native::install(&rule_sets).map_err(failed)?;
            warnings.push(without_ipv6(&failure));
        }
        (Err(failure), _) => return Err(failed(failure)),
    }
    Ok(Applied {
        backend: BackendKind::Native,
        rule_sets,
        warnings,
    })
}

/// One family after the other, and the first is taken back if the second fails.
fn in_turn(kind: BackendKind, order: &Order, patience: Duration) -> Result<Applied, Attempt> {
    let backend = kind.backend_with(patience);
    let failed = |failure| Attempt {
        backend: kind,
        failure: Box::new(failure),
        left_behind: None,
    };
    let installed = backend.install(&order.ipv4).map_err(failed)?;
    let mut applied = Applied {
        backend: kind,
        rule_sets: vec![order.ipv4.clone()],
        warnings: Vec::new(),
    };
    let Some((rules, need)) = &order.ipv6 else {
        return Ok(applied);
    };
    match (backend.install(rules), need) {
        (Ok(_), _) => applied.rule_sets.push(rules.clone()),
        (Err(failure), Ipv6::Attempt) => applied.warnings.push(without_ipv6(&failure)),
        (Err(failure), Ipv6::Require) => {
            let backend = kind.backend_with(failure.patience(patience));
            let left_behind = take_back(&*backend, &order.ipv4, installed)
                .err()
                .map(Box::new);
            return Err(Attempt {
                backend: kind,
                failure: Box::new(failure),
                left_behind,
            });
        }
    }
    Ok(applied)
}

fn without_ipv6(failure: &Failure) -> String {
    format!("IPv6 is not redirected, which does no harm as the pod has no IPv6 address: {failure}")
}

/// Takes the rules of the other family back. Those that were there before stay: the pod may be
/// running already, and without them its traffic would be in the clear.
fn take_back(backend: &dyn Backend, rules: &RuleSet, installed: Installed) -> Result<(), Failure> {
    match installed {
        Installed::Fresh => backend.remove(rules.family()).map(|_| ()),
        Installed::Replaced => Ok(()),
    }
}

fn fallback(mode: IptablesMode, used: BackendKind, attempts: &[Attempt]) -> Option<String> {
    let configured = BackendKind::configured(mode)?;
    let first = attempts.first()?;
    Some(format!(
        "iptables-mode {configured} does not work here, {used} is used instead: {}",
        first.failure
    ))
}

fn tried(attempts: &[Attempt]) -> String {
    let kinds = attempts.iter().map(|attempt| attempt.backend.to_string());
    kinds.collect::<Vec<_>>().join(", ")
}

impl ApplyError {
    /// Each program that was tried and why it failed, a line each.
    #[must_use]
    pub fn details(&self) -> String {
        match self {
            Self::Locked(failure) => in_words(&**failure),
            Self::NoBackend(attempts) => {
                let lines = attempts.iter().map(ToString::to_string);
                lines.collect::<Vec<_>>().join("\n")
            }
        }
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.backend, in_words(&*self.failure))?;
        match &self.left_behind {
            Some(failure) => write!(f, "; the IPv4 rules could not be taken back: {failure}"),
            None => Ok(()),
        }
    }
}
