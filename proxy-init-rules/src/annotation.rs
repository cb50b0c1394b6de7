//! The pod and namespace annotations that change the rules (rules.md 2).

use std::{collections::BTreeMap, fmt};

use crate::port::Excerpt;

/// The prefix of all of linkerd's configuration annotations.
const PREFIX: &str = "config.linkerd.io/";

/// Added to the configured inbound ports to ignore.
pub const SKIP_INBOUND_PORTS: &str = "config.linkerd.io/skip-inbound-ports";
/// Replaces the configured outbound ports to ignore.
pub const SKIP_OUTBOUND_PORTS: &str = "config.linkerd.io/skip-outbound-ports";
/// Replaces the configured subnets to ignore.
pub const SKIP_SUBNETS: &str = "config.linkerd.io/skip-subnets";
/// Replaces the configured uid of the proxy.
pub const PROXY_UID: &str = "config.linkerd.io/proxy-uid";
/// Replaces the configured gid of the proxy.
pub const PROXY_GID: &str = "config.linkerd.io/proxy-gid";
/// Where the proxy takes inbound connections.
pub const INBOUND_PORT: &str = "config.linkerd.io/inbound-port";
/// Where it takes outbound ones.
pub const OUTBOUND_PORT: &str = "config.linkerd.io/outbound-port";
/// Where it serves probes and metrics.
pub const ADMIN_PORT: &str = "config.linkerd.io/admin-port";
/// Where it takes taps.
pub const CONTROL_PORT: &str = "config.linkerd.io/control-port";

/// The annotations that change the rules, whatever the proxy's container says. The four of
/// [`crate::proxy_ports`] hold only where it does not say.
pub const ALL: [&str; 5] = [
    SKIP_INBOUND_PORTS,
    SKIP_OUTBOUND_PORTS,
    SKIP_SUBNETS,
    PROXY_UID,
    PROXY_GID,
];

/// The annotations that say where the proxy listens.
pub const PORTS: [&str; 4] = [INBOUND_PORT, OUTBOUND_PORT, ADMIN_PORT, CONTROL_PORT];

/// The longest value that is read, in bytes: what Kubernetes allows for all annotations of an
/// object together (`TotalAnnotationSizeLimitB`).
pub const MOST_BYTES: usize = 256 * 1024;

/// The annotations of one object, and what to call that object in an error.
#[derive(Debug, Clone, Copy)]
pub struct Annotated<'a> {
    /// For example `pod emojivoto/web`.
    pub object: &'a str,
    /// Its annotations.
    pub annotations: &'a BTreeMap<String, String>,
}

/// An annotation that cannot be read. Names annotation, object and item.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("annotation {annotation} of {object}: {reason}")]
pub struct AnnotationError {
    pub(crate) annotation: &'static str,
    pub(crate) object: String,
    pub(crate) reason: String,
}

/// An annotation that does nothing, and the one that was probably meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suggestion {
    found: String,
    object: String,
    meant: &'static str,
}

// === impl Annotated ===

impl<'a> Annotated<'a> {
    /// The value of one annotation, if the object carries it.
    #[must_use]
    pub fn get(&self, annotation: &str) -> Option<&'a str> {
        self.annotations.get(annotation).map(String::as_str)
    }

    /// Whether the object carries the annotation.
    #[must_use]
    pub fn has(&self, annotation: &str) -> bool {
        self.annotations.contains_key(annotation)
    }
}

// === impl Suggestion ===

impl fmt::Display for Suggestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (found, object, meant) = (Excerpt::new(&self.found), &self.object, self.meant);
        write!(
            f,
            "annotation {found} of {object} has no effect; did you mean {meant}?"
        )
    }
}

/// Finds annotations that look like one of ours and are none: an unknown
/// `config.linkerd.io/skip-*`, or one within edit distance 2 of a known one.
#[must_use]
pub fn suggestions(of: Annotated<'_>) -> Vec<Suggestion> {
    of.annotations
        .keys()
        .filter_map(|found| {
            Some(Suggestion {
                found: found.clone(),
                object: of.object.to_owned(),
                meant: meant(found)?,
            })
        })
        .collect()
}

fn meant(found: &str) -> Option<&'static str> {
    let known = || ALL.into_iter().chain(PORTS);
    // Longer than any known key by more than the distance: not worth the quadratic comparison.
    if known().any(|known| known == found) || found.len() > 2 * SKIP_OUTBOUND_PORTS.len() {
        return None;
    }
    let skips = |name: &str| name.strip_prefix(PREFIX)?.strip_prefix("skip-").map(drop);
    let nearest = known()
        .filter(|known| skips(found).is_none() || skips(known).is_some())
        .min_by_key(|known| distance(found, known))?;
    (skips(found).is_some() || distance(found, nearest) <= 2).then_some(nearest)
}

/// Levenshtein distance, in characters: how many must be inserted, deleted or substituted.
#[must_use]
pub fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(keys: &[&str]) -> Vec<String> {
        let annotations = keys
            .iter()
            .map(|k| ((*k).to_owned(), String::new()))
            .collect();
        let of = Annotated {
            object: "pod ns/web",
            annotations: &annotations,
        };
        suggestions(of).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_misspelt_annotation_names_the_right_one() {
        assert_eq!(
            found(&["config.linkerd.io/skip-oubound-ports"]),
            [
                r#"annotation "config.linkerd.io/skip-oubound-ports" of pod ns/web has no effect; did you mean config.linkerd.io/skip-outbound-ports?"#
            ]
        );
        assert!(found(&["config.linkerd.io/skip-ports"])[0].contains("did you mean"));
        assert!(found(&["config.linkerd.io/proxy-uuid"])[0].ends_with("proxy-uid?"));
        assert!(found(&["config.linkerd.io/skip-subnet"])[0].ends_with("skip-subnets?"));
        assert!(found(&["config.linkerd.io/inbound-prot"])[0].ends_with("inbound-port?"));
        assert!(found(&["config.linkerd.io/skip-port"])[0].contains("/skip-"));
    }

    #[test]
    fn other_annotations_are_none_of_our_business() {
        let others = [
            SKIP_SUBNETS,
            "config.linkerd.io/proxy-cpu-request",
            "config.linkerd.io/opaque-ports",
            "config.linkerd.io/pod-inbound-ports",
            "config.linkerd.io/proxy-admin-shutdown",
            INBOUND_PORT,
            "linkerd.io/inject",
            "skip-inbound-ports",
        ];
        assert_eq!(found(&others), [""; 0]);
        assert_eq!(found(&[&"x".repeat(1 << 20)]), [""; 0]);
    }

    #[test]
    fn distance_counts_insertions_deletions_and_substitutions() {
        for (a, b, expected) in [("", "abc", 3), ("abc", "abc", 0), ("kitten", "sitting", 3)] {
            assert_eq!(distance(a, b), expected, "{a} {b}");
        }
    }
}
