//! The network configuration on standard input.

use proxy_init_rules::{Config, LogFile, RawConfig};
use serde::Deserialize;
use serde_json::Value;

use super::{Code, Error, PreviousResult, Version, members::Members, version};

/// The network configuration, as far as it concerns us.
#[derive(Debug, Clone)]
pub struct NetworkConfig {
    /// `cniVersion`.
    pub version: Version,
    /// `name`: the network, which the runtime keeps its attachments by.
    pub network: String,
    /// `log_level`.
    pub log_level: String,
    members: Members,
}

/// The `kubernetes` object.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct KubernetesConfig {
    /// Path of the kubeconfig on this host.
    pub kubeconfig: String,
    /// The DaemonSet whose pods are never held up.
    pub installer: InstallerRef,
    /// Namespaces whose pods are passed on unseen.
    #[serde(rename = "exclude-namespaces")]
    pub exclude_namespaces: Vec<String>,
}

/// The installer's own DaemonSet.
#[derive(Debug, Clone, Deserialize)]
#[serde(default)]
pub struct InstallerRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub daemonset: String,
}

/// An attachment that the runtime still knows, in a GC.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ValidAttachment {
    /// The container.
    #[serde(rename = "containerID")]
    pub container_id: String,
    /// Its interface.
    pub ifname: String,
}

impl Default for InstallerRef {
    /// The names that the chart gives; a configuration from before the installer wrote them in
    /// must not lock its node out either.
    fn default() -> Self {
        Self {
            namespace: "linkerd-cni".to_owned(),
            daemonset: "linkerd-cni".to_owned(),
        }
    }
}

impl NetworkConfig {
    /// Reads the configuration; its objects are read when they are asked for.
    ///
    /// # Errors
    /// Not JSON (6), not an object or a value of the wrong type (7), an unknown version (1).
    pub fn parse(input: &[u8]) -> Result<Self, Error> {
        let members: Members =
            serde_json::from_slice(input).map_err(|error| not_read(input, &error))?;
        let config = Self {
            version: Version::CURRENT,
            network: String::new(),
            log_level: String::new(),
            members,
        };
        let version = config.text("cniVersion")?;
        Ok(Self {
            version: version::parse(version.as_deref())?,
            // Nothing depends on these two that would be worth failing a pod for.
            network: config.text("name").ok().flatten().unwrap_or_default(),
            log_level: config.text("log_level").ok().flatten().unwrap_or_default(),
            ..config
        })
    }

    /// `log_file` and `log_file_max_bytes`.
    ///
    /// # Errors
    /// One of them cannot be used (7, names the key).
    pub fn log_file(&self) -> Result<Option<LogFile>, Error> {
        let [path, max_bytes] = ["log_file", "log_file_max_bytes"].map(|key| self.object(key));
        let [path, max_bytes] = [path?, max_bytes?].map(Option::unwrap_or_default);
        LogFile::read(&path, &max_bytes).map_err(|error| {
            let msg = format!("invalid network configuration: {error}");
            Error::new(Code::InvalidConfig, msg)
        })
    }

    /// The `linkerd` object, checked.
    ///
    /// # Errors
    /// It is missing or one of its values cannot be used (7, names the key).
    pub fn linkerd(&self) -> Result<Config, Error> {
        let Some(raw) = self.members.get("linkerd") else {
            let mend = "is this the entry that linkerd-cni-installer appends?";
            return Err(invalid("linkerd", &format!("is missing; {mend}")));
        };
        let value: Value = serde_json::from_str(raw.get())
            .map_err(|error| invalid("linkerd", &error.to_string()))?;
        RawConfig::from_value(&value)
            .and_then(Config::try_from)
            .map_err(|error| {
                Error::new(
                    Code::InvalidConfig,
                    format!("invalid network configuration: {error}"),
                )
            })
    }

    /// The `kubernetes` object; absent, its defaults.
    ///
    /// # Errors
    /// A value of the wrong type (7).
    pub fn kubernetes(&self) -> Result<KubernetesConfig, Error> {
        self.object("kubernetes").map(Option::unwrap_or_default)
    }

    /// `prevResult`.
    ///
    /// # Errors
    /// It is not an object (7).
    pub fn previous_result(&self) -> Result<Option<PreviousResult>, Error> {
        let raw = self.members.get("prevResult");
        raw.map(|raw| PreviousResult::parse(raw.get())).transpose()
    }

    /// `cni.dev/valid-attachments` of a GC. libcni writes `null` for an empty list; `None` means
    /// that nothing was said.
    ///
    /// # Errors
    /// It is not a list of attachments (7).
    pub fn valid_attachments(&self) -> Result<Option<Vec<ValidAttachment>>, Error> {
        // The second name is that of early drafts of the specification, which libcni still sends.
        for name in ["cni.dev/valid-attachments", "cni.dev/attachments"] {
            if self.members.has(name) {
                return self.object(name).map(|list| Some(list.unwrap_or_default()));
            }
        }
        Ok(None)
    }

    fn text(&self, name: &str) -> Result<Option<String>, Error> {
        self.object(name)
    }

    fn object<T: for<'de> Deserialize<'de>>(&self, name: &str) -> Result<Option<T>, Error> {
        let raw = self.members.get(name);
        raw.map(|raw| serde_json::from_str(raw.get()))
            .transpose()
            .map_err(|error| invalid(name, &error.to_string()))
    }
}

fn invalid(key: &str, reason: &str) -> Error {
    Error::new(
        Code::InvalidConfig,
        format!("invalid network configuration: {key}: {reason}"),
    )
}

fn not_read(input: &[u8], error: &serde_json::Error) -> Error {
    let (code, msg) = if input.iter().all(u8::is_ascii_whitespace) {
        (
            Code::Decode,
            "standard input is empty; the network configuration is expected there",
        )
    } else if error.is_data() {
        (
            Code::InvalidConfig,
            "the network configuration is not a JSON object",
        )
    } else {
        (
            Code::Decode,
            "the network configuration on standard input is not JSON",
        )
    };
    Error::new(code, msg).with_details(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<NetworkConfig, Error> {
        NetworkConfig::parse(text.as_bytes())
    }

    #[test]
    fn faults_have_their_codes_and_names() {
        for (text, code, words) in [
            ("", Code::Decode, "standard input is empty"),
            (" \n", Code::Decode, "standard input is empty"),
            ("{\"a\":", Code::Decode, "not JSON"),
            ("{} x", Code::Decode, "not JSON"),
            ("\u{feff}{}", Code::Decode, "not JSON"),
            ("[]", Code::InvalidConfig, "not a JSON object"),
            ("null", Code::InvalidConfig, "not a JSON object"),
            (r#"{"cniVersion":5}"#, Code::InvalidConfig, "cniVersion"),
            (
                r#"{"cniVersion":"0.5.0"}"#,
                Code::IncompatibleVersion,
                "0.5.0",
            ),
            (r#"{"cniVersion":"1.0"}"#, Code::IncompatibleVersion, "1.0"),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.code(), code, "{text}");
            assert!(error.to_string().contains(words), "{text}: {error}");
        }
        assert_eq!(
            NetworkConfig::parse(b"{\"a\":\"\xff\"}")
                .unwrap_err()
                .code(),
            Code::Decode
        );
    }

    #[test]
    fn an_absent_or_empty_version_is_the_first() {
        for text in ["{}", r#"{"cniVersion":""}"#, r#"{"cniVersion":null}"#] {
            assert_eq!(parse(text).unwrap().version, Version::new(0, 1, 0));
        }
    }

    #[test]
    fn objects_are_read_when_asked_for() {
        let config = parse(
            r#"{"name":"net","linkerd":{"incoming-proxy-port":0},"kubernetes":{"installer":"x"},
                "prevResult":[],"cni.dev/valid-attachments":null}"#,
        )
        .unwrap();
        let error = config.linkerd().unwrap_err().to_string();
        assert!(
            error.contains("linkerd.incoming-proxy-port: 0 is not a port"),
            "{error}"
        );
        assert!(
            config
                .kubernetes()
                .unwrap_err()
                .to_string()
                .contains("kubernetes")
        );
        assert!(
            config
                .previous_result()
                .unwrap_err()
                .to_string()
                .contains("prevResult")
        );
        assert_eq!(config.valid_attachments().unwrap(), Some(vec![]));

        let config =
            parse(r#"{"kubernetes":{"kubeconfig":"/k","extra":1},"prevResult":null}"#).unwrap();
        let kubernetes = config.kubernetes().unwrap();
        assert_eq!(
            (
                kubernetes.kubeconfig.as_str(),
                kubernetes.installer.daemonset.as_str()
            ),
            ("/k", "linkerd-cni")
        );
        assert!(config.previous_result().unwrap().is_none());
        assert_eq!(config.valid_attachments().unwrap(), None);
        assert!(
            config
                .linkerd()
                .unwrap_err()
                .to_string()
                .contains("linkerd: is missing")
        );
    }
}
