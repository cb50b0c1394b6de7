//! Leaving: what a signal means for the node (installer.md 5).

use tracing::{info, warn};

use crate::{
    cluster::{self, Answer},
    settings::{OnExit, Settings},
    uninstall::{self, Removal},
};

/// Leaves the node as `ON_EXIT` says; false if something that should go stays.
/// `settle` is called before anything is removed: by then nothing may be under way
/// that would bring it back.
pub fn leave(settings: &Settings, settle: impl FnOnce()) -> bool {
    let remove = match settings.on_exit {
        OnExit::Keep => false,
        OnExit::Remove => true,
        OnExit::Auto => {
            let answer = cluster::ask(settings);
            info!("{answer}");
            removes(&answer)
        }
    };
    if !remove {
        info!(
            "Leaving everything as it is: pods that start meanwhile wait instead of starting outside the mesh. Exiting."
        );
        return true;
    }
    info!("Removing linkerd-cni artifacts.");
    settle();
    let removal = uninstall::uninstall(settings);
    report(&removal);
    info!("Exiting.");
    removal.errors.is_empty()
}

/// Whether an answer means that nobody will come back for what we leave.
///
/// An API server that cannot be reached says nothing, and a node that loses it
/// for a minute must not lose its mesh. 401 and 403 do say something: our
/// account or its rights went with the release.
#[must_use]
pub fn removes(answer: &Answer) -> bool {
    match answer {
        Answer::Stays | Answer::Unknown(_) => false,
        Answer::BeingDeleted | Answer::Gone | Answer::NotMeant | Answer::Refused(_) => true,
    }
}

fn report(removal: &Removal) {
    removal.done.iter().for_each(|line| info!("{line}"));
    removal.errors.iter().for_each(|line| warn!("{line}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_answer_removes() {
        for (answer, expected) in [
            (Answer::Stays, false),
            (Answer::Unknown("timed out".into()), false),
            (Answer::BeingDeleted, true),
            (Answer::Gone, true),
            (Answer::NotMeant, true),
            (Answer::Refused(401), true),
            (Answer::Refused(403), true),
        ] {
            assert_eq!(removes(&answer), expected, "{answer}");
        }
    }
}
