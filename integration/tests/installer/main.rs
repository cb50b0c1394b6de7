//! What must hold of the installer, shown from outside: real directories, the
//! real process, judged by bytes, metadata, `strace` and its log.
//!
//! The executable is `LINKERD_CNI_INSTALLER_BIN`, or the one cargo built beside
//! this test.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed, also in what its tests share"
)]

mod admin;
mod broken;
mod commands;
mod decisions;
mod executables;
mod faults;
mod fight;
mod give_back;
mod leaving;
mod links;
mod order;
mod rights;
mod seed;
mod start;
mod taint;
mod token;
mod watching;
