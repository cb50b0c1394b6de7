//! Where the proxy listens: its container's environment is the truth, then the annotations, then
//! the configuration.
//!
//! The injector writes the annotations' ports into the environment of the proxy, which reads
//! nothing else (`app/src/env.rs` of linkerd2-proxy).

use proxy_init_rules::{
    Annotated, AnnotationError, Config, Listener, Port, ProxyPorts, port::Excerpt,
};

use super::proxy;
use crate::kubernetes::{EnvVar, Pod};

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
    let place = variables(listener).iter().find_map(last)?;
    Some(port(&env[place], &env[..place]))
}

fn port(variable: &EnvVar, before: &[EnvVar]) -> Result<Port, String> {
    let EnvVar { name, value } = variable;
    let Some(value) = value else {
        return Err(format!("{name} of the proxy is not given as a value"));
    };
    let value = &expand(value, before);
    let ports = value.split(',').map(|address| {
        let (_, port) = address.trim().rsplit_once(':')?;
        let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| port.parse().ok())?.and_then(Port::new)
    });
    let ports: Option<Vec<Port>> = ports.collect();
    match ports.as_deref() {
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

/// The value with each `$(NAME)` of a variable that stands before it filled in, as kubelet does it.
fn expand(value: &str, before: &[EnvVar]) -> String {
    let mut expanded = value.to_owned();
    for EnvVar { name, value } in before.iter().rev() {
        if let Some(value) = value {
            expanded = expanded.replace(&format!("$({name})"), value);
        }
    }
    expanded
}
