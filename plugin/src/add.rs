//! ADD: decides whether the pod is meshed, programs its namespace, passes the result on.

use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use crate::{
    clock::{Clock, Phase},
    cni::{Attachment, Error, NetworkConfig, PreviousResult},
    decision::{self, Meshed, Pass},
    firewall::{Applied, Order, apply},
    kubernetes::Cluster,
    netns::Namespace,
    record::{DIRECTORY, Decision, Phases, Record, Records},
    report,
    resolve::{Resolution, resolve},
};

/// Runs ADD; the JSON document for standard output.
///
/// # Errors
/// The pod must not start: it cannot be known whether it is meshed, or its rules are not in place.
/// Nothing is left in its namespace then that was not there before.
pub(crate) fn add(
    config: &NetworkConfig,
    attachment: &Attachment,
    cluster: &mut dyn Cluster,
    records: &Records,
    clock: &mut Clock,
) -> Result<String, Error> {
    let previous = config.previous_result()?;
    let decision = decide(config, attachment, previous.as_ref(), cluster, clock)?;
    conclude(
        config,
        attachment,
        decision,
        cluster.requests(),
        clock,
        records,
    );
    Ok(PreviousResult::document(previous.as_ref(), config.version))
}

fn decide(
    config: &NetworkConfig,
    attachment: &Attachment,
    previous: Option<&PreviousResult>,
    cluster: &mut dyn Cluster,
    clock: &mut Clock,
) -> Result<Decision, Error> {
    if let Some(why) = exempt(config, attachment) {
        return Ok(Decision::Pass { why });
    }
    config.kubernetes()?;
    let base = config.linkerd()?;
    let namespace = Namespace::open(attachment.netns()?)?;
    let Some(pod) = &attachment.pod else {
        let why = Pass::NotKubernetes;
        return Ok(Decision::Pass { why });
    };
    pod.validate()?;
    let resolution = clock.time(Phase::Api, || resolve(pod, &base, cluster))?;
    let meshed = match resolution {
        Resolution::Pass(why) => return Ok(Decision::Pass { why }),
        Resolution::Meshed(meshed) => meshed,
    };
    for warning in &meshed.warnings {
        tracing::warn!(%pod, "{warning}");
    }
    let has_ipv6 = previous.is_some_and(PreviousResult::has_ipv6);
    let applied = clock.time(Phase::Rules, || program(&namespace, &meshed, has_ipv6))?;
    for warning in &applied.warnings {
        tracing::warn!(%pod, "{warning}");
    }
    Ok(Decision::redirect(
        applied.backend,
        &meshed.config,
        &applied.rule_sets,
    ))
}

/// Whether the pod is passed on unseen. An invalid configuration does not count: the pod that
/// would mend it has to start.
pub(crate) fn exempt(config: &NetworkConfig, attachment: &Attachment) -> Option<Pass> {
    let kubernetes = config.kubernetes().unwrap_or_default();
    attachment
        .pod
        .as_ref()
        .and_then(|pod| decision::exempt(pod, &kubernetes))
}

fn program(namespace: &Namespace, meshed: &Meshed, has_ipv6: bool) -> Result<Applied, Error> {
    let order = Order::new(&meshed.config, has_ipv6);
    let _lock = namespace.lock()?;
    Ok(namespace.enter(|| apply(&order))??)
}

/// Records, logs and reports the decision. The pod has its rules by now, so nothing here fails it.
fn conclude(
    config: &NetworkConfig,
    attachment: &Attachment,
    decision: Decision,
    requests: u32,
    clock: &Clock,
    records: &Records,
) {
    let phases = clock.phases();
    log(attachment, &decision, requests, phases);
    let now = OffsetDateTime::now_utc()
        .format(&Rfc3339)
        .unwrap_or_default();
    let record = Record::new(attachment, &config.network, decision, now, phases);
    if let Err(error) = records.write(&record) {
        tracing::warn!(%error, directory = DIRECTORY, "The record of this attachment could not be written");
    }
    report::decision(attachment, &record.decision, requests, phases);
}

fn log(attachment: &Attachment, decision: &Decision, requests: u32, phases: Phases) {
    let pod = attachment
        .pod
        .as_ref()
        .map(ToString::to_string)
        .unwrap_or_default();
    let Phases {
        api,
        rules: rules_ms,
        total,
    } = phases;
    let container = &attachment.container_id;
    match decision {
        Decision::Pass { why } => tracing::info!(
            pod, container, decision = "pass", %why, requests, api_ms = api, total_ms = total,
            "Passed on",
        ),
        Decision::Redirect { backend, rules, .. } => tracing::info!(
            pod, container, decision = "redirect", %backend,
            rules = rules.iter().map(|of| of.rules.len()).sum::<usize>(),
            requests, api_ms = api, rules_ms, total_ms = total,
            "Redirected",
        ),
    }
}
