//! JSON's grammar: each function passes over one thing and says where it ends.

use super::Fault;

/// Passes over whitespace.
pub(crate) fn space(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    let width = rest
        .iter()
        .take_while(|b| matches!(b, b' ' | b'\t' | b'\n' | b'\r'))
        .count();
    at + width
}

/// Passes over one value, whatever its depth.
pub(super) fn value(text: &[u8], start: usize) -> Result<usize, Fault> {
    let mut open = Vec::new();
    let mut at = start;
    loop {
        at = match opening(text, at) {
            Some((container, inside)) => {
                open.push(container);
                at = if container == b'{' {
                    key(text, inside)?
                } else {
                    inside
                };
                at = space(text, at);
                continue;
            }
            None => leaf(text, at)?,
        };
        match closing(text, at, &mut open)? {
            Next::Value(next) => at = next,
            Next::End(end) => return Ok(end),
        }
    }
}

enum Next {
    Value(usize),
    End(usize),
}

/// A container that has something in it, and where that something begins.
fn opening(text: &[u8], at: usize) -> Option<(u8, usize)> {
    let container = *text.get(at).filter(|b| matches!(b, b'{' | b'['))?;
    let inside = space(text, at + 1);
    let empty = text.get(inside) == Some(&closer(container));
    (!empty).then_some((container, inside))
}

/// After a value: closes what ends here, up to the next value or the end.
fn closing(text: &[u8], mut at: usize, open: &mut Vec<u8>) -> Result<Next, Fault> {
    while let Some(&container) = open.last() {
        at = space(text, at);
        match text.get(at) {
            Some(b',') => {
                at = space(text, at + 1);
                let at = if container == b'{' {
                    key(text, at)?
                } else {
                    at
                };
                return Ok(Next::Value(space(text, at)));
            }
            Some(&b) if b == closer(container) => {
                open.pop();
                at += 1;
            }
            _ if container == b'{' => return Err(Fault::new(text, at, "`,` or `}`")),
            _ => return Err(Fault::new(text, at, "`,` or `]`")),
        }
    }
    Ok(Next::End(at))
}

fn closer(container: u8) -> u8 {
    if container == b'{' { b'}' } else { b']' }
}

/// Passes over a key and its colon.
pub(super) fn key(text: &[u8], at: usize) -> Result<usize, Fault> {
    if text.get(at) != Some(&b'"') {
        return Err(Fault::new(text, at, "a key in quotes"));
    }
    let at = space(text, string(text, at)?);
    match text.get(at) {
        Some(b':') => Ok(at + 1),
        _ => Err(Fault::new(text, at, "`:`")),
    }
}

/// Passes over a value that holds no other.
fn leaf(text: &[u8], at: usize) -> Result<usize, Fault> {
    let rest = text.get(at..).unwrap_or_default();
    match rest.first() {
        // Only empty containers come here.
        Some(b'{' | b'[') => Ok(space(text, at + 1) + 1),
        Some(b'"') => string(text, at),
        Some(b'-' | b'0'..=b'9') => number(text, at),
        _ => ["true", "false", "null"]
            .iter()
            .find(|word| rest.starts_with(word.as_bytes()))
            .map(|word| at + word.len())
            .ok_or_else(|| Fault::new(text, at, "a value")),
    }
}

pub(super) fn string(text: &[u8], start: usize) -> Result<usize, Fault> {
    let mut at = start + 1;
    loop {
        match text.get(at) {
            Some(b'"') => return Ok(at + 1),
            Some(b'\\') => at = escape(text, at)?,
            Some(0x20..) => at += 1,
            _ => return Err(Fault::new(text, at, "the end of a string")),
        }
    }
}

fn escape(text: &[u8], at: usize) -> Result<usize, Fault> {
    let hex = |digits: &[u8]| digits.iter().all(u8::is_ascii_hexdigit);
    match text.get(at + 1) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(at + 2),
        Some(b'u') if text.get(at + 2..at + 6).is_some_and(hex) => Ok(at + 6),
        _ => Err(Fault::new(text, at, "an escape")),
    }
}

fn number(text: &[u8], start: usize) -> Result<usize, Fault> {
    let mut at = start + usize::from(text.get(start) == Some(&b'-'));
    at = match text.get(at) {
        Some(b'0') => at + 1,
        _ => digits(text, at)?,
    };
    if text.get(at) == Some(&b'.') {
        at = digits(text, at + 1)?;
    }
    if matches!(text.get(at), Some(b'e' | b'E')) {
        at += 1 + usize::from(matches!(text.get(at + 1), Some(b'+' | b'-')));
        at = digits(text, at)?;
    }
    Ok(at)
}

fn digits(text: &[u8], at: usize) -> Result<usize, Fault> {
    let rest = text.get(at..).unwrap_or_default();
    match rest.iter().take_while(|b| b.is_ascii_digit()).count() {
        0 => Err(Fault::new(text, at, "a digit")),
        width => Ok(at + width),
    }
}
