//! Versions of the CNI specification.

use rscni_types::version::PluginInfo;
pub use rscni_types::version::SpecVersion as Version;

use super::{Code, Error};

/// All versions that are served. Unlike the types' crate we never print an `ip4`/`ip6` result of
/// our own making, so the two oldest are no trouble.
#[must_use]
pub fn supported() -> Vec<Version> {
    [
        (0, 1, 0),
        (0, 2, 0),
        (0, 3, 0),
        (0, 3, 1),
        (0, 4, 0),
        (1, 0, 0),
        (1, 1, 0),
    ]
    .map(|(major, minor, patch)| Version::new(major, minor, patch))
    .to_vec()
}

/// What VERSION prints: `version` is that of the configuration.
#[must_use]
pub fn version_document(version: Version) -> String {
    serde_json::to_string(&PluginInfo::new(version, supported())).unwrap_or_default()
}

/// Reads a `cniVersion`; absent and empty mean 0.1.0, as in libcni.
pub(super) fn parse(text: Option<&str>) -> Result<Version, Error> {
    let text = text.filter(|text| !text.is_empty()).unwrap_or("0.1.0");
    let known = supported()
        .into_iter()
        .find(|version| version.to_string() == text);
    known.ok_or_else(|| {
        let versions: Vec<String> = supported().iter().map(ToString::to_string).collect();
        let versions = versions.join(", ");
        Error::new(
            Code::IncompatibleVersion,
            format!("cniVersion {text:?} is not supported; use one of {versions}"),
        )
    })
}
