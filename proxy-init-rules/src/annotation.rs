//! The pod and namespace annotations that change the rules (rules.md 2).

use std::{collections::BTreeMap, fmt};

use crate::port::Excerpt;

/// The prefix of all of linkerd's configuration annotations.
const PREFIX: &str = "config.linkerd.io/";

/// What the names of those start with that leave something alone.
const SKIP: &str = "skip-";

/// What [`SKIP_SUBNETS`] would be called if it were named after its direction.
const SKIP_INBOUND_SUBNETS: &str = "config.linkerd.io/skip-inbound-subnets";

/// Added to the configured inbound ports to ignore.
pub const SKIP_INBOUND_PORTS: &str = "config.linkerd.io/skip-inbound-ports";
/// Replaces the configured outbound ports to ignore.
pub const SKIP_OUTBOUND_PORTS: &str = "config.linkerd.io/skip-outbound-ports";
/// Replaces the configured subnets to ignore.
pub const SKIP_SUBNETS: &str = "config.linkerd.io/skip-subnets";
/// Ours: replaces the configured outbound subnets to ignore.
pub const SKIP_OUTBOUND_SUBNETS: &str = "config.linkerd.io/skip-outbound-subnets";
/// Ours: replaces the configured interfaces to ignore.
pub const SKIP_INTERFACES: &str = "config.linkerd.io/skip-interfaces";
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
pub const ALL: [&str; 7] = [
    SKIP_INBOUND_PORTS,
    SKIP_OUTBOUND_PORTS,
    SKIP_SUBNETS,
    PROXY_UID,
    PROXY_GID,
    SKIP_OUTBOUND_SUBNETS,
    SKIP_INTERFACES,
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

/// An annotation that does nothing, and the one that was probably meant, if any is near.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suggestion {
    found: String,
    object: String,
    meant: Option<&'static str>,
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
        let (found, object) = (Excerpt::new(&self.found), &self.object);
        write!(f, "annotation {found} of {object} has no effect; ")?;
        match self.meant {
            Some(meant) => write!(f, "did you mean {meant}?"),
            None => {
                let known: Vec<&str> = ALL.into_iter().filter_map(skipped).collect();
                write!(f, "after {PREFIX}{SKIP} there can be {}", known.join(", "))
            }
        }
    }
}

/// Finds annotations that look like one of ours and are none: an unknown
/// `config.linkerd.io/skip-*`, or one within edit distance 2 of a known one.
#[must_use]
pub fn suggestions(of: Annotated<'_>) -> Vec<Suggestion> {
    let unknown = of.annotations.keys().filter(|found| {
        // Longer than any known key by more than the distance: not worth the quadratic comparison.
        !known().any(|known| known == *found) && found.len() <= 2 * SKIP_OUTBOUND_SUBNETS.len()
    });
    unknown
        .filter_map(|found| {
            let meant = meant(found);
            (meant.is_some() || skipped(found).is_some()).then(|| Suggestion {
                found: found.clone(),
                object: of.object.to_owned(),
                meant,
            })
        })
        .collect()
}

/// Those that change the rules.
fn known() -> impl Iterator<Item = &'static str> {
    ALL.into_iter().chain(PORTS)
}

/// The one that `found` is near to. One that is only nearest may do something else altogether.
fn meant(found: &str) -> Option<&'static str> {
    let known = known().map(|known| (known, known));
    let spelled = known.chain([(SKIP_INBOUND_SUBNETS, SKIP_SUBNETS)]);
    let nearest = spelled.map(|(spelled, known)| (distance(found, spelled), known));
    let (distance, known) = nearest.min_by_key(|(distance, _)| *distance)?;
    (distance <= 2).then_some(known)
}

/// What is to be skipped, as the annotation's name has it.
fn skipped(annotation: &str) -> Option<&str> {
    annotation.strip_prefix(PREFIX)?.strip_prefix(SKIP)
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
        assert!(found(&["config.linkerd.io/proxy-uuid"])[0].ends_with("proxy-uid?"));
        assert!(found(&["config.linkerd.io/skip-subnet"])[0].ends_with("skip-subnets?"));
        assert!(found(&["config.linkerd.io/inbound-prot"])[0].ends_with("inbound-port?"));
        assert!(found(&["config.linkerd.io/skip-inbound-subnets"])[0].ends_with("/skip-subnets?"));
        assert!(found(&["config.linkerd.io/skip-interface"])[0].ends_with("skip-interfaces?"));
    }

    #[test]
    fn an_unknown_annotation_that_is_near_to_none_is_not_taken_for_another() {
        for unknown in [
            "skip-port",
            "skip-ports",
            "skip-everything",
            "skip-inbound-interfaces",
        ] {
            let said = found(&[&format!("{PREFIX}{unknown}")]).join("\n");
            assert!(!said.contains("did you mean"), "{said}");
            assert!(
                said.ends_with(
                    "has no effect; after config.linkerd.io/skip- there can be inbound-ports, \
                     outbound-ports, subnets, outbound-subnets, interfaces"
                ),
                "{said}"
            );
        }
    }

    #[test]
    fn other_annotations_are_none_of_our_business() {
        let others = [
            SKIP_SUBNETS,
            SKIP_OUTBOUND_SUBNETS,
            SKIP_INTERFACES,
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
