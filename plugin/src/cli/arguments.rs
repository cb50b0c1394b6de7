//! What may stand on the command line.

use std::{net::SocketAddr, path::PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};

mod values;

use values::{Source, interface, key_value, pod, source, target};

/// linkerd's CNI plugin: redirects a meshed pod's TCP traffic through the linkerd proxy.
///
/// A container runtime starts it with CNI_COMMAND in its environment and a network configuration
/// on standard input. Without, it is this tool, for a person on the node.
#[derive(Debug, Parser)]
#[command(
    name = "linkerd-cni",
    version,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "\
A pod is not in the mesh? In this order:
  linkerd-cni check                    is every pod on this node redirected as it should be?
  linkerd-cni explain --pod NS/NAME …  where does this one connection end, and by which rule?
  linkerd-cni status                   could this node serve the next pod?

Exit status: 0 fine, 1 differences or faults, 2 usage or not possible."
)]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub(super) command: Subcommands,
}

#[derive(Debug, Subcommand)]
pub(super) enum Subcommands {
    /// Compare the redirect rules in the kernel with what each pod should have.
    Check(CheckArguments),
    /// Follow a TCP connection through the rules of a pod and say where it ends.
    Explain(ExplainArguments),
    /// Say whether this node could serve the next pod, and how to mend what is wrong.
    Status(StatusArguments),
    /// Print the rules that a pod would get, as iptables-restore takes them.
    Rules(RulesArguments),
    /// Print the version of this plugin and the CNI versions that it serves.
    Version,
    /// Print a completion script for a shell.
    #[command(after_help = "\
Example:
  linkerd-cni completion bash > /etc/bash_completion.d/linkerd-cni")]
    Completion {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "\
Pods are found in the records of this plugin (/run/linkerd-cni), in what the container runtime
remembers (/var/lib/cni) and in the network namespaces that are there. The API server is asked
only about pods without a record, to tell whether they are meshed; everything else works without.

Examples:
  linkerd-cni check                      every pod on this node
  linkerd-cni check --pod emojivoto/web-5f86686c4d-ftsbw
  linkerd-cni check --netns /run/netns/cni-3b1f…
  linkerd-cni check -o json | jq '.attachments[] | select(.state == \"different\")'

Exit status: 0 no difference, 1 differences, 2 usage or not possible.")]
pub(super) struct CheckArguments {
    #[command(flatten)]
    pub(super) which: Which,
    /// Every attachment on this node; so it is without --pod and --netns too.
    #[arg(long, conflicts_with_all = ["pod", "netns"])]
    all: bool,
    /// How to print: a table, a wider table, or JSON for programs.
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(super) output: Format,
    #[command(flatten)]
    pub(super) node: Node,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The rules are read from the kernel, those of others too. Inbound is a connection to an address of
the pod from any other; everything else is made by a process of the pod.

Examples:
  does a client reach the application through the proxy?
    linkerd-cni explain --pod emojivoto/web-5f86686c4d-ftsbw --from 10.244.1.9 --to 10.244.1.2:8080
  does the application reach a database through the proxy? and the proxy itself (uid 2102)?
    linkerd-cni explain --pod emojivoto/web-5f86686c4d-ftsbw --from 10.244.1.2 --to 10.96.0.20:5432
    linkerd-cni explain --pod emojivoto/web-5f86686c4d-ftsbw \\
      --from 10.244.1.2 --to 10.96.0.20:5432 --uid 2102
  does what comes in by a second interface?
    linkerd-cni explain --pod emojivoto/web-5f86686c4d-ftsbw \\
      --from 192.168.7.9 --to 10.244.1.2:8080 --interface net1

Exit status: 0 explained, 2 usage or not possible.")]
pub(super) struct ExplainArguments {
    #[command(flatten)]
    pub(super) which: Which,
    /// Where the connection comes from; the port may be left out.
    #[arg(long, value_name = "IP:PORT", value_parser = source)]
    pub(super) from: Source,
    /// Where it is meant to go.
    #[arg(long, value_name = "IP:PORT", value_parser = target)]
    pub(super) to: SocketAddr,
    /// The interface of the pod by which it comes in or goes out; left out: the one with the pod's
    /// address that it goes to, or by which the kernel would send it.
    #[arg(long, value_name = "NAME", value_parser = interface)]
    pub(super) interface: Option<String>,
    /// The user whose process makes it; the proxy's is usually 2102. Left out: nobody that a rule
    /// is about.
    #[arg(long, value_name = "N")]
    pub(super) uid: Option<u32>,
    /// The group of that process, likewise.
    #[arg(long, value_name = "N")]
    pub(super) gid: Option<u32>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The lines are what the runtime's STATUS looks at. Only a fault takes the node out of service; a
warning is worth a look. Nothing is asked of the API server, and nothing is changed.

Example:
  linkerd-cni status --conf /etc/cni/net.d/10-calico.conflist

Exit status: 0 no fault, 1 faults, 2 usage or not possible.")]
pub(super) struct StatusArguments {
    /// The network configuration, instead of the first in --conf-dir with an entry of linkerd-cni.
    #[arg(long, value_name = "FILE", conflicts_with = "conf_dir")]
    pub(super) conf: Option<PathBuf>,
    /// Where network configurations are.
    #[arg(long, value_name = "DIR", default_value = CONF_DIR)]
    pub(super) conf_dir: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  linkerd-cni rules --conf /etc/cni/net.d/10-calico.conflist
  linkerd-cni rules --conf /etc/cni/net.d/10-calico.conflist --ipv6 \\
    --annotation config.linkerd.io/skip-outbound-ports=3306,5432")]
pub(super) struct RulesArguments {
    /// A network configuration of linkerd-cni, or a list with an entry of it.
    #[arg(long, value_name = "FILE")]
    pub(super) conf: PathBuf,
    /// An annotation of the pod; may be given more than once.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub(super) annotation: Vec<(String, String)>,
    /// The rules for IPv6 instead of those for IPv4.
    #[arg(long)]
    pub(super) ipv6: bool,
}

/// Which pod.
#[derive(Debug, Args)]
pub(super) struct Which {
    /// The pod of this name.
    #[arg(long, value_name = "NS/NAME", value_parser = pod, conflicts_with = "netns")]
    pub(super) pod: Option<(String, String)>,
    /// The network namespace at this path.
    #[arg(long, value_name = "PATH")]
    pub(super) netns: Option<PathBuf>,
}

/// How to reach what the node knows.
#[derive(Debug, Args)]
pub(super) struct Node {
    /// How to ask the API server; else as the configuration in --conf-dir says.
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// Where network configurations are.
    #[arg(long, value_name = "DIR", default_value = CONF_DIR)]
    pub(super) conf_dir: PathBuf,
}

/// How to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Aligned columns that fit the terminal, then each difference.
    Table,
    /// The same with container, interface and namespace.
    Wide,
    /// For programs; its fields do not change between releases.
    Json,
}

const CONF_DIR: &str = "/etc/cni/net.d";
