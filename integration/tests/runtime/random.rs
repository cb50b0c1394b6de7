//! A search for a node state that must not be.
//!
//! Runtime, installer, API server and the other plugin do what a seed says, often
//! two things at once, and after each step two things must hold:
//!
//! - No pod runs that is meshed and without its rules. A pod whose list of plugins
//!   was without ours does not count, as long as that list was for somebody else to
//!   write: before the installer's first pass, after the other plugin has written
//!   its list anew, and after an uninstall. Nothing that happens to the installer
//!   or the API server is such an excuse.
//! - The installer's own pod and a pod of an excluded namespace start, and any pod
//!   ends, as soon as the runtime has a network at all.
//!
//! What happens from outside is a function of the seed; how far each got before the
//! next is not. `LINKERD_CNI_RANDOM_SEED` does the same again,
//! `LINKERD_CNI_RANDOM_SECONDS` goes on for as long (60, or 300 with
//! `LINKERD_CNI_LONG_TESTS`).

#![expect(
    clippy::print_stdout,
    reason = "a test that fails shows its steps, one that does not keeps them to itself"
)]

use std::env;
use std::io::Write;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use self::world::World;

mod acts;
mod judge;
mod step;
mod world;

#[test]
fn no_step_leads_to_a_pod_in_the_clear_or_a_node_locked_out() {
    let seed = number("LINKERD_CNI_RANDOM_SEED").unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        now.as_secs()
    });
    let usual = if env::var_os("LINKERD_CNI_LONG_TESTS").is_some() {
        300
    } else {
        60
    };
    let seconds = number("LINKERD_CNI_RANDOM_SECONDS").unwrap_or(usual);
    announce(&format!(
        "randomised: LINKERD_CNI_RANDOM_SEED={seed}, {seconds} s"
    ));
    let mut world = World::new(seed);
    let until = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < until {
        world.step();
    }
    announce(&world.end());
}

fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    Some(text.parse().expect("a number"))
}

/// Says something that the test's own success does not hide.
fn announce(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
