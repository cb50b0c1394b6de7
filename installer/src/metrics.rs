//! What is counted, for Prometheus.
//!
//! The names are a contract: dashboards and alert rules are written against them.

use std::{
    fmt,
    time::{SystemTime, UNIX_EPOCH},
};

use prometheus_client::{
    encoding::text::encode,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};
use proxy_init_rules::report::Report;

use crate::{cluster::Tainted, reconcile::Pass};

mod classic;
mod labels;

use labels::{AddLabels, BuildLabels, NoLabels, PhaseLabels, ResultLabels, Series};

/// Seconds: a pass-through takes a few milliseconds, an API server that is away 10 s.
const BUCKETS: [f64; 13] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];

/// Everything that is counted.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    passes: Family<ResultLabels, Counter>,
    chained: Gauge,
    undone: Counter,
    taints: Family<ResultLabels, Counter>,
    // Families, so that they are absent as long as there is nothing to say.
    last_change: Family<NoLabels, Gauge>,
    token_expiry: Family<NoLabels, Gauge>,
    ready: Gauge,
    ignored: Counter,
    adds: Family<AddLabels, Counter>,
    durations: Family<PhaseLabels, Histogram, fn() -> Histogram>,
    series: Series,
}

// === impl Metrics ===

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Nothing counted yet.
    #[must_use]
    pub fn new() -> Self {
        let durations: fn() -> Histogram = || Histogram::new(BUCKETS);
        let mut metrics = Self {
            registry: Registry::default(),
            passes: Family::default(),
            chained: Gauge::default(),
            undone: Counter::default(),
            taints: Family::default(),
            last_change: Family::default(),
            token_expiry: Family::default(),
            ready: Gauge::default(),
            ignored: Counter::default(),
            adds: Family::default(),
            durations: Family::new_with_constructor(durations),
            series: Series::default(),
        };
        metrics.register_installer();
        metrics.register_plugin();
        metrics
    }

    /// The library appends `_total` to the names of counters.
    fn register_installer(&mut self) {
        let to = &mut self.registry;
        let build = Family::<BuildLabels, Gauge>::default();
        let version = env!("CARGO_PKG_VERSION");
        build.get_or_create(&BuildLabels { version }).set(1);
        // A gauge, as other exporters have it: the type `info` is one that not everybody reads.
        to.register("linkerd_cni_build_info", "What runs here", build);
        let installer = to.sub_registry_with_prefix("linkerd_cni_installer");
        installer.register(
            "passes",
            "Looks at the node, by what came of them",
            self.passes.clone(),
        );
        installer.register(
            "configurations_chained",
            "CNI configurations that have our entry in its place",
            self.chained.clone(),
        );
        installer.register(
            "undone",
            "Times that another writer took our entry out of a chained configuration",
            self.undone.clone(),
        );
        installer.register(
            "startup_taint",
            "Changes of the startup taint of our node, by what came of them",
            self.taints.clone(),
        );
        installer.register(
            "last_change_timestamp_seconds",
            "When something on the node was last changed",
            self.last_change.clone(),
        );
        installer.register(
            "token_expiry_timestamp_seconds",
            "When the token in the kubeconfig ends",
            self.token_expiry.clone(),
        );
        installer.register(
            "ready",
            "Whether a pod that starts now is redirected",
            self.ready.clone(),
        );
        installer.register(
            "reports_ignored",
            "Datagrams on the log socket that were not understood",
            self.ignored.clone(),
        );
    }

    fn register_plugin(&mut self) {
        let to = &mut self.registry;
        to.register(
            "linkerd_cni_add",
            "ADDs by what was decided, why, and the backend that set the rules",
            self.adds.clone(),
        );
        to.register(
            "linkerd_cni_add_duration_seconds",
            "How long ADDs took, in all and by part",
            self.durations.clone(),
        );
    }

    /// Counts a pass.
    pub fn pass(&self, pass: &Pass) {
        let result = match pass {
            Pass { held: true, .. } => "failed",
            Pass { changed: true, .. } => "changed",
            _ => "unchanged",
        };
        self.passes.get_or_create(&ResultLabels { result }).inc();
        self.undone.inc_by(pass.undone);
        if let Some(chained) = pass.chained {
            self.chained.set(i64::try_from(chained).unwrap_or(i64::MAX));
        }
        if pass.changed {
            self.last_change.get_or_create(&NoLabels {}).set(now());
        }
        match pass.token_expiry.map(i64::try_from) {
            Some(Ok(expiry)) => _ = self.token_expiry.get_or_create(&NoLabels {}).set(expiry),
            _ => self.token_expiry.clear(),
        }
    }

    /// Notes whether the node is ready.
    pub fn ready(&self, ready: bool) {
        self.ready.set(i64::from(ready));
    }

    /// Counts what came of a look at the startup taint; `None` is a failure.
    pub fn taint(&self, result: Option<Tainted>) {
        let result = match result {
            Some(Tainted::Removed) => "removed",
            Some(Tainted::Set) => "set",
            Some(Tainted::Unchanged) => return,
            None => "failed",
        };
        self.taints.get_or_create(&ResultLabels { result }).inc();
    }

    /// Counts a datagram that is not understood.
    pub fn ignored(&self) {
        self.ignored.inc();
    }

    /// Counts a decision; only those of ADD.
    pub fn decision(&self, report: &Report) {
        let Some(labels) = AddLabels::of(report).filter(|_| report.verb == "ADD") else {
            return;
        };
        self.adds.get_or_create(&self.series.bound(labels)).inc();
        let took = report.milliseconds;
        let happened = |part: f64| (part > 0.0).then_some(part);
        for (phase, took) in [
            ("total", Some(took.total)),
            ("api", happened(took.api)),
            ("rules", happened(took.rules)),
        ] {
            // A time that is none would spoil the sum for good.
            if let Some(took) = took.filter(|ms| (0.0..1e7).contains(ms)) {
                let phase = self.durations.get_or_create(&PhaseLabels { phase });
                phase.observe(took / 1000.0);
            }
        }
    }

    /// All of it in the OpenMetrics text format.
    ///
    /// # Errors
    ///
    /// Never: a text takes what is written into it.
    pub fn text(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }

    /// The same in the text format of before OpenMetrics.
    ///
    /// # Errors
    ///
    /// As [`Metrics::text`].
    pub fn classic_text(&self) -> Result<String, fmt::Error> {
        self.text().map(|text| classic::classic(&text))
    }
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(0))
}

#[cfg(test)]
mod tests;
