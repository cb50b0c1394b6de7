//! Notices that the plugin does not read the kubeconfig that we write.
//!
//! Where the path to the directory goes through a link (snap packages have `current`),
//! the mount leads to what the link meant when the pod was made. Once it means something
//! else, the runtime and the plugin are there, and we are not. From inside that can be
//! seen in two ways: the directory has been removed, or the plugin complains of a
//! kubeconfig that is in order here.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use proxy_init_rules::report::{Outcome, Report};
use tracing::warn;

use crate::settings::Settings;

/// How long a complaint counts. Kubelet starts a pod that failed again within this time, so that
/// there is another one as long as it is true.
const FRESH: Duration = Duration::from_secs(120);

/// How to mend it.
const MEND: &str = "if a link on the way to it (such as `current` of a snap package) has been swapped, \
                    restart this pod, and mount the directory above the link (hostMountDir in the chart)";

/// What the plugin complained of last.
#[derive(Debug)]
pub struct Swapped {
    on_host: String,
    ours: PathBuf,
    heard: Mutex<Option<(Instant, &'static str)>>,
}

// === impl Swapped ===

impl Swapped {
    /// Nothing heard yet.
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        Self {
            on_host: settings.kubeconfig_on_host.clone(),
            ours: settings.kubeconfig.clone(),
            heard: Mutex::new(None),
        }
    }

    /// Takes note of a decision of the plugin, and whether the kubeconfig is in order here.
    pub fn hear(&self, report: &Report, in_order: impl FnOnce() -> bool, now: Instant) {
        match &report.outcome {
            Outcome::Error { message, .. } => {
                if let Some(what) = self.complaint(message)
                    && in_order()
                {
                    self.complain(what, now);
                }
            }
            // It was asked for, with a kubeconfig that is in order.
            Outcome::Redirect { .. } | Outcome::Pass { .. } if report.requests > 0 => {
                *self.heard() = None;
            }
            _ => {}
        }
    }

    /// What is wrong, and how to mend it; none if nothing was heard lately.
    #[must_use]
    pub fn what(&self, now: Instant) -> Option<String> {
        let heard = *self.heard();
        let (_, what) = heard.filter(|(at, _)| now.saturating_duration_since(*at) < FRESH)?;
        Some(self.text(what))
    }

    /// The plugin's words for what cannot be if all is in order here.
    fn complaint(&self, message: &str) -> Option<&'static str> {
        let missing = format!("kubeconfig {} cannot be read", self.on_host);
        let refused = "401, the API server does not accept our token";
        if message.contains(&missing) {
            return Some("does not find");
        }
        message.contains(refused).then_some("is refused (401) with")
    }

    fn complain(&self, what: &'static str, now: Instant) {
        if self.what(now).is_none() {
            warn!("{}", self.text(what));
        }
        *self.heard() = Some((now, what));
    }

    fn text(&self, what: &str) -> String {
        format!(
            "the plugin {what} {}, while {} is in order: {MEND}",
            self.on_host,
            self.ours.display()
        )
    }

    fn heard(&self) -> MutexGuard<'_, Option<(Instant, &'static str)>> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a directory has been removed since it was mounted, and how to mend that.
#[must_use]
pub fn removed(dir: &Path) -> Option<String> {
    let removed = fs::metadata(dir).is_ok_and(|m| m.is_dir() && m.nlink() == 0);
    removed.then(|| {
        format!(
            "{} was removed on the host while it is mounted here: {MEND}",
            dir.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn swapped() -> Swapped {
        Swapped {
            on_host: "/etc/cni/net.d/k".to_owned(),
            ours: "/host/etc/cni/net.d/k".into(),
            heard: Mutex::new(None),
        }
    }

    fn error(message: &str) -> Report {
        let outcome = Outcome::Error {
            code: 11,
            message: message.to_owned(),
        };
        Report {
            outcome,
            ..Report::default()
        }
    }

    const MISSING: &str =
        "kubeconfig /etc/cni/net.d/k cannot be read; linkerd-cni-installer writes it";

    #[test]
    fn a_complaint_counts_until_a_pod_starts_or_two_minutes_have_passed() {
        let (swapped, now) = (swapped(), Instant::now());
        for message in [
            MISSING,
            "GET x: 401, the API server does not accept our token: y",
        ] {
            swapped.hear(&error(message), || true, now);
            assert!(swapped.what(now + FRESH / 2).is_some());
            assert_eq!(swapped.what(now + FRESH), None);
            let pass = |requests| Report {
                outcome: Outcome::Pass {
                    reason: "no-proxy".to_owned(),
                },
                requests,
                ..Report::default()
            };
            swapped.hear(&pass(0), || true, now);
            assert!(swapped.what(now).is_some());
            swapped.hear(&pass(1), || true, now);
            assert_eq!(swapped.what(now), None);
        }
    }

    #[test]
    fn what_is_true_here_too_or_about_something_else_says_nothing_of_the_directory() {
        let (swapped, now) = (swapped(), Instant::now());
        swapped.hear(&error(MISSING), || false, now);
        assert_eq!(swapped.what(now), None);
        for message in [
            "kubeconfig /other cannot be read",
            "GET x: 403, RBAC",
            "no answer",
        ] {
            swapped.hear(&error(message), || true, now);
            assert_eq!(swapped.what(now), None, "{message}");
        }
    }
}
