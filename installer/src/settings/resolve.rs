//! From raw arguments to checked settings.

use std::{ffi::OsString, net::SocketAddr, path::PathBuf, time::Duration};

use clap::ValueEnum;

use super::{ApiServer, Arguments, Settings, TemplateSource};
use crate::{
    files::under,
    plan::{IGNORED, Ignored},
};

/// A setting that cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{variable}={value}: {expected}")]
pub struct SettingsError {
    variable: &'static str,
    value: String,
    expected: &'static str,
}

// === impl Settings ===

impl TryFrom<Arguments> for Settings {
    type Error = SettingsError;

    /// Checks every setting.
    ///
    /// # Errors
    ///
    /// The first variable whose value cannot be used.
    fn try_from(raw: Arguments) -> Result<Self, SettingsError> {
        let prefix = path(raw.container_mount_prefix, "/host");
        let net_dir = path(raw.dest_cni_net_dir, "/etc/cni/net.d");
        let service_account = path(
            raw.service_account_dir,
            "/var/run/secrets/kubernetes.io/serviceaccount",
        );
        let name = text(raw.kubeconfig_file_name, "ZZZ-linkerd-cni-kubeconfig");
        if name.contains('/') {
            return Err(refused(
                "KUBECONFIG_FILE_NAME",
                &name,
                "has to be a file name, not a path",
            ));
        }
        let startup_taint = taint(raw.startup_taint)?;
        let taint_on_loss = switch("TAINT_ON_LOSS", raw.taint_on_loss, false)?;
        if taint_on_loss && startup_taint.is_none() {
            return Err(refused(
                "TAINT_ON_LOSS",
                "true",
                "needs STARTUP_TAINT, the key of the taint",
            ));
        }
        let prefixed_net_dir = under(&prefix, &net_dir);
        Ok(Self {
            kubeconfig_on_host: net_dir.join(&name).to_string_lossy().into_owned(),
            kubeconfig: prefixed_net_dir.join(&name),
            net_dir: prefixed_net_dir,
            bin_dir: under(&prefix, &path(raw.dest_cni_bin_dir, "/opt/cni/bin")),
            prefix,
            source_dir: path(raw.container_cni_bin_dir, "/opt/cni/bin"),
            template: template(raw.cni_network_config_file, raw.cni_network_config),
            mtu: text(raw.cni_mtu, "1500"),
            kubeconfig_mode: mode(raw.kubeconfig_mode)?,
            api_server: ApiServer {
                protocol: text(raw.kubernetes_service_protocol, "https"),
                host: text(raw.kubernetes_service_host, ""),
                port: text(raw.kubernetes_service_port, ""),
                ca_file: raw
                    .kube_ca_file
                    .filter(|f| !f.is_empty())
                    .map_or_else(|| service_account.join("ca.crt"), PathBuf::from),
                skip_verify: switch("SKIP_TLS_VERIFY", raw.skip_tls_verify, false)?,
            },
            service_account,
            stay: switch("SLEEP", raw.sleep, true)?,
            on_exit: choice(
                "ON_EXIT",
                raw.on_exit,
                "auto",
                "expected auto, keep or remove",
            )?,
            keep_binary: switch("KEEP_BINARY", raw.keep_binary, false)?,
            resync: duration(raw.resync_interval)?,
            verify_bin_dir: switch("VERIFY_BIN_DIR", raw.verify_bin_dir, true)?,
            ignored: ignored(raw.ignore_configurations)?,
            namespace: raw.pod_namespace.filter(|n| !n.is_empty()),
            daemonset: text(raw.daemonset_name, "linkerd-cni"),
            node_name: node_name(raw.kubernetes_node_name),
            state_dir: path(raw.state_dir, "/run/linkerd-cni-installer"),
            admin_address: address(raw.admin_address)?,
            startup_taint,
            taint_on_loss,
            log_level: level(raw.log_level)?,
            log_format: choice(
                "LOG_FORMAT",
                raw.log_format,
                "plain",
                "expected plain or json",
            )?,
        })
    }
}

fn path(value: Option<OsString>, default: &str) -> PathBuf {
    value
        .filter(|v| !v.is_empty())
        .map_or_else(|| default.into(), PathBuf::from)
}

fn text(value: Option<String>, default: &str) -> String {
    value
        .filter(|v| !v.is_empty())
        .unwrap_or_else(|| default.to_owned())
}

fn template(file: Option<OsString>, text: Option<String>) -> TemplateSource {
    match (file.map(PathBuf::from).filter(|f| f.exists()), text) {
        (Some(file), _) => TemplateSource::File(file),
        (None, Some(text)) if !text.trim().is_empty() => TemplateSource::Text(text),
        (None, _) => TemplateSource::None,
    }
}

fn node_name(value: Option<String>) -> String {
    text(
        value,
        &nix::unistd::gethostname()
            .unwrap_or_default()
            .to_string_lossy(),
    )
}

fn switch(
    variable: &'static str,
    value: Option<String>,
    default: bool,
) -> Result<bool, SettingsError> {
    let value = text(value, if default { "true" } else { "false" });
    match value.to_lowercase().as_str() {
        "true" | "1" | "yes" | "on" => Ok(true),
        "false" | "0" | "no" | "off" => Ok(false),
        _ => Err(refused(variable, &value, "expected true or false")),
    }
}

fn choice<T: ValueEnum>(
    variable: &'static str,
    value: Option<String>,
    default: &str,
    expected: &'static str,
) -> Result<T, SettingsError> {
    let value = text(value, default);
    T::from_str(&value, true).map_err(|_| refused(variable, &value, expected))
}

fn mode(value: Option<String>) -> Result<u32, SettingsError> {
    let value = text(value, "600");
    match u32::from_str_radix(value.trim_start_matches("0o"), 8) {
        Ok(mode) if mode & 0o400 != 0 && mode <= 0o777 => Ok(mode),
        _ => Err(refused(
            "KUBECONFIG_MODE",
            &value,
            "expected an octal mode such as 600 that lets the owner read",
        )),
    }
}

fn duration(value: Option<String>) -> Result<Duration, SettingsError> {
    let value = text(value, "15s");
    let digits = value.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &value[digits.len()..] {
        "ms" => 1,
        "s" | "" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => 0,
    };
    match digits.parse::<u32>() {
        Ok(count @ 1..) if unit > 0 => Ok(Duration::from_millis(u64::from(count) * unit)),
        _ => Err(refused(
            "RESYNC_INTERVAL",
            &value,
            "expected a time such as 15s, 500ms or 2m, and not zero",
        )),
    }
}

fn ignored(value: Option<String>) -> Result<Ignored, SettingsError> {
    let value = text(value, IGNORED);
    Ignored::parse(&value).map_err(|_| {
        refused(
            "IGNORE_CONFIGURATIONS",
            &value,
            "expected file names, not paths, parted by commas, such as 87-podman*.conflist, or none",
        )
    })
}

fn address(value: Option<String>) -> Result<Option<SocketAddr>, SettingsError> {
    let Some(value) = value.filter(|v| !v.is_empty()) else {
        return Ok(None);
    };
    match value.parse() {
        Ok(address) => Ok(Some(address)),
        Err(_) => Err(refused(
            "ADMIN_ADDRESS",
            &value,
            "expected IP:PORT, such as 0.0.0.0:9990 or [::]:9990",
        )),
    }
}

/// The key alone, as Kubernetes has it: `example.com/name` or `name`.
fn taint(value: Option<String>) -> Result<Option<String>, SettingsError> {
    let Some(value) = value.filter(|v| !v.is_empty()) else {
        return Ok(None);
    };
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-._/".contains(c);
    if value.len() <= 317 && value.chars().all(allowed) {
        return Ok(Some(value));
    }
    Err(refused(
        "STARTUP_TAINT",
        &value,
        "expected the key of a taint without value and effect, such as linkerd.io/cni-not-ready",
    ))
}

fn level(value: Option<String>) -> Result<tracing::Level, SettingsError> {
    let value = text(value, "info");
    value.parse().map_err(|_| {
        refused(
            "LOG_LEVEL",
            &value,
            "expected error, warn, info, debug or trace",
        )
    })
}

fn refused(variable: &'static str, value: &str, expected: &'static str) -> SettingsError {
    SettingsError {
        variable,
        value: value.to_owned(),
        expected,
    }
}
