//! CHECK: proves that the namespace still has the rules that ADD put there, or says what differs.

use proxy_init_rules::{Difference, Family, NatTable, RuleSet, difference};

use crate::{
    add::exempt,
    cni::{Attachment, Code, Error, NetworkConfig},
    decision::Meshed,
    firewall::{BackendKind, Failure},
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
            let found = namespace.enter(|| against(backend, &expected))?;
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
    pod.validate()?;
    let meshed = match resolve(pod, &base, cluster) {
        Ok(Resolution::Meshed(meshed)) => meshed,
        Ok(Resolution::Pass(_)) => return Ok(()),
        // Some runtimes check a pod right after it was added; it must not die of a slow answer.
        Err(error) => {
            tracing::warn!(%pod, %error, "No record, and nobody tells whether the pod is meshed");
            return Ok(());
        }
    };
    if meshed.config.simulate {
        return Ok(());
    }
    match namespace.enter(|| of_another_plugin(&meshed))? {
        Some(differences) => verdict(attachment, &differences),
        None => Err(Error::new(
            Code::Difference,
            format!(
                "pod {pod} is meshed but has no redirect rules, its traffic is in the clear: it \
                 started before linkerd-cni was chained on this node; delete the pod so that it is \
                 made anew"
            ),
        )),
    }
}

/// The differences from the rules that the pod should have, with whichever backend has any;
/// `None`: there are no rules at all.
fn of_another_plugin(meshed: &Meshed) -> Option<Vec<Difference>> {
    let read = |kind: BackendKind, family| kind.backend().read(family).ok();
    let has_ours = |table: &NatTable| table.has_ours();
    let kind = BackendKind::REAL.into_iter().find(|kind| {
        Family::ALL
            .iter()
            .any(|f| read(*kind, *f).is_some_and(|t| has_ours(&t)))
    })?;
    let ipv4 = read(kind, Family::Ipv4);
    // Whether IPv6 had to be set nobody recorded; if it was, it has to be right.
    let ipv6 = read(kind, Family::Ipv6)
        .filter(has_ours)
        .filter(|_| meshed.config.ipv6);
    let tables = ipv4.into_iter().chain(ipv6);
    let found =
        tables.flat_map(|table| difference(&RuleSet::new(&meshed.config, table.family()), &table));
    Some(found.collect())
}

fn against(backend: BackendKind, expected: &[RuleSet]) -> Result<Vec<Difference>, Failure> {
    let backend = backend.backend();
    let mut found = Vec::new();
    for rules in expected {
        found.extend(difference(rules, &backend.read(rules.family())?));
    }
    Ok(found)
}

fn verdict(attachment: &Attachment, found: &[Difference]) -> Result<(), Error> {
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
