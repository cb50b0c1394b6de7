//! What can happen next.

use std::time::Duration;

use fastrand::Rng;
use linkerd_cni_integration::api_server::Fault;

/// One thing that happens to a node.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// A pod starts.
    Start(Kind),
    /// One of the running pods ends.
    End,
    /// The installer starts.
    Install,
    /// The installer gets a SIGTERM.
    Stop,
    /// The installer is killed.
    Kill,
    /// The other plugin writes its list, and the installer is killed so many
    /// milliseconds later.
    KillAtWork(u64),
    /// Another version takes the installer's place.
    Upgrade,
    /// The release is deleted: the DaemonSet, then the installer. It is there again
    /// afterwards.
    Uninstall,
    /// The API server begins to misbehave.
    Misbehave(Fault),
    /// The API server is well again.
    Behave,
    /// The API server takes another token only.
    Expire,
    /// Kubelet brings the token that the API server takes.
    Rotate,
    /// The other plugin writes its list anew: renamed into place, or not.
    Rewrite { in_place: bool },
    /// The other plugin takes its list away.
    TakeAway,
    /// Somebody deletes the kubeconfig.
    LoseKubeconfig,
    /// Somebody empties the directory of the records.
    LoseRecords,
    /// Somebody fills the records with something else.
    SpoilRecords,
    /// The runtime is killed and started again.
    RestartRuntime,
    /// The power goes and comes back.
    Reboot,
}

/// What sort of pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Redirected.
    Meshed,
    /// Redirected.
    NativeSidecar,
    /// Not redirected, for which the API server is asked.
    Unmeshed,
    /// The installer's own.
    Ours,
    /// Of an excluded namespace.
    Excluded,
}

/// What the choice depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    pub(super) pods: usize,
    pub(super) installer: bool,
    pub(super) list: bool,
    pub(super) misbehaving: bool,
    pub(super) expired: bool,
}

// === impl Step ===

impl Step {
    /// Chooses among what can happen now.
    pub(super) fn choose(rng: &mut Rng, now: Now) -> Self {
        loop {
            let step = Self::any(rng);
            if step.is_possible(now) {
                return step;
            }
        }
    }

    /// Whether a pod that starts meanwhile finds the node as it was before: the
    /// list and what it needs are not touched by anybody but the installer.
    pub(super) fn is_calm(&self) -> bool {
        matches!(
            self,
            Self::Start(_)
                | Self::End
                | Self::Install
                | Self::Stop
                | Self::Kill
                | Self::Upgrade
                | Self::LoseRecords
                | Self::SpoilRecords
        )
    }

    /// Whether the runtime goes away, so that nothing can happen beside it.
    pub(super) fn stops_the_runtime(&self) -> bool {
        matches!(self, Self::RestartRuntime | Self::Reboot)
    }

    fn any(rng: &mut Rng) -> Self {
        match rng.u8(0..40) {
            0..=7 => Self::Start(Kind::any(rng)),
            8..=13 => Self::End,
            14..=17 => Self::Install,
            18..=19 => Self::Stop,
            20..=21 => Self::Kill,
            22..=23 => Self::KillAtWork(rng.u64(0..30)),
            24..=25 => Self::Upgrade,
            26 => Self::Uninstall,
            27 => Self::Misbehave(any_fault(rng)),
            28..=30 => Self::Behave,
            31 => Self::Expire,
            32..=33 => Self::Rotate,
            34 => Self::Rewrite {
                in_place: rng.bool(),
            },
            35 => Self::TakeAway,
            36 => Self::LoseKubeconfig,
            37 => Self::LoseRecords,
            38 => Self::SpoilRecords,
            _ if rng.bool() => Self::RestartRuntime,
            _ => Self::Reboot,
        }
    }

    fn is_possible(&self, now: Now) -> bool {
        match self {
            Self::Start(_) => now.pods < 6,
            Self::End => now.pods > 0 && now.list,
            Self::Install => !now.installer,
            Self::Stop | Self::Kill | Self::KillAtWork(_) | Self::Upgrade => now.installer,
            Self::Uninstall => now.installer && now.list,
            Self::Misbehave(_) => !now.misbehaving,
            Self::Behave => now.misbehaving,
            Self::Expire => !now.expired,
            Self::Rotate => now.expired,
            // Pods that run need the list to end.
            Self::TakeAway => now.list && now.pods == 0,
            // A node without a list gets one before anything else.
            Self::Rewrite { .. } => true,
            _ => now.list,
        }
    }
}

// === impl Kind ===

impl Kind {
    pub(super) fn any(rng: &mut Rng) -> Self {
        let kinds = [
            Self::Meshed,
            Self::Meshed,
            Self::Meshed,
            Self::NativeSidecar,
            Self::Unmeshed,
            Self::Ours,
            Self::Excluded,
        ];
        kinds[rng.usize(..kinds.len())]
    }

    /// Whether it is redirected.
    pub(super) fn is_meshed(self) -> bool {
        matches!(self, Self::Meshed | Self::NativeSidecar)
    }

    /// Whether it must start whatever the API server says.
    pub(super) fn is_passed_on_unseen(self) -> bool {
        matches!(self, Self::Ours | Self::Excluded)
    }
}

fn any_fault(rng: &mut Rng) -> Fault {
    match rng.u8(0..5) {
        0 => Fault::Reset,
        1 => Fault::Status(500),
        2 => Fault::Slow(Duration::from_micros(200)),
        3 => Fault::Status(403),
        _ => Fault::HangAfterRequest,
    }
}
