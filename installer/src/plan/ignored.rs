//! Files that are never chained.
//!
//! Podman 3 hands its containers to CNI as if they were pods, out of the directory
//! that the runtime uses too.

use std::{ffi::OsStr, fmt, path::Path};

use super::{Files, is_list, original_of, single_of};

/// Podman's default network under the names that it had over time, and the networks
/// that `podman network create` makes without a name.
pub const DEFAULT: &str = "87-podman*.conflist,cni-podman*.conflist";

/// What stands for no file at all, because an empty setting is one that is not set.
const NONE: &str = "none";

/// Names of files; a `*` in one stands for any characters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ignored(Vec<String>);

// === impl Ignored ===

impl Ignored {
    /// Reads names that are parted by commas.
    ///
    /// # Errors
    ///
    /// One that is no name of a file.
    pub fn parse(text: &str) -> Result<Self, String> {
        let names = text
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty());
        let names: Vec<_> = names
            .filter(|name| *name != NONE)
            .map(str::to_owned)
            .collect();
        match names.iter().find(|name| name.contains('/')) {
            Some(path) => Err(path.clone()),
            None => Ok(Self(names)),
        }
    }

    /// Whether a file is one of them, or was made from one.
    pub(super) fn covers(&self, files: &Files, name: &OsStr) -> bool {
        let named = |name: &OsStr| self.0.iter().any(|pattern| matches(pattern, name));
        let from = |single: &OsStr| named(single) && files.contains_key(&original_of(single));
        named(name)
            || single_of(name).is_some_and(|single| named(&single))
            || is_list(name) && singles_of(name).iter().any(|single| from(single))
    }
}

impl fmt::Display for Ignored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(","))
    }
}

/// The single configurations that a list may have been made from.
pub(super) fn singles_of(list: &OsStr) -> [std::ffi::OsString; 3] {
    ["conf", "json", ""].map(|extension| Path::new(list).with_extension(extension).into())
}

fn matches(pattern: &str, name: &OsStr) -> bool {
    let Some(name) = name.to_str() else {
        return false;
    };
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    let Some(last) = parts.next_back() else {
        return rest.is_empty();
    };
    for part in parts {
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_characters() {
        for (pattern, name, expected) in [
            ("a.conflist", "a.conflist", true),
            ("a.conflist", "aa.conflist", false),
            ("a.conflist", "a.conflist2", false),
            ("a*.conf*", "a.conf", true),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxcyyb", false),
            ("a*a", "a", false),
            ("*", "anything", true),
            ("a.c", "abc", false),
        ] {
            assert_eq!(
                matches(pattern, OsStr::new(name)),
                expected,
                "{pattern} {name}"
            );
        }
    }

    #[test]
    fn podmans_are_ignored_by_default_and_pod_networks_are_not() {
        let ignored = Ignored::parse(DEFAULT).unwrap();
        for (name, expected) in [
            ("87-podman-bridge.conflist", true),
            ("87-podman.conflist", true),
            ("cni-podman1.conflist", true),
            ("cni-podman-4.conflist", true),
            ("100-crio-bridge.conflist", false),
            ("10-calico.conflist", false),
        ] {
            assert_eq!(
                ignored.covers(&Files::new(), OsStr::new(name)),
                expected,
                "{name}"
            );
        }
        assert_eq!(Ignored::parse("none"), Ok(Ignored::default()));
        assert_eq!(Ignored::parse("a, /etc/b"), Err("/etc/b".to_owned()));
    }
}
