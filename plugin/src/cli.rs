//! The command line, for people on the node (plugin.md 5).

use std::{ffi::OsString, io::Write, path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};

mod rules;

/// linkerd's CNI plugin: redirects a meshed pod's TCP traffic through the linkerd proxy.
///
/// A container runtime starts it with CNI_COMMAND in its environment and a network configuration
/// on standard input. Without, it is this tool.
#[derive(Debug, Parser)]
#[command(name = "linkerd-cni", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Subcommands,
}

#[derive(Debug, Subcommand)]
enum Subcommands {
    /// Print the rules that a pod would get, as iptables-restore takes them.
    Rules(RulesArguments),
    /// Print the version of this plugin and the CNI versions that it serves.
    Version,
}

#[derive(Debug, clap::Args)]
struct RulesArguments {
    /// A network configuration of linkerd-cni, or a list with an entry of it.
    #[arg(long, value_name = "FILE")]
    conf: PathBuf,
    /// An annotation of the pod; may be given more than once.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    annotation: Vec<(String, String)>,
    /// The rules for IPv6 instead of those for IPv4.
    #[arg(long)]
    ipv6: bool,
}

/// Runs the tool: 0 fine, 2 usage or not possible.
pub fn run(arguments: impl IntoIterator<Item = OsString>, mut stdout: impl Write) -> ExitCode {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help goes to standard output and is no failure.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    let text = match arguments.command {
        Subcommands::Rules(arguments) => rules::text(&arguments),
        Subcommands::Version => Ok(version()),
    };
    let printed = text.and_then(|text| {
        stdout
            .write_all(text.as_bytes())
            .map_err(|error| error.to_string())
    });
    match printed {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("linkerd-cni: {error}");
            ExitCode::from(2)
        }
    }
}

fn version() -> String {
    let versions: Vec<String> = crate::cni::supported()
        .iter()
        .map(ToString::to_string)
        .collect();
    let own = env!("CARGO_PKG_VERSION");
    format!("linkerd-cni {own}\nCNI versions: {}\n", versions.join(", "))
}

fn key_value(text: &str) -> Result<(String, String), String> {
    let pair = text
        .split_once('=')
        .ok_or_else(|| format!("{text:?} is no KEY=VALUE"))?;
    Ok((pair.0.to_owned(), pair.1.to_owned()))
}
