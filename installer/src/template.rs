//! The template of our entry: placeholders filled in, and refused if bad.
//!
//! A template that the plugin could not read would fail every pod on the node,
//! so it stops the installer before the node is touched (installer.md 1).

use proxy_init_rules::{Config, ConfigError, RawConfig};

use crate::conflist::{Entry, Fault, Layout, OUR_TYPE, Tree, quoted};

/// Nothing reads it, and a configuration is readable by everyone.
const TOKEN_PLACEHOLDER: &str = "__SERVICEACCOUNT_TOKEN__";

/// What the placeholders stand for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Values {
    /// `__KUBECONFIG_FILEPATH__`: where the runtime finds the kubeconfig.
    pub kubeconfig_path: String,
    /// `__KUBECONFIG_FILENAME__`.
    pub kubeconfig_name: String,
    /// `__KUBERNETES_SERVICE_HOST__`.
    pub service_host: String,
    /// `__KUBERNETES_SERVICE_PORT__`.
    pub service_port: String,
    /// `__KUBERNETES_NODE_NAME__`.
    pub node_name: String,
    /// `__CNI_MTU__`.
    pub mtu: String,
    /// The namespace of `kubernetes.installer` (plugin.md 2).
    pub namespace: String,
    /// The DaemonSet of `kubernetes.installer` (plugin.md 2).
    pub daemonset: String,
}

/// A filled-in template.
#[derive(Clone, Debug)]
pub struct Template {
    /// What is chained.
    pub entry: Entry,
    /// The entry as the log may show it.
    pub shown: String,
    /// The template asks for the token, and does not get it.
    pub wants_token: bool,
}

/// Why a template is refused.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// Not JSON once it is filled in.
    #[error(
        "the CNI configuration template is not JSON: {0}; correct CNI_NETWORK_CONFIG (or the file in CNI_NETWORK_CONFIG_FILE)"
    )]
    NotJson(#[from] Fault),
    /// JSON, but no object.
    #[error("the CNI configuration template is not a JSON object")]
    NotAnObject,
    /// Nested beyond reason.
    #[error("the CNI configuration template is nested too deep")]
    TooDeep,
    /// `type` names another plugin.
    #[error("key `type` of the CNI configuration template has to be \"linkerd-cni\", not {0}")]
    Type(String),
    /// `linkerd` is missing.
    #[error("key `linkerd` is missing in the CNI configuration template")]
    NoLinkerd,
    /// `kubernetes` is there, but no object.
    #[error("key `kubernetes` of the CNI configuration template is not an object")]
    Kubernetes,
    /// `linkerd` does not parse (rules.md 1).
    #[error("the CNI configuration template is not valid: {0}")]
    Linkerd(#[from] ConfigError),
}

/// Fills in a template and checks it.
///
/// # Errors
///
/// What is wrong with the template, with the key named.
pub fn fill(text: &str, values: &Values) -> Result<Template, TemplateError> {
    let mut tree = Tree::parse(&substitute(text, values))?.ok_or(TemplateError::TooDeep)?;
    check(&tree)?;
    let mut kubernetes = match tree.get("kubernetes") {
        Some(object @ Tree::Object(_)) => object.clone(),
        Some(_) => return Err(TemplateError::Kubernetes),
        None => Tree::Object(Vec::new()),
    };
    kubernetes.set("installer", installer(values));
    tree.set("kubernetes", kubernetes);
    Ok(Template {
        shown: redacted(&tree).render(&Layout::compact()),
        wants_token: text.contains(TOKEN_PLACEHOLDER),
        entry: Entry::new(tree),
    })
}

fn check(tree: &Tree) -> Result<(), TemplateError> {
    if !matches!(tree, Tree::Object(_)) {
        return Err(TemplateError::NotAnObject);
    }
    let kind = tree.get("type").map(|t| t.render(&Layout::compact()));
    if kind.as_deref() != Some(quoted(OUR_TYPE).as_str()) {
        return Err(TemplateError::Type(
            kind.unwrap_or_else(|| "missing".to_owned()),
        ));
    }
    let linkerd = tree.get("linkerd").ok_or(TemplateError::NoLinkerd)?;
    // The scanner accepts what Go does; serde is stricter only on strings that
    // are no Unicode, and then the plugin would refuse them as well.
    let linkerd = serde_json::from_str(&linkerd.render(&Layout::compact()))
        .unwrap_or(serde_json::Value::Null);
    Config::try_from(RawConfig::from_value(&linkerd)?)?;
    Ok(())
}

/// Values come from the environment, and stand inside JSON strings.
fn substitute(text: &str, values: &Values) -> String {
    [
        ("__KUBECONFIG_FILEPATH__", &values.kubeconfig_path),
        ("__KUBECONFIG_FILENAME__", &values.kubeconfig_name),
        ("__KUBERNETES_SERVICE_HOST__", &values.service_host),
        ("__KUBERNETES_SERVICE_PORT__", &values.service_port),
        ("__KUBERNETES_NODE_NAME__", &values.node_name),
        ("__CNI_MTU__", &values.mtu),
    ]
    .iter()
    .fold(text.to_owned(), |text, (placeholder, value)| {
        let escaped = quoted(value);
        text.replace(placeholder, &escaped[1..escaped.len() - 1])
    })
}

fn installer(values: &Values) -> Tree {
    let mut installer = Tree::Object(Vec::new());
    installer.set("namespace", Tree::string(&values.namespace));
    installer.set("daemonset", Tree::string(&values.daemonset));
    installer
}

/// The tree without what may be a secret: somebody may have pasted one in.
fn redacted(tree: &Tree) -> Tree {
    let secret = |key: &str| {
        ["token", "password", "secret"]
            .iter()
            .any(|word| key.to_lowercase().contains(word))
    };
    match tree {
        Tree::Object(members) => Tree::Object(
            members
                .iter()
                .map(|(key, value)| match value {
                    Tree::Scalar(text) if secret(key) && !text.contains(TOKEN_PLACEHOLDER) => {
                        (key.clone(), Tree::string("…"))
                    }
                    _ => (key.clone(), redacted(value)),
                })
                .collect(),
        ),
        Tree::Array(items) => Tree::Array(items.iter().map(redacted).collect()),
        Tree::Scalar(_) => tree.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEMPLATE: &str = r#"{
      "type": "linkerd-cni", "mtu": __CNI_MTU__, "big": 12345678901234567890123, "node": "__KUBERNETES_NODE_NAME__",
      "api_token": "hunter2", "policy": {"k8s_auth_token": "__SERVICEACCOUNT_TOKEN__"},
      "linkerd": {"incoming-proxy-port": 4143, "outgoing-proxy-port": 4140}
    }"#;

    fn values() -> Values {
        Values {
            mtu: "1500".into(),
            node_name: "a\"b".into(),
            namespace: "mesh".into(),
            daemonset: "linkerd-cni".into(),
            ..Values::default()
        }
    }

    #[test]
    fn placeholders_are_filled_in_and_the_installer_is_added() {
        let template = fill(TEMPLATE, &values()).unwrap();
        assert_eq!(
            template.entry.render(&Layout::compact()),
            concat!(
                r#"{"type":"linkerd-cni","mtu":1500,"big":12345678901234567890123,"node":"a\"b","#,
                r#""api_token":"hunter2","policy":{"k8s_auth_token":"__SERVICEACCOUNT_TOKEN__"},"#,
                r#""linkerd":{"incoming-proxy-port":4143,"outgoing-proxy-port":4140},"#,
                r#""kubernetes":{"installer":{"namespace":"mesh","daemonset":"linkerd-cni"}}}"#,
            )
        );
        assert!(template.wants_token);
    }

    #[test]
    fn every_mode_of_the_plugin_is_accepted() {
        for mode in ["legacy", "nft", "plain", "native", "auto"] {
            let with_mode = format!("4140, \"iptables-mode\": \"{mode}\"}}");
            let template = TEMPLATE.replace("4140}", &with_mode);
            fill(&template, &values()).unwrap();
        }
        let template = TEMPLATE.replace("4140}", "4140, \"iptables-mode\": \"netlink\"}");
        let refused = fill(&template, &values()).unwrap_err().to_string();
        assert!(refused.contains("plain, native, auto"), "{refused}");
    }

    #[test]
    fn what_may_be_a_secret_is_not_shown() {
        let shown = fill(TEMPLATE, &values()).unwrap().shown;
        assert!(!shown.contains("hunter2"), "{shown}");
        assert!(
            shown.contains(r#""k8s_auth_token":"__SERVICEACCOUNT_TOKEN__""#),
            "{shown}"
        );
    }

    #[test]
    fn the_installer_of_a_template_is_replaced_and_its_neighbours_are_kept() {
        let text = TEMPLATE.replace(
            "\"policy\"",
            r#""kubernetes": {"installer": 7, "exclude-namespaces": ["kube-system"]}, "policy""#,
        );
        let entry = fill(&text, &values())
            .unwrap()
            .entry
            .render(&Layout::compact());
        let expected = r#""kubernetes":{"installer":{"namespace":"mesh","daemonset":"linkerd-cni"},"exclude-namespaces":["kube-system"]}"#;
        assert!(entry.contains(expected), "{entry}");
        let text = TEMPLATE.replace("\"policy\"", "\"kubernetes\": [], \"policy\"");
        assert!(matches!(
            fill(&text, &values()),
            Err(TemplateError::Kubernetes)
        ));
    }

    #[test]
    fn a_template_beyond_reason_is_refused() {
        let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
        let text = TEMPLATE.replace("\"hunter2\"", &deep);
        assert!(matches!(
            fill(&text, &values()),
            Err(TemplateError::TooDeep)
        ));
    }
}
