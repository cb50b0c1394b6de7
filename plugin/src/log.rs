//! Logs on standard error, and in a file if one is configured:
//! `[2023-05-17 08:50:46] INFO linkerd-cni: message key=value`, in UTC.

use std::{
    fmt,
    io::{self, Write as _},
    sync::atomic::{AtomicBool, Ordering},
};

use proxy_init_rules::LogFile;
use time::macros::format_description;
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
};
use tracing_subscriber::{
    Layer as _,
    fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter, format::Writer},
    layer::SubscriberExt as _,
    registry::LookupSpan,
    util::SubscriberInitExt as _,
};

mod file;

/// Starts logging at the level of the network configuration: `debug`, `info`, `warn`, anything
/// else is `warn`. Only our own lines are logged: others could hold the token.
pub(crate) fn init(level: &str, file: Option<LogFile>) {
    let level = match level {
        "debug" => LevelFilter::DEBUG,
        "info" => LevelFilter::INFO,
        _ => LevelFilter::WARN,
    };
    let own = tracing_subscriber::filter::filter_fn(move |metadata| {
        metadata.target().starts_with("linkerd_cni") && *metadata.level() <= level
    });
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(Output::new(file))
        .event_format(Line)
        .with_filter(own);
    // A second run in the same process (a test) keeps the first one's logger.
    let _ = tracing_subscriber::registry().with(lines).try_init();
}

/// Where lines go.
struct Output {
    file: Option<LogFile>,
    complained: AtomicBool,
}

struct Line;

// === impl Output ===

impl Output {
    fn new(file: Option<LogFile>) -> Self {
        Self {
            file,
            complained: AtomicBool::new(false),
        }
    }

    fn complain(&self, file: &LogFile, error: &io::Error) {
        if !self.complained.swap(true, Ordering::Relaxed) {
            let path = file.path.display();
            let now = now().unwrap_or_default();
            // Not by way of the logger, in which this happens.
            let _ = writeln!(
                io::stderr(),
                "[{now}] WARN linkerd-cni: The log file {path} could not be written: {error}"
            );
        }
    }
}

impl<'a> MakeWriter<'a> for Output {
    type Writer = &'a Self;

    fn make_writer(&'a self) -> &'a Self {
        self
    }
}

impl io::Write for &Output {
    /// Takes a whole line, as the logger gives it.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // Standard error may be closed.
        let _ = io::stderr().write_all(line);
        if let Some(file) = &self.file
            && let Err(error) = file::append(file, line)
        {
            self.complain(file, &error);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

// === impl Line ===

impl<S: Subscriber + for<'a> LookupSpan<'a>, N: for<'a> FormatFields<'a> + 'static>
    FormatEvent<S, N> for Line
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let now = now().ok_or(fmt::Error)?;
        let mut fields = Fields::default();
        event.record(&mut fields);
        let Fields { message, rest } = fields;
        let level = event.metadata().level();
        writeln!(writer, "[{now}] {level} linkerd-cni: {message}{rest}")
    }
}

fn now() -> Option<String> {
    let format = format_description!("[year]-[month]-[day] [hour]:[minute]:[second]");
    time::OffsetDateTime::now_utc().format(&format).ok()
}

/// The message first, then the fields.
#[derive(Default)]
struct Fields {
    message: String,
    rest: String,
}

impl Fields {
    fn add(&mut self, field: &Field, value: &str) {
        let line = one_line(value);
        if field.name() == "message" {
            self.message = line;
            return;
        }
        let quoted = if line.is_empty() || line.contains([' ', '"', '=']) {
            format!("{line:?}")
        } else {
            line
        };
        self.rest.push_str(&format!(" {}={quoted}", field.name()));
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value);
    }
}

/// One event is one line, whatever somebody put into a name.
fn one_line(text: &str) -> String {
    if text.contains(char::is_control) {
        text.chars()
            .flat_map(|c| {
                if c.is_control() {
                    c.escape_default().collect()
                } else {
                    vec![c]
                }
            })
            .collect()
    } else {
        text.to_owned()
    }
}
