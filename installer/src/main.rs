//! Keeps a node chained; see the library for how.

use std::process::ExitCode;

use clap::Parser as _;
use linkerd_cni_installer::settings::CommandLine;

fn main() -> ExitCode {
    linkerd_cni_installer::main(CommandLine::parse())
}
