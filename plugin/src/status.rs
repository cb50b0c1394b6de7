//! STATUS: could this node serve an ADD now? Only faults that are local and certain count, since
//! a failing STATUS takes the whole node out of service.
//!
//! Every fault is a 50. The 51 of the specification is for faults that running pods suffer from
//! too: theirs is the kernel's work, and they need nothing of this node's that is looked at here.

use crate::cni::{Code, Error, NetworkConfig};

mod access;
mod files;
mod programs;

/// What was looked at, and what it came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    /// What was looked at.
    pub about: &'static str,
    /// How it is.
    pub verdict: Verdict,
    /// What was found.
    pub text: String,
    /// What to do about it.
    pub mend: Option<String>,
}

/// How something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Fine.
    Fine,
    /// It may pass by itself, or do no harm.
    Warning,
    /// An ADD of a meshed pod cannot succeed, or nobody would know of it afterwards.
    Fault,
}

/// Runs STATUS, without asking the API server and without starting a program.
///
/// # Errors
/// An ADD of a meshed pod could not succeed (50), or the configuration is invalid (7).
pub(crate) fn status(config: &NetworkConfig) -> Result<(), Error> {
    config.linkerd()?;
    config.kubernetes()?;
    let lines = lines(config);
    let of = |verdict| lines.iter().filter(move |line| line.verdict == verdict);
    for warning in of(Verdict::Warning) {
        tracing::warn!("{}", warning.sentence());
    }
    let faults: Vec<String> = of(Verdict::Fault).map(Line::sentence).collect();
    match faults.as_slice() {
        [] => Ok(()),
        [first, ..] => {
            Err(Error::new(Code::NotAvailable, first.clone()).with_details(faults.join("\n")))
        }
    }
}

/// Everything that is looked at.
#[must_use]
pub(crate) fn lines(config: &NetworkConfig) -> Vec<Line> {
    let mut lines = Vec::new();
    match config.linkerd() {
        Ok(linkerd) => {
            lines.push(Line::fine("configuration", "the linkerd object is valid"));
            lines.push(programs::line(&linkerd));
        }
        Err(error) => lines.push(invalid(&error)),
    }
    match config.kubernetes() {
        Ok(kubernetes) => lines.extend(access::lines(&kubernetes.kubeconfig)),
        Err(error) => lines.push(invalid(&error)),
    }
    lines.push(files::executable());
    lines.push(files::records());
    lines
}

fn invalid(error: &Error) -> Line {
    Line::fault(
        "configuration",
        error.to_string(),
        "mend the chart's value; the installer writes the configuration from it",
    )
}

// === impl Line ===

impl Line {
    /// It is as it should be.
    #[must_use]
    pub(crate) fn fine(about: &'static str, text: impl Into<String>) -> Self {
        Self {
            about,
            verdict: Verdict::Fine,
            text: text.into(),
            mend: None,
        }
    }

    /// It is not, and has to be mended.
    #[must_use]
    pub(crate) fn fault(
        about: &'static str,
        text: impl Into<String>,
        mend: impl Into<String>,
    ) -> Self {
        Self {
            about,
            verdict: Verdict::Fault,
            text: text.into(),
            mend: Some(mend.into()),
        }
    }

    fn warning(about: &'static str, text: impl Into<String>, mend: &str) -> Self {
        Self {
            verdict: Verdict::Warning,
            ..Self::fault(about, text, mend)
        }
    }

    fn sentence(&self) -> String {
        match &self.mend {
            Some(mend) => format!("{}; {mend}", self.text),
            None => self.text.clone(),
        }
    }
}
