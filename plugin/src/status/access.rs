//! The kubeconfig and the token in it.

use std::{io::ErrorKind, path::Path};

use time::OffsetDateTime;

use super::Line;
use crate::{
    cni::chain_of_causes,
    kubernetes::{KubeconfigError, Lifetime, inspect, written},
};

const ABOUT: &str = "kubeconfig";
const TOKEN: &str = "token";

const BUNDLE: &str = "mend it in the ca.crt that linkerd-cni-installer reads (the ConfigMap \
                      kube-root-ca.crt, or KUBE_CA_FILE); the other certificates in it are used";

const LOOK: &str = "linkerd-cni-installer writes it, is its pod running on this node?";

const CLOCK: &str = "is this node's clock right? If it is: linkerd-cni-installer writes it, is its \
                     pod running on this node?";

pub(super) fn lines(kubeconfig: &str) -> Vec<Line> {
    match inspect(Path::new(kubeconfig)) {
        Ok(access) => {
            let text = format!("{kubeconfig}, for {}", access.server);
            let now = OffsetDateTime::now_utc();
            let kubeconfig = match access.complaint {
                None => Line::fine(ABOUT, text),
                Some(complaint) => Line::warning(ABOUT, format!("{text}; {complaint}"), BUNDLE),
            };
            vec![kubeconfig, token(access.lifetime, now)]
        }
        Err(error) => vec![unusable(&error)],
    }
}

fn unusable(error: &KubeconfigError) -> Line {
    let cause = chain_of_causes(error);
    match error {
        // The installer is about to write it: the one fault that mends itself.
        KubeconfigError::Read { path, source } if source.kind() == ErrorKind::NotFound => {
            Line::warning(ABOUT, format!("{} is not there", path.display()), LOOK)
        }
        KubeconfigError::Read { path, .. } => Line::fault(
            ABOUT,
            format!("{} cannot be read: {cause}", path.display()),
            "it must be a file that root can read; linkerd-cni-installer writes it anew if it is \
             deleted",
        ),
        KubeconfigError::Empty { path } => Line::fault(
            ABOUT,
            format!("{} is empty", path.display()),
            "delete it, and linkerd-cni-installer writes it anew",
        ),
        KubeconfigError::Unusable { path, reason } => Line::fault(
            ABOUT,
            format!("{} cannot be used: {reason}", path.display()),
            "delete it, and linkerd-cni-installer writes it anew",
        ),
        KubeconfigError::Unnamed => Line::fault(
            ABOUT,
            "kubernetes.kubeconfig is not set in the network configuration",
            "linkerd-cni-installer sets it; who else wrote the configuration?",
        ),
    }
}

fn token(lifetime: Lifetime, now: OffsetDateTime) -> Line {
    // Never a fault, however long ago it ended: a failing STATUS keeps every pod off the node that
    // is not on the host's network, which may be the very installer that would renew the token.
    match (lifetime.trouble(now), lifetime.end) {
        (Some(trouble), _) => Line::warning(TOKEN, trouble, CLOCK),
        (None, Some(end)) => Line::fine(TOKEN, format!("valid until {}", written(end))),
        (None, None) => Line::fine(TOKEN, "does not say when it ends"),
    }
}

#[cfg(test)]
mod tests {
    use time::Duration;

    use super::*;
    use crate::status::Verdict;

    #[test]
    fn a_token_that_ended_is_a_warning_however_long_ago() {
        let now = OffsetDateTime::from_unix_timestamp(1_700_000_000).unwrap();
        let until = |end| Lifetime {
            start: None,
            end: Some(end),
        };
        let ended = |minutes| token(until(now - Duration::minutes(minutes)), now).verdict;
        assert_eq!(token(Lifetime::default(), now).verdict, Verdict::Fine);
        assert_eq!(ended(-1), Verdict::Fine);
        assert_eq!(ended(1), Verdict::Warning);
        assert_eq!(ended(60 * 24 * 365), Verdict::Warning);
        let line = token(until(now - Duration::hours(2)), now);
        assert_eq!(
            line.text,
            "expired at 2023-11-14T20:13:20Z, and by this node's clock it is 2023-11-14T22:13:20Z"
        );
    }
}
