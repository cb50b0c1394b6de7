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
    if is_runtime() {
        return protocol::run(&Process, stdin().lock(), stdout().lock());
    }
    cli::run(env::args_os(), stdout().lock())
}

/// A runtime that forgets CNI_COMMAND still gives other variables and wants JSON; but it never
/// gives arguments, as a person does who has CNI_PATH exported.
fn is_runtime() -> bool {
    let has_others = env::vars_os().any(|(name, _)| name.to_string_lossy().starts_with("CNI_"));
    let has_arguments = env::args_os().len() > 1;
    env::var_os("CNI_COMMAND").is_some() || (has_others && !has_arguments)
}
