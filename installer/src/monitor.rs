//! What others learn of a running installer: decisions in the log, probes, metrics, and the
//! startup taint that goes once the node is ready.

use std::sync::Arc;

use tracing::warn;

use crate::{
    admin::{self, Served},
    decisions::Decisions,
    health::Health,
    metrics::Metrics,
    reconcile::{Pass, Reconciler},
    settings::Settings,
    taint,
};

/// Looks over the loop's shoulder, and never holds it up.
#[derive(Debug)]
pub struct Monitor {
    served: Served,
    decisions: Decisions,
    serves: bool,
    /// The taint that is still to be removed.
    taint: Option<String>,
}

// === impl Monitor ===

impl Monitor {
    /// Listens for decisions, and serves where that is wanted.
    #[must_use]
    pub fn start(settings: &Settings) -> Self {
        let metrics = Arc::new(Metrics::new());
        let served = Served {
            health: Arc::new(Health::new(settings.resync)),
            metrics: Arc::clone(&metrics),
        };
        let mut decisions = Decisions::new(&settings.prefix, metrics);
        decisions.renew();
        if let Some(address) = settings.admin_address
            && let Err(e) = admin::start(address, served.clone())
        {
            warn!("/live, /ready and /metrics are not served: {e}");
        }
        Self {
            served,
            decisions,
            serves: settings.admin_address.is_some(),
            taint: settings.startup_taint.clone(),
        }
    }

    /// Notes how a pass went.
    pub fn passed(&mut self, pass: &Pass, reconciler: &mut Reconciler) {
        self.decisions.renew();
        self.served.metrics.pass(pass);
        // Looking costs a second read of the configurations: only for those who want to know.
        if !self.serves && self.taint.is_none() {
            return;
        }
        let checks = reconciler.look();
        let ready = checks.iter().all(|check| check.good);
        self.served.health.turned(&checks);
        self.served.metrics.ready(ready);
        if ready && let Some(key) = self.taint.take() {
            taint::start(reconciler.settings(), key);
        }
    }

    /// Notes that the installer is about to go.
    pub fn leaves(&self) {
        self.served.health.leaves();
        self.served.metrics.ready(false);
    }
}
