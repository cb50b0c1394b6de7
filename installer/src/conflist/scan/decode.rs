//! The text of a string.

/// Resolves the escapes of a string that was passed over without fault.
pub(super) fn decode(inside: &[u8]) -> String {
    let units: Vec<u16> = String::from_utf8_lossy(inside).encode_utf16().collect();
    String::from_utf16_lossy(&resolve(&units))
}

fn resolve(units: &[u16]) -> Vec<u16> {
    let mut out = Vec::with_capacity(units.len());
    let mut rest = units.iter().copied();
    while let Some(unit) = rest.next() {
        if unit != u16::from(b'\\') {
            out.push(unit);
            continue;
        }
        let letter = rest
            .next()
            .and_then(|u| u8::try_from(u).ok())
            .unwrap_or_default();
        out.push(match letter {
            b'b' => 8,
            b'f' => 12,
            b'n' => 10,
            b'r' => 13,
            b't' => 9,
            b'u' => rest
                .by_ref()
                .take(4)
                .fold(0, |n, digit| n << 4 | hex_value(digit)),
            other => u16::from(other),
        });
    }
    out
}

fn hex_value(digit: u16) -> u16 {
    char::from_u32(u32::from(digit))
        .and_then(|c| c.to_digit(16))
        .unwrap_or_default() as u16
}
