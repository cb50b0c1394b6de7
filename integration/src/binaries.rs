//! Where the executables under test are.

use std::env;
use std::path::PathBuf;

/// The `linkerd-cni` executable: `LINKERD_CNI_BIN`, or the one that cargo built
/// beside this test.
///
/// # Panics
///
/// If there is none, with the command that builds it.
pub fn plugin() -> PathBuf {
    executable("LINKERD_CNI_BIN", "linkerd-cni")
}

/// The `linkerd-cni-installer` executable: `LINKERD_CNI_INSTALLER_BIN`, or the
/// one that cargo built beside this test.
///
/// # Panics
///
/// If there is none, with the command that builds it.
pub fn installer() -> PathBuf {
    executable("LINKERD_CNI_INSTALLER_BIN", "linkerd-cni-installer")
}

fn executable(variable: &str, name: &str) -> PathBuf {
    let path = env::var_os(variable).map_or_else(|| sibling(name), PathBuf::from);
    assert!(
        path.is_file(),
        "no executable at {}: build it (cargo build -p {name}) or set {variable}",
        path.display(),
    );
    path
}

/// Tests run from `target/<profile>/deps/`, binaries lie one directory up; the
/// demo lies beside them.
fn sibling(name: &str) -> PathBuf {
    let exe = env::current_exe().expect("the test knows its own path");
    let directory = exe.parent().expect("an executable lies in a directory");
    if directory.ends_with("deps") {
        directory.with_file_name(name)
    } else {
        directory.join(name)
    }
}
