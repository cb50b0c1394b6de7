//! Which backends are tried, and in which order.

use proxy_init_rules::IptablesMode;

use super::BackendKind;

/// The configured backend first, then the others in the order nft, plain, legacy.
pub(super) fn order(mode: IptablesMode) -> Vec<BackendKind> {
    let configured = BackendKind::configured(mode);
    let others = BackendKind::REAL
        .into_iter()
        .filter(|kind| Some(*kind) != configured);
    configured.into_iter().chain(others).collect()
}

#[cfg(test)]
mod tests {
    use BackendKind::{Legacy, Nft, Plain};

    use super::*;

    #[test]
    fn the_configured_backend_comes_first() {
        assert_eq!(order(IptablesMode::Legacy), [Legacy, Nft, Plain]);
        assert_eq!(order(IptablesMode::Nft), [Nft, Plain, Legacy]);
        assert_eq!(order(IptablesMode::Plain), [Plain, Nft, Legacy]);
        assert_eq!(order(IptablesMode::Auto), [Nft, Plain, Legacy]);
    }
}
