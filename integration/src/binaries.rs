//! Where the executables under test are, and the programs that judge them.

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

/// A program that no Debian package has, or none without a service: of the PATH, else of the place
/// where `integration/test` puts it.
pub fn helper(name: &str) -> String {
    let on_path = env::var_os("PATH")
        .is_some_and(|path| env::split_paths(&path).any(|dir| dir.join(name).is_file()));
    let cache = env::var_os("XDG_CACHE_HOME").map_or_else(
        || PathBuf::from(env::var_os("HOME").unwrap_or_default()).join(".cache"),
        PathBuf::from,
    );
    let there = cache.join("linkerd-cni/tools/bin").join(name);
    if !on_path && there.is_file() {
        return there.to_string_lossy().into_owned();
    }
    name.to_owned()
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
