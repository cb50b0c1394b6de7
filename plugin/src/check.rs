//! CHECK: proves that the namespace still has the rules that ADD put there, or says what differs.

use proxy_init_rules::{Family, RuleSet};

use crate::{
    add::exempt,
    cni::{Attachment, Code, Error, NetworkConfig, PodRef, PreviousResult},
    comparison::{self, Finding},
    families,
    firewall::{BackendKind, Failure, Live, live},
    kubernetes::Cluster,
    netns::Namespace,
    record::{Decision, Records},
    resolve::{Resolution, resolve},
};

/// Runs CHECK. With a record no question is asked; without one the pod may have been started by
/// another plugin, or before this one was chained.
///
/// # Errors
/// The rules differ (101), or cannot be read (100).
pub(crate) fn check(
    config: &NetworkConfig,
    attachment: &Attachment,
    cluster: &mut dyn Cluster,
    records: &Records,
) -> Result<(), Error> {
    let record = records.read(&attachment.container_id, &attachment.ifname);
    match record.map(|record| record.decision) {
        Some(
            Decision::Pass { .. }
            | Decision::Redirect {
                backend: BackendKind::Simulate,
                ..
            },
        ) => Ok(()),
        Some(Decision::Redirect { backend, rules, .. }) => {
            let expected: Vec<RuleSet> = rules.iter().map(|of| of.rule_set()).collect();
            let namespace = Namespace::open(attachment.netns()?)?;
            let families: Vec<Family> = expected.iter().map(RuleSet::family).collect();
            let look = || {
                warn(attachment, families::in_the_clear(&families));
                comparison::with_record(backend, &expected)
            };
            let found = namespace.enter(look)?;
            verdict(attachment, &found.map_err(|failure| unreadable(&failure))?)
        }
        None => without_record(config, attachment, cluster),
    }
}

fn without_record(
    config: &NetworkConfig,
    attachment: &Attachment,
    cluster: &mut dyn Cluster,
) -> Result<(), Error> {
    let Some(pod) = &attachment.pod else {
        return Ok(());
    };
    if exempt(config, attachment).is_some() {
        return Ok(());
    }
    let base = config.linkerd()?;
    let namespace = Namespace::open(attachment.netns()?)?;
    let meshed = match resolve(pod, &base, cluster) {
        Ok(Resolution::Meshed(meshed)) => meshed,
        Ok(Resolution::Pass(_)) => return Ok(()),
        // Some runtimes check a pod right after it was added; it must not die of a slow answer.
        Err(error) => {
            tracing::warn!(%pod, %error, "No record, and nobody tells how its rules should be");
            return Ok(());
        }
    };
    if meshed.config.simulate {
        return Ok(());
    }
    let look = || {
        let tables = all_tables()?;
        warn(attachment, in_the_clear(&tables));
        Ok(tables)
    };
    let tables: Result<Vec<Live>, Failure> = namespace.enter(look)?;
    let tables = tables.map_err(|failure| unreadable(&failure))?;
    let has_ipv6 = config
        .previous_result()?
        .is_some_and(|previous| PreviousResult::has_ipv6(&previous));
    match comparison::without_record(&meshed.config, has_ipv6, &tables) {
        Some(found) => verdict(attachment, &found),
        None => Err(Error::new(Code::Difference, without_rules(pod))),
    }
}

/// What is wrong with a meshed pod that nobody redirected.
#[must_use]
pub(crate) fn without_rules(pod: &PodRef) -> String {
    format!(
        "pod {pod} is meshed but has no redirect rules, its traffic is in the clear: it started \
         before linkerd-cni was chained on this node; delete the pod so that it is made anew"
    )
}

/// The tables of both families, in the namespace of the calling thread.
///
/// # Errors
/// They cannot be read.
pub(crate) fn all_tables() -> Result<Vec<Live>, Failure> {
    Family::ALL.into_iter().map(live).collect()
}

/// What to say of a family without rules where another has some; without any at all, that is what
/// there is to say.
#[must_use]
pub(crate) fn in_the_clear(tables: &[Live]) -> Option<String> {
    match comparison::redirected(tables).as_slice() {
        [] => None,
        families => families::in_the_clear(families),
    }
}

fn warn(attachment: &Attachment, what: Option<String>) {
    if let (Some(pod), Some(what)) = (&attachment.pod, what) {
        tracing::warn!(%pod, "{what}");
    }
}

fn verdict(attachment: &Attachment, found: &[Finding]) -> Result<(), Error> {
    let lines: Vec<String> = found.iter().map(ToString::to_string).collect();
    let pod = attachment
        .pod
        .as_ref()
        .map_or(String::new(), |pod| format!("pod {pod}: "));
    match lines.as_slice() {
        [] => Ok(()),
        [only] => Err(Error::new(Code::Difference, format!("{pod}{only}"))),
        [first, more @ ..] => {
            let msg = format!("{pod}{first} (and {} more, see details)", more.len());
            Err(Error::new(Code::Difference, msg).with_details(lines.join("\n")))
        }
    }
}

fn unreadable(failure: &Failure) -> Error {
    let mut error = Error::from_source(Code::Rules, failure);
    if error.details().is_empty() {
        error = error.with_details(failure.to_string());
    }
    error
}
