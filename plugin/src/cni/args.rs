//! `CNI_ARGS`: `KEY=VALUE;KEY=VALUE`.

use super::{Code, Error};

/// The pod that an attachment belongs to, as the runtime names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodRef {
    /// `K8S_POD_NAMESPACE`.
    pub namespace: String,
    /// `K8S_POD_NAME`.
    pub name: String,
    /// `K8S_POD_UID`, which not every runtime gives.
    pub uid: Option<String>,
}

/// Reads the pod out of `CNI_ARGS`, and the items that are no `KEY=VALUE`. Unknown keys are
/// ignored, whether or not `IgnoreUnknown` is set. No pod: this is not Kubernetes.
pub(super) fn parse(text: &str) -> (Option<PodRef>, Vec<&str>) {
    let items = text.split(';').filter(|item| !item.trim().is_empty());
    let (pairs, malformed): (Vec<_>, Vec<_>) = items
        .map(|item| item.split_once('=').ok_or(item))
        .partition(Result::is_ok);
    let value = |key: &str| {
        let found = pairs.iter().flatten().find(|(name, _)| *name == key);
        found
            .map(|(_, value)| (*value).to_owned())
            .filter(|value| !value.is_empty())
    };
    let pod = value("K8S_POD_NAMESPACE")
        .zip(value("K8S_POD_NAME"))
        .map(|(namespace, name)| PodRef {
            namespace,
            name,
            uid: value("K8S_POD_UID"),
        });
    (pod, malformed.into_iter().filter_map(Result::err).collect())
}

impl PodRef {
    /// Makes sure that namespace and name are ones that Kubernetes gives: they go into a URL.
    ///
    /// # Errors
    /// One of them is not; the error names it.
    pub fn validate(&self) -> Result<(), Error> {
        let is_name = |text: &str| {
            let allowed =
                |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b);
            text.len() <= 253 && text.bytes().all(allowed) && !text.starts_with('.')
        };
        for (key, value) in [
            ("K8S_POD_NAMESPACE", &self.namespace),
            ("K8S_POD_NAME", &self.name),
        ] {
            if !is_name(value) {
                let msg = format!(
                    "CNI_ARGS: {key} is {value:?}, which no object of Kubernetes is called"
                );
                return Err(Error::new(Code::Environment, msg));
            }
        }
        Ok(())
    }
}

impl std::fmt::Display for PodRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pod_is_read_and_the_rest_ignored() {
        let (pod, malformed) = parse(
            "IgnoreUnknown=1;K8S_POD_NAMESPACE=ns;broken;K8S_POD_NAME=web;;K8S_POD_UID=u;X=a=b",
        );
        let pod = pod.unwrap();
        assert_eq!(
            (pod.to_string(), pod.uid),
            ("ns/web".to_owned(), Some("u".to_owned()))
        );
        assert_eq!(malformed, ["broken"]);
    }

    #[test]
    fn a_name_that_would_change_the_url_is_refused() {
        let pod = |namespace: &str, name: &str| PodRef {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: None,
        };
        assert!(pod("ns", "web-0.a").validate().is_ok());
        for (namespace, name) in [("ns", "../x"), ("ns", "a?b"), ("N", "web"), ("ns", "a b")] {
            assert!(
                pod(namespace, name).validate().is_err(),
                "{namespace}/{name}"
            );
        }
    }

    #[test]
    fn half_a_pod_is_none() {
        for text in [
            "",
            "K8S_POD_NAME=web",
            "K8S_POD_NAMESPACE=;K8S_POD_NAME=web",
            ";;;",
        ] {
            assert_eq!(parse(text), (None, vec![]), "{text}");
        }
    }
}
