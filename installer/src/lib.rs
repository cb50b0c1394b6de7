//! Keeps a node chained: appends linkerd-cni to the CNI configurations that
//! other plugins drop in, and gives the node back as it was.
//!
//! Pure in the middle ([`conflist`], [`template`], [`kubeconfig`], [`plan`]),
//! with one door for each side effect: [`files`] writes, [`snapshot`] reads,
//! [`watch`] and [`signals`] wait, [`cluster`] asks, [`decisions`] listens,
//! [`admin`] answers.

pub mod admin;
pub mod cluster;
pub mod conflist;
pub mod decisions;
pub mod desired;
pub mod diff;
pub mod exit;
pub mod fight;
pub mod files;
pub mod health;
pub mod kubeconfig;
pub mod log;
pub mod metrics;
pub mod monitor;
pub mod plan;
pub mod preview;
pub mod reconcile;
pub mod run;
pub mod settings;
pub mod signals;
pub mod snapshot;
pub mod status;
pub mod swapped;
pub mod taint;
pub mod template;
pub mod uninstall;
pub mod watch;

use std::{io::Write as _, process::ExitCode};

use settings::{Command, CommandLine, Settings};
use status::Level;

/// Does what the command line asks for.
#[must_use]
pub fn main(command_line: CommandLine) -> ExitCode {
    let settings = match Settings::try_from(command_line.arguments) {
        Ok(settings) => settings,
        Err(e) => {
            log::start(tracing::Level::INFO, settings::LogFormat::Plain);
            return refuse(&e.to_string());
        }
    };
    log::start(settings.log_level, settings.log_format);
    match command_line.command.unwrap_or(Command::Run) {
        Command::Run => run::run(settings).map_or_else(|e| refuse(&e.to_string()), exit_code),
        Command::Uninstall => print_removal(&uninstall::uninstall(&settings)),
        Command::Status => print_status(&status::status(&settings)),
        Command::Plan => match preview::preview(&settings) {
            Ok(plan) => print(&plan, true),
            Err(e) => refuse(&e),
        },
    }
}

fn print_status(checks: &[status::Check]) -> ExitCode {
    let line = |c: &status::Check| {
        format!(
            "{:<5} {:<13} {}\n",
            match c.level {
                Level::Good => "ok",
                Level::Note => "note",
                Level::Fault | Level::Unmeshed => "FAULT",
            },
            c.what,
            c.how
        )
    };
    print(
        &checks.iter().map(line).collect::<String>(),
        !checks.iter().any(status::Check::is_fault),
    )
}

fn print_removal(removal: &uninstall::Removal) -> ExitCode {
    let done = removal.done.iter().map(|line| format!("{line}\n"));
    let errors = removal.errors.iter().map(|line| format!("FAULT {line}\n"));
    let text: String = done.chain(errors).collect();
    let text = if text.is_empty() {
        "Nothing of linkerd-cni is on this node\n".to_owned()
    } else {
        text
    };
    print(&text, removal.errors.is_empty())
}

/// A reader that closes the pipe early is no reason to panic.
fn print(text: &str, good: bool) -> ExitCode {
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
    exit_code(good)
}

fn refuse(why: &str) -> ExitCode {
    tracing::error!("{why}");
    exit_code(false)
}

fn exit_code(good: bool) -> ExitCode {
    if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
