//! JSON patches (RFC 6902), as far as they are sent here.

use serde_json::Value;

/// Applies a patch as a whole; `None` if one of its steps does not hold.
///
/// # Panics
///
/// If it is no patch, or has a step that is none of `test`, `remove` and `add`.
pub(super) fn apply(object: &Value, patch: &str) -> Option<Value> {
    let steps: Vec<Value> = serde_json::from_str(patch).expect("a patch is a list");
    let mut patched = object.clone();
    for step in &steps {
        let path = step["path"].as_str().expect("a step has a path");
        match step["op"].as_str() {
            Some("test") => {
                let holds = patched.pointer(path) == Some(&step["value"]);
                holds.then_some(())?;
            }
            Some("remove") => remove(&mut patched, path)?,
            Some("add") => add(&mut patched, path, &step["value"])?,
            _ => panic!("not known here: {step}"),
        }
    }
    Some(patched)
}

fn remove(object: &mut Value, path: &str) -> Option<()> {
    let (parent, last) = path.rsplit_once('/')?;
    match object.pointer_mut(parent)? {
        Value::Array(items) => {
            let at: usize = last.parse().ok()?;
            (at < items.len()).then(|| items.remove(at)).map(drop)
        }
        Value::Object(members) => members.remove(last).map(drop),
        _ => None,
    }
}

fn add(object: &mut Value, path: &str, value: &Value) -> Option<()> {
    let (parent, last) = path.rsplit_once('/')?;
    match object.pointer_mut(parent)? {
        Value::Array(items) if last == "-" => items.push(value.clone()),
        Value::Object(members) => _ = members.insert(last.to_owned(), value.clone()),
        _ => return None,
    }
    Some(())
}
