//! Which backends are tried, and in which order.

use proxy_init_rules::IptablesMode;

use super::BackendKind;

/// Those that are programs.
const PROGRAMS: [BackendKind; 3] = [BackendKind::Nft, BackendKind::Plain, BackendKind::Legacy];

/// The configured backend first, then the others: programs in the order nft, plain, legacy, and
/// what needs none last, unless it is asked for. A namespace of another user namespace is for
/// `native`, whatever is configured: there the kernel takes no rules about owners from xtables.
pub(crate) fn order(mode: IptablesMode, is_of_another_user: bool) -> Vec<BackendKind> {
    let native = BackendKind::Native;
    match BackendKind::configured(mode).filter(|_| !is_of_another_user) {
        None | Some(BackendKind::Native) => [&[native], &PROGRAMS[..]].concat(),
        Some(first) => {
            let others = PROGRAMS.into_iter().filter(|kind| *kind != first);
            [first].into_iter().chain(others).chain([native]).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use BackendKind::{Legacy, Native, Nft, Plain};

    use super::*;

    #[test]
    fn the_configured_backend_comes_first_and_native_needs_no_program() {
        let order = |mode| order(mode, false);
        assert_eq!(order(IptablesMode::Legacy), [Legacy, Nft, Plain, Native]);
        assert_eq!(order(IptablesMode::Nft), [Nft, Plain, Legacy, Native]);
        assert_eq!(order(IptablesMode::Plain), [Plain, Nft, Legacy, Native]);
        assert_eq!(order(IptablesMode::Native), [Native, Nft, Plain, Legacy]);
        assert_eq!(order(IptablesMode::Auto), [Native, Nft, Plain, Legacy]);
    }

    #[test]
    fn a_namespace_of_another_user_gets_native_whatever_the_mode() {
        for mode in [IptablesMode::Legacy, IptablesMode::Nft, IptablesMode::Plain] {
            assert_eq!(order(mode, true), [Native, Nft, Plain, Legacy]);
        }
    }
}
