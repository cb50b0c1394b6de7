//! Where the proxy listens: its container's environment is the truth, then the annotations, then
//! the configuration.
//!
//! The injector writes the annotations' ports into the environment of the proxy, which reads
//! nothing else (`app/src/env.rs` of linkerd2-proxy).

use std::net::SocketAddr;

use proxy_init_rules::{
    Annotated, AnnotationError, Config, Listener, Port, ProxyPorts, port::Excerpt,
};

use super::proxy;
use crate::kubernetes::{EnvVar, Pod};

/// The longest value that is looked at, in bytes: more than two addresses need.
const LONGEST: usize = 256;

/// What a variable says: an address to listen on, or several, the port of which counts.
type Told = Option<Result<Port, String>>;

/// The annotations that matter, as the proxy's container does not say itself.
pub(super) fn untold(pod: &Pod) -> impl Iterator<Item = &'static str> {
    let silent = |listener: &Listener| !matches!(told(pod, *listener), Some(Ok(_)));
    let listeners = Listener::ALL.into_iter().filter(silent);
    listeners.map(Listener::annotation)
}

/// Puts the ports where the proxy listens into the configuration; what to warn of.
///
/// # Errors
/// An annotation that matters does not parse.
pub(super) fn listen(
    pod: &Pod,
    objects: &[Annotated<'_>],
    config: &mut Config,
) -> Result<Vec<String>, AnnotationError> {
    let mut warnings = Vec::new();
    let mut ports = ProxyPorts::default();
    for listener in Listener::ALL {
        let annotated = listener.annotated(objects);
        let real = match told(pod, listener) {
            Some(Ok(port)) => port,
            other => {
                warnings.extend(other.and_then(Result::err));
                *ports.of_mut(listener) = annotated?;
                continue;
            }
        };
        *ports.of_mut(listener) = Some(real);
        match annotated.map(|said| said.or(listener.configured(config))) {
            Ok(None) => {}
            Ok(Some(said)) if said == real => {}
            Ok(Some(said)) => warnings.push(format!(
                "the proxy's {} port is {real} ({}), not {said} as configured; {real} is used",
                listener.as_str(),
                variables(listener).join(", "),
            )),
            Err(error) => warnings.push(format!("{error}; the proxy's own {real} is used")),
        }
    }
    *config = ports.apply(config.clone());
    Ok(warnings)
}

/// The variables that say where, the one that wins first.
fn variables(listener: Listener) -> &'static [&'static str] {
    match listener {
        Listener::Inbound => &["LINKERD2_PROXY_INBOUND_LISTEN_ADDR"],
        // The plural came with IPv6 (2.16); the singular is what earlier proxies read.
        Listener::Outbound => &[
            "LINKERD2_PROXY_OUTBOUND_LISTEN_ADDRS",
            "LINKERD2_PROXY_OUTBOUND_LISTEN_ADDR",
        ],
        Listener::Admin => &["LINKERD2_PROXY_ADMIN_LISTEN_ADDR"],
        Listener::Control => &["LINKERD2_PROXY_CONTROL_LISTEN_ADDR"],
    }
}

fn told(pod: &Pod, listener: Listener) -> Told {
    let env = &proxy(pod)?.env;
    // Of two with one name the last counts.
    let last = |name: &&str| env.iter().rposition(|variable| variable.name == **name);
    let index = variables(listener).iter().find_map(last)?;
    Some(port(&env[index], &env[..index]))
}

/// The port that a variable says; `earlier` are those that its value may refer to.
fn port(variable: &EnvVar, earlier: &[EnvVar]) -> Result<Port, String> {
    let EnvVar { name, value } = variable;
    let Some(value) = value else {
        return Err(format!("{name} of the proxy is not given as a value"));
    };
    let is_short = value.len() <= LONGEST;
    let addresses = is_short.then(|| expanded(value, earlier));
    let ports = addresses.map(|text| text.split(',').map(port_of).collect::<Option<Vec<Port>>>());
    match ports.flatten().as_deref() {
        Some([first, others @ ..]) if others.iter().all(|port| port == first) => Ok(*first),
        Some([_, ..]) => Err(format!(
            "{name} of the proxy has several ports: {}",
            Excerpt::new(value)
        )),
        _ => Err(format!(
            "{name} of the proxy is no address with a port: {}",
            Excerpt::new(value)
        )),
    }
}

/// The port of `0.0.0.0:4143`, `[::]:4143`, or of a host that is only known inside of the pod
/// (`$(_pod_ip):4143`).
fn port_of(address: &str) -> Option<Port> {
    let (host, port) = address.trim().rsplit_once(':')?;
    let is_known = format!("{host}:0").parse::<SocketAddr>().is_ok();
    let is_reference = host.starts_with("$(") && host.ends_with(')');
    let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
    let port = port.parse().ok().filter(|_| is_number);
    port.filter(|_| is_known || is_reference)
        .and_then(Port::new)
}

/// The value with `$(NAME)` replaced as kubelet does it, as far as `earlier` says what `NAME` is.
/// What is long, or refers further, is left as it is.
fn expanded(value: &str, earlier: &[EnvVar]) -> String {
    let mut parts = value.split("$(");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let known = part.split_once(')').and_then(|(name, rest)| {
            let named = earlier.iter().rev().find(|variable| variable.name == name);
            let value = named?.value.as_deref()?;
            let is_plain = value.len() <= LONGEST && !value.contains('$');
            is_plain.then_some([value, rest])
        });
        text.extend(known.unwrap_or(["$(", part]));
    }
    text
}
