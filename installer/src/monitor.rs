//! What others learn of a running installer: decisions in the log, probes, metrics, and the taint
//! that keeps pods away from a node that is not ready.

use std::sync::Arc;

use tracing::warn;

use crate::{
    admin::{self, Served},
    decisions::{Decisions, Heard},
    health::Health,
    metrics::Metrics,
    reconcile::{Pass, Reconciler},
    settings::Settings,
    status::{Check, Level},
    swapped::Swapped,
    taint::{Keeper, Told},
};

/// Looks over the loop's shoulder, and never holds it up.
#[derive(Debug)]
pub struct Monitor {
    served: Served,
    decisions: Decisions,
    serves: bool,
    taint: Option<Keeper>,
}

// === impl Monitor ===

impl Monitor {
    /// Listens for decisions, and serves where that is wanted.
    #[must_use]
    pub fn start(settings: &Settings, swapped: Arc<Swapped>) -> Self {
        let metrics = Arc::new(Metrics::new());
        let served = Served {
            health: Arc::new(Health::new(settings.resync)),
            metrics: Arc::clone(&metrics),
        };
        let told = Told {
            health: Arc::clone(&served.health),
            metrics: Arc::clone(&metrics),
        };
        let mut decisions = Decisions::new(Heard {
            metrics,
            swapped,
            settings: settings.clone(),
        });
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
            taint: keeper(settings, told),
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
        let ready = !checks.iter().any(Check::is_fault);
        self.served.health.turned(&checks);
        self.served.metrics.ready(ready);
        if let Some(taint) = &mut self.taint {
            let unmeshed = checks.iter().any(|check| check.level == Level::Unmeshed);
            taint.turned(ready, unmeshed);
        }
    }

    /// Notes that the installer is about to go.
    pub fn leaves(&self) {
        self.served.health.leaves();
        self.served.metrics.ready(false);
        if let Some(taint) = &self.taint {
            taint.stop();
        }
    }

    /// Waits until nothing that was asked of the API server is under way.
    pub fn settle(&mut self) {
        if let Some(taint) = &mut self.taint {
            taint.join();
        }
    }
}

fn keeper(settings: &Settings, told: Told) -> Option<Keeper> {
    let key = settings.startup_taint.clone()?;
    match Keeper::start(settings, key, told) {
        Ok(keeper) => Some(keeper),
        Err(e) => {
            warn!("The startup taint stays: {e}");
            None
        }
    }
}
