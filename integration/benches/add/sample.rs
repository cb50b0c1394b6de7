//! Durations of many runs of one case.

use std::fmt;
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;

/// Durations of one case, in milliseconds.
#[derive(Debug, Default)]
pub(crate) struct Sample(Vec<f64>);

impl Sample {
    pub(crate) fn add(&mut self, duration: Duration) {
        self.0.push(ms(duration));
    }

    /// The value that this part of all runs stays below.
    pub(crate) fn quantile(&self, of: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().saturating_sub(1) as f64;
        sorted
            .get((last * of).round() as usize)
            .copied()
            .unwrap_or(f64::NAN)
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.1} / {:.1} ms",
            self.quantile(0.5),
            self.quantile(0.99)
        )
    }
}

pub(crate) fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

/// User and system time of all child processes that `work` ran to their ends.
pub(crate) fn cpu_of_children(
    work: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<Duration> {
    let used = || -> anyhow::Result<i64> {
        let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
        Ok((usage.user_time() + usage.system_time()).num_microseconds())
    };
    let before = used()?;
    work()?;
    Ok(Duration::from_micros((used()? - before).try_into()?))
}
