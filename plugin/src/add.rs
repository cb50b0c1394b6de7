//! ADD: decides whether the pod is meshed, programs its namespace, passes the result on.

use std::time::{Duration, Instant};

use proxy_init_rules::Family;
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use crate::{
    cni::{Attachment, Error, NetworkConfig, PreviousResult},
    decision::{self, Meshed, Pass},
    firewall::{Applied, ApplyError, BackendKind, Order, apply, withdraw},
    kubernetes::Cluster,
    netns::Namespace,
    record::{DIRECTORY, Decision, Phases, Record, Records},
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
) -> Result<String, Error> {
    let mut clock = Clock::start();
    let previous = config.previous_result()?;
    let earlier = earlier(attachment, records);
    let decision = decide(
        config,
        attachment,
        previous.as_ref(),
        cluster,
        earlier,
        &mut clock,
    )?;
    conclude(
        config,
        attachment,
        decision,
        cluster.requests(),
        &clock,
        records,
    );
    Ok(PreviousResult::document(previous.as_ref(), config.version))
}

fn decide(
    config: &NetworkConfig,
    attachment: &Attachment,
    previous: Option<&PreviousResult>,
    cluster: &mut dyn Cluster,
    earlier: Option<BackendKind>,
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
    let resolution = clock.time(|clock| &mut clock.api, || resolve(pod, &base, cluster))?;
    let meshed = match resolution {
        Resolution::Pass(why) => return Ok(Decision::Pass { why }),
        Resolution::Meshed(meshed) => meshed,
    };
    for warning in &meshed.warnings {
        tracing::warn!(%pod, "{warning}");
    }
    let has_ipv6 = previous.is_some_and(PreviousResult::has_ipv6);
    let applied = clock.time(
        |clock| &mut clock.rules,
        || program(&namespace, &meshed, has_ipv6, earlier),
    )?;
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

fn program(
    namespace: &Namespace,
    meshed: &Meshed,
    has_ipv6: bool,
    earlier: Option<BackendKind>,
) -> Result<Applied, Error> {
    let order = Order::new(&meshed.config, has_ipv6);
    let _lock = namespace.lock()?;
    let applied = namespace.enter(|| {
        let mut applied = apply(&order)?;
        replaces(earlier, &mut applied);
        Ok::<_, ApplyError>(applied)
    })?;
    Ok(applied?)
}

/// The backend that holds the rules of an earlier ADD of this attachment.
fn earlier(attachment: &Attachment, records: &Records) -> Option<BackendKind> {
    let record = records.read(&attachment.container_id, &attachment.ifname)?;
    match record.decision {
        Decision::Redirect { backend, .. } => Some(backend),
        Decision::Pass { .. } => None,
    }
}

/// Takes the rules out that an earlier ADD of this attachment set in other tables: DEL and CHECK
/// only know of the latest.
fn replaces(earlier: Option<BackendKind>, applied: &mut Applied) {
    let Some(earlier) = earlier.filter(|earlier| earlier.has_other_tables(applied.backend)) else {
        return;
    };
    let withdrawal = withdraw(&[earlier], &Family::ALL);
    applied
        .warnings
        .extend(withdrawal.failures.iter().map(|failure| {
            format!("rules that an earlier ADD set with {earlier} may be left: {failure}")
        }));
}

/// Records and logs the decision. The pod has its rules by now, so nothing here fails it.
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

/// Times the phases of one ADD.
struct Clock {
    started: Instant,
    api: Duration,
    rules: Duration,
}

impl Clock {
    fn start() -> Self {
        Self {
            started: Instant::now(),
            api: Duration::ZERO,
            rules: Duration::ZERO,
        }
    }

    fn time<T>(
        &mut self,
        phase: impl FnOnce(&mut Self) -> &mut Duration,
        work: impl FnOnce() -> T,
    ) -> T {
        let started = Instant::now();
        let done = work();
        *phase(self) = started.elapsed();
        done
    }

    fn phases(&self) -> Phases {
        Phases {
            api: milliseconds(self.api),
            rules: milliseconds(self.rules),
            total: milliseconds(self.started.elapsed()),
        }
    }
}

/// To a hundredth: what is behind it is noise.
fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 100_000.0).round() / 100.0
}
