//! `linkerd-cni`: a CNI plugin when the runtime starts it, a command-line tool otherwise.

use std::{
    env,
    ffi::OsString,
    io::{stdin, stdout},
    process::ExitCode,
};

use linkerd_cni::{cli, cni::Environment, protocol};

struct Process;

impl Environment for Process {
    fn var(&self, name: &str) -> Option<OsString> {
        env::var_os(name)
    }
}

fn main() -> ExitCode {
    // A runtime that forgets CNI_COMMAND still gives the others and wants JSON.
    if env::vars_os().any(|(name, _)| name.to_string_lossy().starts_with("CNI_")) {
        return protocol::run(&Process, stdin().lock(), stdout().lock());
    }
    cli::run(env::args_os(), stdout().lock())
}
