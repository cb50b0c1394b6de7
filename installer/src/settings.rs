//! The settings: flags and environment in, checked values out (installer.md 1).

use std::{ffi::OsString, net::SocketAddr, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::plan::Ignored;

mod resolve;

#[cfg(test)]
mod tests;

pub use resolve::SettingsError;

/// Keeps linkerd-cni chained behind a node's CNI configuration.
#[derive(Debug, Parser)]
#[command(version, about, max_term_width = 100)]
pub struct CommandLine {
    /// What to do; `run` if nothing is said.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Flags and their environment variables.
    #[command(flatten)]
    pub arguments: Arguments,
}

/// What the installer can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Subcommand)]
pub enum Command {
    /// Install, and stay to keep the node chained (the default)
    Run,
    /// Take everything off the node again; needs no API server
    Uninstall,
    /// Say whether the node is chained; exit 1 on any fault
    Status,
    /// Show what `run` would change, as a diff, and change nothing
    Plan,
}

/// The settings as they come in. An empty value is one that is not set: charts
/// render absent values that way.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Settings")]
pub struct Arguments {
    /// Where the host is mounted [default: /host]
    #[arg(long, global = true, env)]
    container_mount_prefix: Option<OsString>,
    /// Host directory of CNI configurations [default: /etc/cni/net.d]
    #[arg(long, global = true, env)]
    dest_cni_net_dir: Option<OsString>,
    /// Host directory of CNI executables [default: /opt/cni/bin]
    #[arg(long, global = true, env)]
    dest_cni_bin_dir: Option<OsString>,
    /// Where our executables sit in the container [default: /opt/cni/bin]
    #[arg(long, global = true, env)]
    container_cni_bin_dir: Option<OsString>,
    /// Template file; wins over the template text if it exists
    #[arg(long, global = true, env)]
    cni_network_config_file: Option<OsString>,
    /// Template text
    #[arg(long, global = true, env, hide_env_values = true)]
    cni_network_config: Option<String>,
    /// What `__CNI_MTU__` stands for [default: 1500]
    #[arg(long, global = true, env)]
    cni_mtu: Option<String>,
    /// [default: ZZZ-linkerd-cni-kubeconfig]
    #[arg(long, global = true, env)]
    kubeconfig_file_name: Option<String>,
    /// Octal [default: 600]
    #[arg(long, global = true, env)]
    kubeconfig_mode: Option<String>,
    /// [default: ca.crt of the service account]
    #[arg(long, global = true, env)]
    kube_ca_file: Option<OsString>,
    /// Do not verify the API server's certificate [default: false]
    #[arg(long, global = true, env)]
    skip_tls_verify: Option<String>,
    /// [default: https]
    #[arg(long, global = true, env)]
    kubernetes_service_protocol: Option<String>,
    /// Name or address of the API server
    #[arg(long, global = true, env)]
    kubernetes_service_host: Option<String>,
    /// Port of the API server
    #[arg(long, global = true, env)]
    kubernetes_service_port: Option<String>,
    /// Where token, ca.crt and namespace are
    /// [default: /var/run/secrets/kubernetes.io/serviceaccount]
    #[arg(long, global = true, env)]
    service_account_dir: Option<OsString>,
    /// false: install once and exit [default: true]
    #[arg(long, global = true, env)]
    sleep: Option<String>,
    /// auto, keep or remove [default: auto]
    #[arg(long, global = true, env)]
    on_exit: Option<String>,
    /// Leave the executables when removing [default: false]
    #[arg(long, global = true, env)]
    keep_binary: Option<String>,
    /// Time between two passes without an event [default: 15s]
    #[arg(long, global = true, env)]
    resync_interval: Option<String>,
    /// Do not chain where no other plugin of the list is in the bin directory [default: true]
    #[arg(long, global = true, env)]
    verify_bin_dir: Option<String>,
    /// Files that are never chained, parted by commas; `*` stands for any characters, none for no
    /// file [default: 87-podman*.conflist,cni-podman*.conflist]
    #[arg(long, global = true, env)]
    ignore_configurations: Option<String>,
    /// [default: the service account's namespace]
    #[arg(long, global = true, env)]
    pod_namespace: Option<String>,
    /// [default: linkerd-cni]
    #[arg(long, global = true, env)]
    daemonset_name: Option<String>,
    /// [default: the host name]
    #[arg(long, global = true, env)]
    kubernetes_node_name: Option<String>,
    /// Where `run` tells `status` why it is not ready [default: /run/linkerd-cni-installer]
    #[arg(long, global = true, env)]
    state_dir: Option<OsString>,
    /// IP:PORT where /live, /ready and /metrics are served; not set: nowhere
    #[arg(long, global = true, env)]
    admin_address: Option<String>,
    /// Taint that is removed from our own node whenever it is ready, such as
    /// linkerd.io/cni-not-ready; not set: none
    #[arg(long, global = true, env)]
    startup_taint: Option<String>,
    /// Set that taint (NoSchedule) when the chain is lost [default: false]
    #[arg(long, global = true, env)]
    taint_on_loss: Option<String>,
    /// error, warn, info, debug or trace [default: info]
    #[arg(long, global = true, env)]
    log_level: Option<String>,
    /// plain or json [default: plain]
    #[arg(long, global = true, env)]
    log_format: Option<String>,
}

/// The settings, checked.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The host's configuration directory as we see it.
    pub net_dir: PathBuf,
    /// The host's executables as we see them.
    pub bin_dir: PathBuf,
    /// The kubeconfig as the runtime sees it.
    pub kubeconfig_on_host: String,
    /// The kubeconfig as we see it.
    pub kubeconfig: PathBuf,
    /// Where the host is mounted.
    pub prefix: PathBuf,
    /// Our executables in the container.
    pub source_dir: PathBuf,
    /// The template and where it comes from.
    pub template: TemplateSource,
    /// What `__CNI_MTU__` stands for.
    pub mtu: String,
    /// Mode of the kubeconfig.
    pub kubeconfig_mode: u32,
    /// Where the API server is.
    pub api_server: ApiServer,
    /// Token, CA and namespace.
    pub service_account: PathBuf,
    /// Stay after the first pass.
    pub stay: bool,
    /// What leaving means.
    pub on_exit: OnExit,
    /// Leave the executables when removing.
    pub keep_binary: bool,
    /// Time between two passes without an event.
    pub resync: Duration,
    /// Refuse to chain where the bin directory looks wrong.
    pub verify_bin_dir: bool,
    /// Files that are never chained.
    pub ignored: Ignored,
    /// The installer's own namespace, if it is set.
    pub namespace: Option<String>,
    /// The installer's own DaemonSet.
    pub daemonset: String,
    /// The node's name.
    pub node_name: String,
    /// Where `run` tells `status` why it is not ready.
    pub state_dir: PathBuf,
    /// Where `/live`, `/ready` and `/metrics` are served, if anywhere.
    pub admin_address: Option<SocketAddr>,
    /// The key of the taint that goes whenever the node is ready, if any.
    pub startup_taint: Option<String>,
    /// Set it when the chain is lost.
    pub taint_on_loss: bool,
    /// Least severe lines that are written.
    pub log_level: tracing::Level,
    /// Shape of the log.
    pub log_format: LogFormat,
}

/// Where the template comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplateSource {
    /// `CNI_NETWORK_CONFIG_FILE`.
    File(PathBuf),
    /// `CNI_NETWORK_CONFIG`.
    Text(String),
    /// Neither is set.
    None,
}

/// Where the API server is, and how its certificate is verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiServer {
    /// `https` unless somebody says otherwise.
    pub protocol: String,
    /// Name or address; empty if not set.
    pub host: String,
    /// Empty if not set.
    pub port: String,
    /// The CA's file.
    pub ca_file: PathBuf,
    /// Do not verify.
    pub skip_verify: bool,
}

/// What leaving means (installer.md 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnExit {
    /// Ask the API server whether the DaemonSet stays.
    Auto,
    /// Everything stays.
    Keep,
    /// Everything goes.
    Remove,
}

/// Shape of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Plain,
    /// One object a line.
    Json,
}
