//! One reader per type of value. `null` and an empty text count as absent, as the Go plugin's
//! configurations have it.

use ipnet::IpNet;
use serde_json::Value;

use super::{ConfigError, Id, IptablesMode};
use crate::{
    interface::Interface,
    port::{Excerpt, Port, PortRange, unique},
    subnet,
};

type Read<T> = Result<T, ConfigError>;

const MODES: &str = "one of legacy, nft, plain, native, auto";

pub(super) fn port(key: &'static str, value: &Value) -> Read<Port> {
    match value {
        Value::Null => Err(error(
            key,
            "is missing; the proxy's port (1..=65535) is required",
        )),
        Value::Number(_) => value
            .as_u64()
            .and_then(|number| u16::try_from(number).ok())
            .and_then(Port::new)
            .ok_or_else(|| error(key, &format!("{value} is not a port (1..=65535)"))),
        other => Err(expected(key, other, "a number (1..=65535)")),
    }
}

pub(super) fn id(key: &'static str, value: &Value) -> Read<Option<Id>> {
    match value {
        Value::Null => Ok(None),
        Value::Number(_) => value
            .as_i64()
            .and_then(|number| Id::from_number(number).ok())
            .ok_or_else(|| error(key, &format!("{value} is not an id (1..=4294967294)"))),
        other => Err(expected(key, other, "a number")),
    }
}

pub(super) fn flag(key: &'static str, value: &Value) -> Read<bool> {
    match value {
        Value::Null => Ok(false),
        Value::Bool(flag) => Ok(*flag),
        other => Err(expected(key, other, "true or false")),
    }
}

pub(super) fn mode(key: &'static str, value: &Value) -> Read<IptablesMode> {
    match value {
        Value::Null => Ok(IptablesMode::default()),
        Value::String(text) => match text.as_str() {
            "" | "legacy" => Ok(IptablesMode::Legacy),
            "nft" => Ok(IptablesMode::Nft),
            "plain" => Ok(IptablesMode::Plain),
            "native" => Ok(IptablesMode::Native),
            "auto" => Ok(IptablesMode::Auto),
            _ => Err(error(
                key,
                &format!("{} is not {MODES}", Excerpt::new(text)),
            )),
        },
        other => Err(expected(key, other, MODES)),
    }
}

pub(super) fn ports(key: &'static str, value: &Value) -> Read<Vec<Port>> {
    let single = |range: PortRange| {
        Port::new(range.low())
            .filter(|_| range.slots() == 1)
            .ok_or_else(|| error(key, &format!("{range} is not a port (1..=65535)")))
    };
    ranges(key, value)?.into_iter().map(single).collect()
}

pub(super) fn ranges(key: &'static str, value: &Value) -> Read<Vec<PortRange>> {
    items(key, value, "a port or a range of ports", |text| {
        PortRange::parse_list(text).map_err(|e| e.to_string())
    })
}

pub(super) fn subnets(key: &'static str, value: &Value) -> Read<Vec<IpNet>> {
    items(key, value, "a subnet", |text| {
        subnet::parse_list(text).map_err(|e| e.to_string())
    })
}

pub(super) fn interfaces(key: &'static str, value: &Value) -> Read<Vec<Interface>> {
    items(key, value, "the name of an interface", |text| {
        Interface::parse_list(text).map_err(|e| e.to_string())
    })
}

/// A list of texts (numbers accepted), each of which may hold several items.
fn items<T: Clone + Eq + std::hash::Hash>(
    key: &'static str,
    value: &Value,
    one: &str,
    parse: impl Fn(&str) -> Result<Vec<T>, String>,
) -> Read<Vec<T>> {
    let list = match value {
        Value::Null => return Ok(Vec::new()),
        Value::Array(list) => list,
        other => return Err(expected(key, other, "a list")),
    };
    let mut all = Vec::new();
    for (index, item) in list.iter().enumerate() {
        let at = |reason: String| error(key, &format!("item {}: {reason}", index + 1));
        let text = match item {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            other => return Err(at(format!("is {}, not {one}", kind(other)))),
        };
        all.extend(parse(&text).map_err(at)?);
    }
    Ok(unique(all))
}

/// What a JSON value is, with its article.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn expected(key: &'static str, found: &Value, wanted: &str) -> ConfigError {
    error(key, &format!("is {}, not {wanted}", kind(found)))
}

fn error(key: &'static str, reason: &str) -> ConfigError {
    ConfigError {
        key,
        reason: reason.to_owned(),
    }
}
