//! When a service account token begins and ends.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::Deserialize;
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

#[derive(Deserialize)]
struct Claims {
    nbf: Option<i64>,
    exp: Option<i64>,
}

/// From when until when a token is good; nothing for a token of another kind, or one without end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Lifetime {
    /// The `nbf` of a JSON Web Token.
    pub start: Option<OffsetDateTime>,
    /// Its `exp`.
    pub end: Option<OffsetDateTime>,
}

// === impl Lifetime ===

impl Lifetime {
    /// Why it is not good now, as half a sentence with this node's time; `None` if it is, or does
    /// not say.
    #[must_use]
    pub(crate) fn trouble(&self, now: OffsetDateTime) -> Option<String> {
        let clock = format!("by this node's clock it is {}", written(now));
        match (self.start, self.end) {
            (_, Some(end)) if end <= now => {
                Some(format!("expired at {}, and {clock}", written(end)))
            }
            (Some(start), _) if start > now => Some(format!(
                "is not valid before {}, and {clock}",
                written(start)
            )),
            _ => None,
        }
    }
}

/// What a token says of itself. Its signature is the API server's matter.
#[must_use]
pub(super) fn lifetime(token: &str) -> Lifetime {
    claims(token).map_or_else(Lifetime::default, |claims| Lifetime {
        start: claims.nbf.and_then(time),
        end: claims.exp.and_then(time),
    })
}

/// To the second, in UTC.
#[must_use]
pub(crate) fn written(time: OffsetDateTime) -> String {
    let time = time.replace_nanosecond(0).unwrap_or(time);
    time.format(&Rfc3339).unwrap_or_default()
}

fn claims(token: &str) -> Option<Claims> {
    let payload = token.split('.').nth(1)?;
    let claims = URL_SAFE_NO_PAD.decode(payload.trim_end_matches('=')).ok()?;
    serde_json::from_slice(&claims).ok()
}

fn time(seconds: i64) -> Option<OffsetDateTime> {
    OffsetDateTime::from_unix_timestamp(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(claims: &str) -> String {
        format!("e30.{}.sig", URL_SAFE_NO_PAD.encode(claims))
    }

    #[test]
    fn the_lifetime_of_a_token_is_read_without_its_key() {
        let read = lifetime(&token(r#"{"sub":"x","nbf":1600000000,"exp":1700000000}"#));
        assert_eq!(read.start, time(1_600_000_000));
        assert_eq!(read.end, time(1_700_000_000));
        for other in ["", "abc", "a.b.c", "e30.e30.x", "..", "a.!!!.c"] {
            assert_eq!(lifetime(other), Lifetime::default(), "{other}");
        }
    }

    #[test]
    fn a_token_that_is_not_good_now_is_told_with_its_date_and_the_nodes_time() {
        let read = lifetime(&token(r#"{"nbf":1600000000,"exp":1700000000}"#));
        let trouble = |seconds| read.trouble(time(seconds).unwrap());
        assert_eq!(trouble(1_600_000_000), None);
        assert_eq!(trouble(1_699_999_999), None);
        let early = "is not valid before 2020-09-13T12:26:40Z, and by this node's clock it is \
                     1970-01-01T00:00:00Z";
        assert_eq!(trouble(0).unwrap(), early);
        let late = "expired at 2023-11-14T22:13:20Z, and by this node's clock it is \
                    2023-11-14T22:13:20Z";
        assert_eq!(trouble(1_700_000_000).unwrap(), late);
        assert_eq!(Lifetime::default().trouble(time(0).unwrap()), None);
    }
}
