//! The command line, for people on the node (plugin.md 5).

use std::{ffi::OsString, io::Write, process::ExitCode};

use clap::{CommandFactory as _, Parser as _};

mod arguments;
mod check;
mod conf;
mod explain;
mod rules;
mod screen;
mod select;
mod status;
mod table;

use arguments::{
    Arguments, CheckArguments, ExplainArguments, Format, RulesArguments, StatusArguments,
    Subcommands, Which,
};
use screen::Screen;

/// What a command came to.
#[derive(Debug)]
struct Outcome {
    text: String,
    code: u8,
}

/// Differences or faults.
const DIFFERENT: u8 = 1;

/// Usage, or not possible.
const IMPOSSIBLE: u8 = 2;

/// Runs the tool: 0 fine, 1 differences or faults, 2 usage or not possible.
pub fn run(arguments: impl IntoIterator<Item = OsString>, mut stdout: impl Write) -> ExitCode {
    let outcome = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => serve(&arguments.command, Screen::of_stdout()),
        // Help goes to standard output and is no failure.
        Err(help) if !help.use_stderr() => Ok(Outcome::fine(help.to_string())),
        Err(error) => {
            // Nobody is left to tell if this fails.
            let _ = error.print();
            return ExitCode::from(IMPOSSIBLE);
        }
    };
    let printed = outcome.and_then(|outcome| {
        let written = stdout.write_all(outcome.text.as_bytes());
        match written.and_then(|()| stdout.flush()) {
            Ok(()) => Ok(outcome.code),
            Err(error) => Err(format!("standard output cannot be written: {error}")),
        }
    });
    ExitCode::from(printed.unwrap_or_else(|error| {
        complain(&error);
        IMPOSSIBLE
    }))
}

fn serve(command: &Subcommands, screen: Screen) -> Result<Outcome, String> {
    match command {
        Subcommands::Check(arguments) => check::run(arguments, screen),
        Subcommands::Rules(arguments) => rules::run(arguments),
        Subcommands::Explain(arguments) => explain::run(arguments, screen),
        Subcommands::Status(arguments) => status::run(arguments, screen),
        Subcommands::Version => Ok(Outcome::fine(version())),
        Subcommands::Completion { shell } => Ok(Outcome::fine(completion(*shell))),
    }
}

/// Says something on standard error, which may be closed.
fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "linkerd-cni: {text}");
}

fn version() -> String {
    let versions: Vec<String> = crate::cni::supported()
        .iter()
        .map(ToString::to_string)
        .collect();
    let own = env!("CARGO_PKG_VERSION");
    format!("linkerd-cni {own}\nCNI versions: {}\n", versions.join(", "))
}

fn completion(shell: clap_complete::Shell) -> String {
    let mut script = Vec::new();
    let mut command = Arguments::command();
    clap_complete::generate(shell, &mut command, "linkerd-cni", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// Entering a pod's namespace, and reading the records, takes root.
fn need_root(what: &str) -> Result<(), String> {
    if nix::unistd::geteuid().is_root() {
        return Ok(());
    }
    Err(format!(
        "{what} must be run as root: it enters the pods' network namespaces"
    ))
}

// === impl Outcome ===

impl Outcome {
    fn fine(text: String) -> Self {
        Self { text, code: 0 }
    }
}
