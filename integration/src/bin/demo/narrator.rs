//! Tells what happens, in colour on a terminal only.

use std::env;
use std::io::{self, IsTerminal, Write};
use std::time::Instant;

use anyhow::{Result, bail};

/// Writes the story to stdout.
pub(crate) struct Narrator {
    colours: bool,
    chapter: u32,
    started: Instant,
}

const BOLD: &str = "1";
const DIM: &str = "2";
const RED: &str = "31";
const GREEN: &str = "32";

// === impl Narrator ===

impl Narrator {
    pub(crate) fn new() -> Self {
        let refused = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self {
            colours: io::stdout().is_terminal() && !refused,
            chapter: 0,
            started: Instant::now(),
        }
    }

    /// Begins a numbered chapter.
    pub(crate) fn chapter(&mut self, title: &str) {
        self.chapter += 1;
        let title = format!("{}. {title}", self.chapter);
        self.line(&format!("\n{}", self.painted(BOLD, &title)));
    }

    /// Says something.
    pub(crate) fn say(&self, text: &str) {
        self.line(&format!("   {text}"));
    }

    /// Shows what a file or a program said.
    pub(crate) fn show(&self, text: &str) {
        for line in text.trim_end().lines() {
            self.line(&self.painted(DIM, &format!("   | {line}")));
        }
    }

    /// Goes on only if this holds.
    pub(crate) fn verify(&self, what: &str, holds: bool) -> Result<()> {
        if !holds {
            bail!("does not hold: {what}");
        }
        self.line(&format!("   {} {what}", self.painted(GREEN, "ok")));
        Ok(())
    }

    /// The end, good or bad.
    pub(crate) fn end(&self, outcome: &Result<()>) {
        let seconds = self.started.elapsed().as_secs_f32();
        let last = match outcome {
            Ok(()) => self.painted(GREEN, "Every step was verified."),
            Err(error) => self.painted(RED, &format!("FAILED: {error:#}")),
        };
        self.line(&format!("\n{last} ({seconds:.1} s)"));
    }

    fn painted(&self, colour: &str, text: &str) -> String {
        if self.colours {
            format!("\u{1b}[{colour}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }

    fn line(&self, text: &str) {
        // A reader that has gone away does not stop the demo from verifying.
        let _ = writeln!(io::stdout(), "{text}");
    }
}
