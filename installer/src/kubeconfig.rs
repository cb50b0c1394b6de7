//! The kubeconfig that the plugin reads on the host (installer.md 4).

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};

use crate::{conflist::quoted, settings::ApiServer};

/// How long before its end a token is worth a warning. Kubelet renews at 80 %
/// of the lifetime, so a token does not get there by itself.
const SOON: u64 = 5 * 60;

/// Why there can be no kubeconfig yet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    /// `KUBERNETES_SERVICE_HOST` or `_PORT`.
    #[error("{0} is not set: the container needs it from Kubernetes, or set by hand")]
    Variable(&'static str),
    /// A file of the service account.
    #[error("{what} cannot be read from {path}: {why}; is the service account mounted?")]
    File {
        /// Token or CA.
        what: &'static str,
        /// Where it was looked for.
        path: String,
        /// The system's word.
        why: String,
    },
}

/// How long a token is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// For a while, or it does not say.
    Good,
    /// Ends in less than five minutes.
    EndsSoon {
        /// Seconds left.
        seconds: u64,
    },
    /// Over.
    Expired {
        /// Since when, in seconds since 1970.
        end: u64,
    },
    /// Not good yet.
    NotYetValid {
        /// Until when, in seconds since 1970.
        start: u64,
    },
}

/// The kubeconfig's text; the CA is not needed if it is not verified.
///
/// # Errors
///
/// The variable that is not set.
pub fn render(server: &ApiServer, token: &str, ca: &[u8]) -> Result<String, Missing> {
    let trust = if server.skip_verify {
        "insecure-skip-tls-verify: true".to_owned()
    } else {
        format!("certificate-authority-data: {}", STANDARD.encode(ca))
    };
    Ok(format!(
        "# Kubeconfig file for linkerd CNI plugin.\n\
         apiVersion: v1\n\
         kind: Config\n\
         clusters:\n\
         - name: local\n  cluster:\n    server: {}\n    {trust}\n\
         users:\n\
         - name: linkerd-cni\n  user:\n    token: {}\n\
         contexts:\n\
         - name: linkerd-cni-context\n  context:\n    cluster: local\n    user: linkerd-cni\n\
         current-context: linkerd-cni-context\n",
        plain(&url(server)?),
        plain(token),
    ))
}

/// The API server's URL. Only IPv6 literals are bracketed: earlier versions
/// bracketed everything, which some HTTP clients refuse.
///
/// # Errors
///
/// The variable that is not set.
pub fn url(server: &ApiServer) -> Result<String, Missing> {
    let ApiServer {
        protocol,
        host,
        port,
        ..
    } = server;
    if host.is_empty() {
        return Err(Missing::Variable("KUBERNETES_SERVICE_HOST"));
    }
    if port.is_empty() {
        return Err(Missing::Variable("KUBERNETES_SERVICE_PORT"));
    }
    let bare = host
        .strip_prefix('[')
        .and_then(|h| h.strip_suffix(']'))
        .unwrap_or(host);
    Ok(if bare.contains(':') {
        format!("{protocol}://[{bare}]:{port}")
    } else {
        format!("{protocol}://{bare}:{port}")
    })
}

/// What `exp` and `nbf` of a JSON web token say at a time (seconds since 1970).
#[must_use]
pub fn freshness(token: &str, now: u64) -> Freshness {
    match (expiry(token), claim(token, "nbf")) {
        (Some(end), _) if end <= now => Freshness::Expired { end },
        (_, Some(start)) if start > now => Freshness::NotYetValid { start },
        (Some(end), _) if end - now < SOON => Freshness::EndsSoon { seconds: end - now },
        _ => Freshness::Good,
    }
}

/// The `exp` of a JSON web token.
pub(crate) fn expiry(token: &str) -> Option<u64> {
    claim(token, "exp")
}

/// A time in a JSON web token, in seconds since 1970.
fn claim(token: &str, name: &str) -> Option<u64> {
    let payload = URL_SAFE_NO_PAD
        .decode(token.split('.').nth(1)?.trim_end_matches('='))
        .ok()?;
    let claims: serde_json::Value = serde_json::from_slice(&payload).ok()?;
    let time = claims.get(name)?;
    time.as_u64()
        .or_else(|| time.as_f64().map(|seconds| seconds as u64))
}

/// A YAML scalar: as it stands where that is safe, else as a JSON string, which
/// YAML reads too. A file is not under our control, so its text is not either.
fn plain(text: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || "-._~+/=:[]".contains(c);
    let starts = text.starts_with(|c: char| c.is_ascii_alphanumeric());
    // `true`, `null` or 123 as a token would not be read as text.
    let word = text.len() > 5 && !text.ends_with(':') && text.parse::<f64>().is_err();
    if starts && word && text.chars().all(safe) {
        text.to_owned()
    } else {
        quoted(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(host: &str) -> ApiServer {
        ApiServer {
            protocol: "https".into(),
            host: host.into(),
            port: "443".into(),
            ca_file: "/ca".into(),
            skip_verify: false,
        }
    }

    #[test]
    fn only_ipv6_literals_are_bracketed() {
        for (host, expected) in [
            ("10.96.0.1", "https://10.96.0.1:443"),
            ("api.example.org", "https://api.example.org:443"),
            ("fd00::1", "https://[fd00::1]:443"),
            ("[fd00::1]", "https://[fd00::1]:443"),
            ("[10.96.0.1]", "https://10.96.0.1:443"),
        ] {
            assert_eq!(url(&server(host)).unwrap(), expected);
        }
        assert_eq!(
            url(&server("")),
            Err(Missing::Variable("KUBERNETES_SERVICE_HOST"))
        );
    }

    #[test]
    fn a_token_cannot_add_lines() {
        let text = render(&server("10.96.0.1"), "a\n    exec: {command: sh}", b"CA").unwrap();
        assert!(
            text.contains("    token: \"a\\n    exec: {command: sh}\"\n"),
            "{text}"
        );
        assert!(
            text.contains("    certificate-authority-data: Q0E=\n"),
            "{text}"
        );
        assert!(
            render(&server("h"), "true", b"")
                .unwrap()
                .contains("token: \"true\"")
        );
        assert!(
            render(&server("h"), "eyJh.eyJl-_.x", b"")
                .unwrap()
                .contains("token: eyJh.eyJl-_.x\n")
        );
    }

    #[test]
    fn the_end_of_a_token_is_seen_coming() {
        let token = |exp: &str| {
            format!(
                "e30.{}.sig",
                URL_SAFE_NO_PAD.encode(format!("{{\"exp\":{exp}}}"))
            )
        };
        assert_eq!(
            freshness(&token("1000"), 1000),
            Freshness::Expired { end: 1000 }
        );
        assert_eq!(
            freshness(&token("9000,\"nbf\":1001"), 1000),
            Freshness::NotYetValid { start: 1001 }
        );
        assert_eq!(
            freshness(&token("9000,\"nbf\":1000"), 1000),
            Freshness::Good
        );
        assert_eq!(
            freshness(&token("1000"), 800),
            Freshness::EndsSoon { seconds: 200 }
        );
        assert_eq!(freshness(&token("1000"), 700), Freshness::Good);
        assert_eq!(freshness(&token("\"never\""), 700), Freshness::Good);
        assert_eq!(freshness("abc", 700), Freshness::Good);
    }
}
