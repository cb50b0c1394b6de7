//! When a service account token ends.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::Deserialize;
use time::OffsetDateTime;

#[derive(Deserialize)]
struct Claims {
    exp: i64,
}

/// The `exp` of a JSON Web Token; `None` for a token of another kind, or one without end.
#[must_use]
pub(super) fn expiry(token: &str) -> Option<OffsetDateTime> {
    let payload = token.split('.').nth(1)?;
    let claims = URL_SAFE_NO_PAD.decode(payload.trim_end_matches('=')).ok()?;
    let Claims { exp } = serde_json::from_slice(&claims).ok()?;
    OffsetDateTime::from_unix_timestamp(exp).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_token_is_read_without_its_key() {
        let payload = URL_SAFE_NO_PAD.encode(r#"{"sub":"x","exp":1700000000}"#);
        let end = expiry(&format!("e30.{payload}.sig")).unwrap();
        assert_eq!(end.unix_timestamp(), 1_700_000_000);
        for other in ["", "abc", "a.b.c", "e30.e30.x", "..", "a.!!!.c"] {
            assert_eq!(expiry(other), None, "{other}");
        }
    }
}
