//! `CNI_ARGS`: `KEY=VALUE;KEY=VALUE`.

use std::fmt;

const NAMESPACE: &str = "K8S_POD_NAMESPACE";
const NAME: &str = "K8S_POD_NAME";
const UID: &str = "K8S_POD_UID";

/// The longest RFC 1123 label.
const LONGEST_LABEL: usize = 63;
/// The longest RFC 1123 subdomain.
const LONGEST_SUBDOMAIN: usize = 253;

/// The pod that an attachment belongs to, as the runtime names it. Read from the runtime's
/// arguments, namespace and name are ones that Kubernetes gives: they go into a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodRef {
    /// `K8S_POD_NAMESPACE`.
    pub namespace: String,
    /// `K8S_POD_NAME`.
    pub name: String,
    /// `K8S_POD_UID`, which not every runtime gives.
    pub uid: Option<String>,
}

/// A pod is named in a way in which Kubernetes names none: podman up to 3 gives its container's name
/// as both (libpod/networking_linux.go, `getPodNetwork`), and that may have capitals and underscores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NoPod {
    key: &'static str,
    value: String,
}

/// Reads the pod out of `CNI_ARGS`, and what to warn of. Unknown keys are ignored, whether or not
/// `IgnoreUnknown` is set. No pod: this is not Kubernetes.
pub(super) fn parse(text: &str) -> (Option<PodRef>, Vec<String>) {
    let items = text.split(';').map(str::trim);
    let items = items.filter(|item| !item.is_empty());
    let (pairs, malformed): (Vec<_>, Vec<_>) = items
        .map(|item| item.split_once('=').ok_or(item))
        .partition(Result::is_ok);
    let pairs: Vec<(&str, &str)> = pairs.into_iter().flatten().collect();
    let malformed = malformed.into_iter().filter_map(Result::err);
    let mut warnings: Vec<String> = malformed
        .map(|item| format!("CNI_ARGS has an item that is no KEY=VALUE: {item:?}"))
        .collect();
    let pod = PodRef::read(pairs).unwrap_or_else(|none| {
        warnings.push(none.to_string());
        None
    });
    (pod, warnings)
}

// === impl PodRef ===

impl PodRef {
    /// The pod that these arguments name, if they name one. White space around keys and values does
    /// not count: a pod must not escape the mesh by it.
    ///
    /// # Errors
    /// They name something that cannot be a pod of Kubernetes.
    pub(crate) fn read<'a>(
        args: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Option<Self>, NoPod> {
        let (mut namespace, mut name, mut uid) = (None, None, None);
        for (key, value) in args {
            let wanted = match key.trim() {
                NAMESPACE => &mut namespace,
                NAME => &mut name,
                UID => &mut uid,
                _ => continue,
            };
            let value = Some(value.trim()).filter(|value| !value.is_empty());
            *wanted = wanted.or(value);
        }
        let Some((namespace, name)) = namespace.zip(name) else {
            return Ok(None);
        };
        let no_pod = |key, value: &str| NoPod {
            key,
            value: value.to_owned(),
        };
        if !is_label(namespace) {
            return Err(no_pod(NAMESPACE, namespace));
        }
        if !is_subdomain(name) {
            return Err(no_pod(NAME, name));
        }
        Ok(Some(Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: uid.map(str::to_owned),
        }))
    }

    /// Whether podman up to 3 would name a container so: the same twice, and no uid.
    pub(crate) fn may_be_a_container(&self) -> bool {
        self.namespace == self.name && self.uid.is_none()
    }
}

/// What a namespace may be called (RFC 1123, `IsDNS1123Label` of apimachinery).
fn is_label(text: &str) -> bool {
    text.len() <= LONGEST_LABEL && is_part(text)
}

/// What a pod may be called (RFC 1123, `IsDNS1123Subdomain`, which does not limit the parts).
fn is_subdomain(text: &str) -> bool {
    text.len() <= LONGEST_SUBDOMAIN && text.split('.').all(is_part)
}

fn is_part(text: &str) -> bool {
    let is_alphanumeric = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let inside = |b: u8| is_alphanumeric(b) || b == b'-';
    let ends = [text.bytes().next(), text.bytes().next_back()];
    text.bytes().all(inside) && ends.into_iter().all(|end| end.is_some_and(is_alphanumeric))
}

impl fmt::Display for PodRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

// === impl NoPod ===

impl fmt::Display for NoPod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, value } = self;
        write!(
            f,
            "CNI_ARGS: {key} is {value:?}, which nothing in Kubernetes can be called: this is no \
             pod of Kubernetes, but perhaps a container of podman"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(namespace: &str, name: &str) -> Result<Option<PodRef>, NoPod> {
        PodRef::read([(NAMESPACE, namespace), (NAME, name)])
    }

    #[test]
    fn the_pod_is_read_and_the_rest_ignored() {
        let (pod, warnings) = parse(
            "IgnoreUnknown=1;K8S_POD_NAMESPACE=ns;broken;K8S_POD_NAME=web;;K8S_POD_UID=u;X=a=b",
        );
        let pod = pod.unwrap();
        assert_eq!(
            (pod.to_string(), pod.uid),
            ("ns/web".to_owned(), Some("u".to_owned()))
        );
        assert_eq!(
            warnings,
            [r#"CNI_ARGS has an item that is no KEY=VALUE: "broken""#]
        );
    }

    #[test]
    fn white_space_makes_no_other_pod_and_hides_none() {
        let (pod, warnings) = parse("K8S_POD_NAMESPACE = ns ;\n K8S_POD_NAME=web\n");
        assert_eq!(pod.unwrap().to_string(), "ns/web");
        assert_eq!(warnings, Vec::<String>::new());
    }

    #[test]
    fn the_first_of_two_counts() {
        let (pod, _) = parse("K8S_POD_NAMESPACE=ns;K8S_POD_NAME=;K8S_POD_NAME=web;K8S_POD_NAME=x");
        assert_eq!(pod.unwrap().to_string(), "ns/web");
    }

    #[test]
    fn every_name_that_kubernetes_gives_is_a_pods() {
        let long = [&"a".repeat(63), ".", &"b".repeat(189)].concat();
        let namespace = "n".repeat(63);
        for (namespace, name) in [
            ("emojivoto", "web-5f86686c4d-ftsbw"),
            ("0", "0"),
            ("kube-system", "kube-proxy-node-1.example.org"),
            ("a--b", "a-b.c-d.9"),
            // Nothing keeps a pod from being called like its namespace.
            ("web", "web"),
            (&namespace, &long),
        ] {
            let pod = named(namespace, name).unwrap().unwrap();
            assert_eq!((&*pod.namespace, &*pod.name), (namespace, name));
        }
    }

    #[test]
    fn a_name_that_kubernetes_cannot_have_is_no_pods() {
        for name in [
            "nifty_pasteur",
            "Web",
            "web-",
            "-web",
            ".web",
            "web.",
            "a..b",
            "a.-b",
            "..",
            "../x",
            "a/b",
            "a?b",
            "a%2fb",
            "a b",
            "a\nb",
            "wéb",
            &"a".repeat(254),
        ] {
            let none = named("ns", name).unwrap_err();
            assert_eq!((none.key, &*none.value), (NAME, name));
            let none = named(name, "web").unwrap_err();
            assert_eq!((none.key, &*none.value), (NAMESPACE, name));
        }
        // These a pod may be called, but not a namespace.
        for name in ["a.b", &"a".repeat(64)] {
            assert!(named("ns", name).is_ok(), "{name}");
            assert_eq!(named(name, "web").unwrap_err().key, NAMESPACE);
        }
        let (pod, warnings) =
            parse("K8S_POD_NAMESPACE=nifty_pasteur;K8S_POD_NAME=nifty_pasteur;K8S_POD_UID=u");
        assert_eq!((pod, warnings.len()), (None, 1));
        assert!(warnings[0].contains("nifty_pasteur") && warnings[0].contains("podman"));
    }

    #[test]
    fn only_a_name_given_twice_without_a_uid_may_be_a_containers() {
        for (args, expected) in [
            ("K8S_POD_NAMESPACE=web;K8S_POD_NAME=web", true),
            ("K8S_POD_NAMESPACE=web;K8S_POD_NAME=web;K8S_POD_UID=", true),
            (
                "K8S_POD_NAMESPACE=web;K8S_POD_NAME=web;K8S_POD_UID=u",
                false,
            ),
            ("K8S_POD_NAMESPACE=web;K8S_POD_NAME=web-0", false),
        ] {
            let (pod, _) = parse(args);
            assert_eq!(pod.unwrap().may_be_a_container(), expected, "{args}");
        }
    }

    #[test]
    fn half_a_pod_is_none() {
        for text in [
            "",
            "K8S_POD_NAME=web",
            // Podman since 4.
            "IgnoreUnknown=1;K8S_POD_NAME=nifty_pasteur",
            "K8S_POD_NAMESPACE=;K8S_POD_NAME=web",
            "K8S_POD_NAMESPACE= ;K8S_POD_NAME=web",
            ";;;",
        ] {
            assert_eq!(parse(text), (None, vec![]), "{text}");
        }
    }
}
