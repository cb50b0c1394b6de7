//! The `linkerd-cni` CNI plugin: redirects a meshed pod's TCP traffic through the linkerd proxy.
//!
//! The container runtime starts it once per verb, as root, with the `CNI_*` environment and a
//! network configuration on standard input. Started without `CNI_COMMAND` it is a command-line
//! tool.

mod add;
mod attachments;
mod check;
pub mod cli;
mod clock;
pub mod cni;
mod comparison;
mod decision;
mod del;
mod error;
mod exec;
mod families;
mod firewall;
mod gc;
mod interfaces;
mod kubernetes;
mod log;
mod netns;
pub mod protocol;
mod record;
mod report;
mod resolve;
mod status;
