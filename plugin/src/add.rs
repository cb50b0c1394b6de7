//! ADD: decides whether the pod is meshed, programs its namespace, passes the result on.

use std::net::IpAddr;

use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use crate::{
    clock::{Clock, Phase},
    cni::{Attachment, Error, NetworkConfig, PreviousResult},
    decision::{self, Meshed, Pass},
    families,
    firewall::{Applied, Order, apply},
    kubernetes::Cluster,
    netns::Namespace,
    record::{DIRECTORY, Decision, Phases, Record, Records},
    report,
    resolve::{Resolution, resolve},
};

/// What was decided, and what the installer is told to warn of.
struct Decided {
    decision: Decision,
    warnings: Vec<String>,
}

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
    let decided = decide(config, attachment, previous.as_ref(), cluster, clock)?;
    conclude(
        config,
        attachment,
        decided,
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
) -> Result<Decided, Error> {
    if let Some(why) = exempt(config, attachment) {
        return Ok(Decided::pass(why));
    }
    config.kubernetes()?;
    let base = config.linkerd()?;
    let namespace = Namespace::open(attachment.netns()?)?;
    let Some(pod) = &attachment.pod else {
        return Ok(Decided::pass(Pass::NotKubernetes));
    };
    let resolution = clock.time(Phase::Api, || resolve(pod, &base, cluster))?;
    let mut meshed = match resolution {
        Resolution::Pass(why) => return Ok(Decided::pass(why)),
        Resolution::Meshed(meshed) => meshed,
    };
    let left_alone = decision::left_alone(&meshed.config, &attachment.ifname);
    meshed.warnings.extend(left_alone);
    for warning in &meshed.warnings {
        tracing::warn!(%pod, "{warning}");
    }
    let given = previous.map_or(Vec::new(), PreviousResult::addresses);
    let clear = families::admit(pod, &meshed.config, &given, &namespace)?;
    let has_ipv6 = given.iter().any(IpAddr::is_ipv6);
    let applied = clock.time(Phase::Rules, || program(&namespace, &meshed, has_ipv6))?;
    for warning in clear.iter().chain(&applied.warnings) {
        tracing::warn!(%pod, "{warning}");
    }
    let Meshed { config, warnings } = *meshed;
    let decision = Decision::redirect(applied.backend, &config, &applied.rule_sets);
    Ok(Decided {
        decision: decision.noting(&warnings),
        warnings: warnings.into_iter().chain(clear).collect(),
    })
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
    decided: Decided,
    requests: u32,
    clock: &Clock,
    records: &Records,
) {
    let Decided { decision, warnings } = decided;
    let phases = clock.phases();
    log(attachment, &decision, requests, phases);
    let now = OffsetDateTime::now_utc()
        .format(&Rfc3339)
        .unwrap_or_default();
    let record = Record::new(attachment, &config.network, decision, now, phases);
    if let Err(error) = records.write(&record) {
        tracing::warn!(%error, directory = DIRECTORY, "The record of this attachment could not be written");
    }
    report::decision(attachment, &record.decision, warnings, requests, phases);
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

// === impl Decided ===

impl Decided {
    fn pass(why: Pass) -> Self {
        Self {
            decision: Decision::Pass { why },
            warnings: Vec::new(),
        }
    }
}
