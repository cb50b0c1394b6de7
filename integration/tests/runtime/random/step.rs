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
    /// The installer starts with another version, and is killed so many
    /// milliseconds later.
    KillAtStart(u64),
    /// The release is deleted, and the installer is killed so many milliseconds
    /// after it was told to end.
    KillAtLeaving(u64),
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
    /// Every pod ends, and the other plugin takes its list away.
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

    /// Whether the list stays what it is, as far as it is for others to say: who
    /// starts meanwhile is in the mesh if it was.
    pub(super) fn leaves_the_list(&self) -> bool {
        !matches!(
            self,
            Self::KillAtWork(_)
                | Self::KillAtLeaving(_)
                | Self::Uninstall
                | Self::Rewrite { .. }
                | Self::TakeAway
        )
    }

    /// Whether nothing is done either to what our plugin needs for an answer.
    pub(super) fn leaves_the_way(&self) -> bool {
        self.leaves_the_list()
            && !matches!(
                self,
                Self::Misbehave(_)
                    | Self::Behave
                    | Self::Expire
                    | Self::Rotate
                    | Self::LoseKubeconfig
            )
    }

    /// Whether the runtime goes away, so that nothing can happen beside it.
    pub(super) fn stops_the_runtime(&self) -> bool {
        matches!(self, Self::RestartRuntime | Self::Reboot)
    }

    fn any(rng: &mut Rng) -> Self {
        match rng.u8(0..46) {
            0..=8 => Self::Start(Kind::any(rng)),
            9..=13 => Self::End,
            14..=21 => Self::Install,
            22..=23 => Self::Stop,
            24..=25 => Self::Kill,
            26..=27 => Self::KillAtWork(rng.u64(0..30)),
            28 => Self::KillAtStart(rng.u64(0..60)),
            29 => Self::KillAtLeaving(rng.u64(0..30)),
            30..=31 => Self::Upgrade,
            32 => Self::Uninstall,
            33 => Self::Misbehave(any_fault(rng)),
            34..=35 => Self::Behave,
            36 => Self::Expire,
            37..=38 => Self::Rotate,
            39 => Self::Rewrite {
                in_place: rng.bool(),
            },
            40 => Self::TakeAway,
            41 => Self::LoseKubeconfig,
            42 => Self::LoseRecords,
            43 => Self::SpoilRecords,
            44 => Self::RestartRuntime,
            _ => Self::Reboot,
        }
    }

    fn is_possible(&self, now: Now) -> bool {
        match self {
            // Where there is no network, there is nothing to be learnt.
            Self::Start(_) => now.list && now.pods < 6,
            Self::End => now.list && now.pods > 0,
            Self::Install | Self::KillAtStart(_) => !now.installer,
            Self::Stop | Self::Kill | Self::KillAtWork(_) | Self::Upgrade => now.installer,
            // Whoever keeps the node in order is there to do it.
            Self::Uninstall | Self::KillAtLeaving(_) | Self::LoseKubeconfig => {
                now.installer && now.list
            }
            Self::Rewrite { .. } => now.installer || !now.list,
            Self::Misbehave(_) => !now.misbehaving,
            Self::Behave => now.misbehaving,
            Self::Expire => !now.expired,
            Self::Rotate => now.expired,
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
