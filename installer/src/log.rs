//! The log: one line an event, in the form that people grep for
//! (installer.md 6).

use std::fmt;

use time::{OffsetDateTime, macros::format_description};
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    filter::LevelFilter,
    fmt::{FmtContext, FormatEvent, FormatFields, format::Writer},
    registry::LookupSpan,
};

use crate::settings::LogFormat;

mod said;

pub use said::{Budget, Said};

/// Starts logging to stderr.
pub fn start(level: Level, format: LogFormat) {
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::from_level(level))
        .with_writer(std::io::stderr)
        // A log that nobody takes any more must not end the process.
        .log_internal_errors(false)
        .event_format(Lines(format));
    // Already started: a test that runs several installers in one process.
    let _ = tracing::subscriber::set_global_default(subscriber.finish());
}

/// Writes `[2023-05-17 08:50:46] INFO message key=value`, or the same as JSON.
struct Lines(LogFormat);

#[derive(Default)]
struct Fields {
    message: String,
    others: Vec<(&'static str, String)>,
}

// === impl Lines ===

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut out: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let level = event.metadata().level();
        match self.0 {
            LogFormat::Plain => plain(&mut out, level, &fields),
            LogFormat::Json => json(&mut out, level, fields),
        }
    }
}

fn plain(out: &mut Writer<'_>, level: &Level, fields: &Fields) -> fmt::Result {
    write!(out, "[{}] {level} {}", now(), shown(&fields.message))?;
    for (key, value) in &fields.others {
        write!(out, " {key}={}", shown(value))?;
    }
    out.write_char('\n')
}

fn json(out: &mut Writer<'_>, level: &Level, fields: Fields) -> fmt::Result {
    let mut line = serde_json::Map::new();
    line.insert("timestamp".to_owned(), now().into());
    line.insert("level".to_owned(), level.as_str().into());
    line.insert("message".to_owned(), fields.message.into());
    line.extend(
        fields
            .others
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value.into())),
    );
    writeln!(out, "{}", serde_json::Value::Object(line))
}

fn now() -> String {
    let format = format_description!("[year]-[month]-[day] [hour]:[minute]:[second]");
    OffsetDateTime::now_utc()
        .format(&format)
        .unwrap_or_default()
}

/// A text on one line: a file's name may hold a line end, and must not be able
/// to write a log line of its own.
pub(crate) fn shown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_control() {
            true => out.extend(c.escape_default()),
            false => out.push(c),
        }
    }
    out
}

// === impl Fields ===

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        match field.name() {
            "message" => self.message = text,
            name => self.others.push((name, text)),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => value.clone_into(&mut self.message),
            name => self.others.push((name, value.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_write_a_line_of_its_own() {
        assert_eq!(
            shown("a\n[2023-05-17 08:50:46] INFO b\u{1b}[31m"),
            "a\\n[2023-05-17 08:50:46] INFO b\\u{1b}[31m"
        );
    }
}
