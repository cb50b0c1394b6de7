//! What must hold of the `linkerd-cni` executable, shown from outside: over
//! stdin and environment, in real network namespaces, with real connections.
//!
//! The executable is `LINKERD_CNI_BIN`, or the one cargo built beside this test.

mod annotations;
mod api;
mod bypass;
mod check;
mod configuration;
mod counts;
mod crowd;
mod decision;
mod del;
mod environment;
mod fallback;
mod families;
mod golden;
mod idempotence;
mod identity;
mod interruption;
mod listening;
mod locks;
mod log_file;
mod native;
mod previous_result;
mod protocol;
mod record;
mod reporting;
mod run_directory;
mod sandbox;
mod secrets;
mod traffic;
mod trust;
