//! The attachment that the runtime's environment describes.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use super::{Code, Command, Error, PodRef, args};

/// Where environment variables come from: the process, or a table in tests.
pub trait Environment {
    /// The value of a variable.
    fn var(&self, name: &str) -> Option<OsString>;
}

/// One interface of one container.
#[derive(Debug, Clone)]
pub struct Attachment {
    /// `CNI_CONTAINERID`.
    pub container_id: String,
    /// `CNI_IFNAME`.
    pub ifname: String,
    /// `CNI_NETNS`, if the runtime gave one.
    pub netns: Option<PathBuf>,
    /// The pod of `CNI_ARGS`; none for a container that cannot be one.
    pub pod: Option<PodRef>,
    /// What to warn of.
    pub warnings: Vec<String>,
}

/// Reads `CNI_COMMAND`.
///
/// # Errors
/// It is not set, or none of the six verbs.
pub fn command(environment: &impl Environment) -> Result<Command, Error> {
    let text = text(environment, "CNI_COMMAND")?;
    text.parse().map_err(|_| {
        let verbs = "ADD, DEL, CHECK, STATUS, GC or VERSION";
        Error::new(
            Code::Environment,
            format!("CNI_COMMAND is {text:?}; it must be {verbs}"),
        )
    })
}

impl Attachment {
    /// Reads `CNI_CONTAINERID`, `CNI_IFNAME`, `CNI_NETNS` and `CNI_ARGS`.
    ///
    /// # Errors
    /// A variable is missing or cannot be used; the error names it. Both names go into a file
    /// name, so they are held to what the specification allows.
    pub fn read(environment: &impl Environment) -> Result<Self, Error> {
        let container_id = text(environment, "CNI_CONTAINERID")?;
        if !is_container_id(&container_id) {
            return Err(invalid(
                "CNI_CONTAINERID",
                &container_id,
                "letters, digits, '.', '_', '-'",
            ));
        }
        let ifname = text(environment, "CNI_IFNAME")?;
        if !is_ifname(&ifname) {
            return Err(invalid(
                "CNI_IFNAME",
                &ifname,
                "1 to 15 characters without '/', ':' or space",
            ));
        }
        let netns = environment
            .var("CNI_NETNS")
            .filter(|value| !value.is_empty());
        let args = environment.var("CNI_ARGS").unwrap_or_default();
        let args = args.to_string_lossy();
        let (pod, warnings) = args::parse(&args);
        Ok(Self {
            container_id,
            ifname,
            netns: netns.map(PathBuf::from),
            pod,
            warnings,
        })
    }

    /// The path of the container's network namespace.
    ///
    /// # Errors
    /// `CNI_NETNS` is not set.
    pub fn netns(&self) -> Result<&Path, Error> {
        self.netns.as_deref().ok_or_else(|| missing("CNI_NETNS"))
    }
}

fn text(environment: &impl Environment, name: &str) -> Result<String, Error> {
    let value = environment.var(name).filter(|value| !value.is_empty());
    let value = value.ok_or_else(|| missing(name))?;
    value
        .into_string()
        .map_err(|value| invalid(name, &value.to_string_lossy(), "UTF-8"))
}

fn missing(name: &str) -> Error {
    let hint = "the container runtime sets it; see the CNI specification, section 2";
    Error::new(
        Code::Environment,
        format!("environment variable {name} is not set; {hint}"),
    )
}

fn invalid(name: &str, value: &str, allowed: &str) -> Error {
    Error::new(
        Code::Environment,
        format!("environment variable {name} is {value:?}; allowed: {allowed}"),
    )
}

fn is_container_id(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
}

/// The kernel's rule (`dev_valid_name`).
fn is_ifname(text: &str) -> bool {
    let forbidden = |c: char| c == '/' || c == ':' || c.is_whitespace() || c.is_control();
    (1..=15).contains(&text.len()) && text != "." && text != ".." && !text.contains(forbidden)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    struct Table(HashMap<&'static str, &'static str>);

    impl Environment for Table {
        fn var(&self, name: &str) -> Option<OsString> {
            self.0.get(name).map(OsString::from)
        }
    }

    fn with(name: &'static str, value: &'static str) -> Table {
        let mut table = HashMap::from([
            ("CNI_COMMAND", "ADD"),
            ("CNI_CONTAINERID", "0A1b"),
            ("CNI_IFNAME", "eth0"),
            ("CNI_NETNS", "/run/netns/x"),
        ]);
        table.insert(name, value);
        Table(table)
    }

    #[test]
    fn a_complete_environment_is_read() {
        let environment = with("CNI_ARGS", "K8S_POD_NAMESPACE=ns;K8S_POD_NAME=web;odd");
        let attachment = Attachment::read(&environment).unwrap();
        assert_eq!(attachment.container_id, "0A1b");
        assert_eq!(attachment.netns().unwrap(), Path::new("/run/netns/x"));
        assert_eq!(attachment.pod.unwrap().to_string(), "ns/web");
        assert_eq!(attachment.warnings.len(), 1);
        assert_eq!(command(&environment).unwrap(), Command::Add);
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        for (name, value) in [
            ("CNI_CONTAINERID", ""),
            ("CNI_CONTAINERID", "../../etc/passwd"),
            ("CNI_CONTAINERID", "-a"),
            ("CNI_IFNAME", ""),
            ("CNI_IFNAME", ".."),
            ("CNI_IFNAME", "a/b"),
            ("CNI_IFNAME", "sixteencharacter"),
        ] {
            let error = Attachment::read(&with(name, value)).unwrap_err();
            assert_eq!(error.code(), Code::Environment);
            assert!(error.to_string().contains(name), "{error}");
        }
        let attachment = Attachment::read(&with("CNI_NETNS", "")).unwrap();
        assert!(
            attachment
                .netns()
                .unwrap_err()
                .to_string()
                .contains("CNI_NETNS")
        );
        for verb in ["", "UPDATE", "add"] {
            let error = command(&with("CNI_COMMAND", verb)).unwrap_err();
            assert!(error.to_string().contains("CNI_COMMAND"), "{error}");
        }
    }
}
