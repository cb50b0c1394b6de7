//! Keeps pods away from our own node while it is not chained: the startup taint goes whenever the
//! node is ready and, if that is wanted, comes when the chain is lost.
//!
//! On a thread of its own: the API server may be away for hours, and the node is chained without
//! it.

use std::{
    hash::{BuildHasher as _, RandomState},
    io,
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use tracing::{debug, info, warn};

use crate::{
    cluster::{self, Freshness, TaintError, Tainted, Wanted},
    files,
    health::Health,
    metrics::Metrics,
    settings::Settings,
};

mod wish;

use wish::Wish;

/// The file in `STATE_DIR` from which `status` knows of the taint.
pub const NOTE: &str = "taint";

/// How long is waited between two attempts.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);

/// How often is looked whether a taint that went is back: at every other resync, and within these
/// bounds. Kubelets read their own nodes every 10 s; all installers together stay below them.
const SOONEST: Duration = Duration::from_secs(10);
const LATEST: Duration = Duration::from_secs(300);

/// What is told of the taint.
#[derive(Clone, Debug)]
pub struct Told {
    /// For `/ready`.
    pub health: Arc<Health>,
    /// For `/metrics`.
    pub metrics: Arc<Metrics>,
}

/// The thread, and what it is to do.
#[derive(Debug)]
pub struct Keeper {
    wish: Arc<Wish>,
    on_loss: bool,
    /// Whether the node was ready since the installer started.
    was_ready: bool,
    thread: Option<JoinHandle<()>>,
}

struct Worker {
    settings: Settings,
    key: String,
    told: Told,
    said: String,
}

// === impl Keeper ===

impl Keeper {
    /// Starts the thread; nothing is asked of the API server before the node is ready.
    ///
    /// # Errors
    ///
    /// There can be no thread.
    pub fn start(settings: &Settings, key: String, told: Told) -> io::Result<Self> {
        let wish = Arc::new(Wish::default());
        let worker = Worker {
            settings: settings.clone(),
            key,
            told,
            said: String::new(),
        };
        // Of a container that ended in this pod.
        worker.note("");
        let shared = Arc::clone(&wish);
        let thread = thread::Builder::new().name("startup-taint".to_owned());
        let thread = thread.spawn(move || worker.work(&shared))?;
        Ok(Self {
            wish,
            on_loss: settings.taint_on_loss,
            was_ready: false,
            thread: Some(thread),
        })
    }

    /// Takes note of how the node is. The chain is lost if the node was ready, and the runtime
    /// would now load a configuration without us: pods would start outside the mesh. A token that
    /// ends or an executable that is gone make pods wait, and are no such loss.
    pub fn turned(&mut self, ready: bool, unmeshed: bool) {
        self.was_ready |= ready;
        let lost = self.was_ready && unmeshed && self.on_loss;
        self.wish.set(match (ready, lost) {
            (true, _) => Some(Wanted::Absent),
            (_, true) => Some(Wanted::Present),
            // Neither: what is there stays, and what is not there too.
            _ => None,
        });
    }

    /// Asks for nothing more.
    pub fn stop(&self) {
        self.wish.end();
    }

    /// Waits until what was asked for last is over: three seconds at most.
    pub fn join(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            // It has panicked: then it is over too.
            let _ = thread.join();
        }
    }
}

// === impl Worker ===

impl Worker {
    fn work(mut self, wish: &Wish) {
        let mut tried = None;
        let mut backoff = FIRST;
        let mut due = Instant::now();
        while let Some(wanted) = wish.wait(tried, due) {
            let first = tried.replace(wanted) != Some(wanted);
            if first {
                backoff = FIRST;
            }
            let wait = if self.settle(wanted, first) {
                pace(self.settings.resync)
            } else {
                backoff
            };
            backoff = (backoff * 2).min(LONGEST);
            due = Instant::now() + wait;
        }
    }

    /// Whether the node is as wanted.
    fn settle(&mut self, wanted: Wanted, first: bool) -> bool {
        // A first look, and one after a failure, has to see what is there.
        let freshness = match first || !self.said.is_empty() {
            true => Freshness::Latest,
            false => Freshness::Remembered,
        };
        let result = cluster::taint(&self.settings, &self.key, wanted, freshness);
        self.told.metrics.taint(result.as_ref().ok().copied());
        self.note(&self.state(wanted, &result));
        match result {
            Ok(tainted) => self.say(wanted, tainted, first),
            Err(why) => return self.complain(wanted, &why.to_string()),
        }
        self.said.clear();
        true
    }

    fn say(&self, wanted: Wanted, tainted: Tainted, first: bool) {
        let (key, node) = (&self.key, &self.settings.node_name);
        match tainted {
            Tainted::Removed => info!("Removed taint {key} from node {node}"),
            Tainted::Set => warn!(
                "Set taint {key}:NoSchedule on node {node}: its chain is lost, and pods that start there would be outside the mesh"
            ),
            Tainted::Unchanged if first && wanted == Wanted::Absent => {
                info!("Node {node} has no taint {key}");
            }
            Tainted::Unchanged => debug!("Taint {key} of node {node} is as it should be"),
        }
    }

    fn complain(&mut self, wanted: Wanted, what: &str) -> bool {
        if self.said != what {
            let undone = match wanted {
                Wanted::Absent => "removed",
                Wanted::Present => "set",
            };
            let (key, node) = (&self.key, &self.settings.node_name);
            warn!("Taint {key} of node {node} is not {undone} yet: {what}");
        }
        what.clone_into(&mut self.said);
        false
    }

    /// The line of `status`; empty if all is as it should be.
    fn state(&self, wanted: Wanted, result: &Result<Tainted, TaintError>) -> String {
        let (key, node) = (&self.key, &self.settings.node_name);
        match (result, wanted) {
            (Ok(_), Wanted::Absent) => String::new(),
            (Ok(_), Wanted::Present) => {
                format!("{key} is on node {node}: no pod is placed there until it is chained again")
            }
            (Err(why), Wanted::Absent) => {
                format!("{key} may still be on node {node}, so that pods stay away: {why}")
            }
            (Err(why), Wanted::Present) => format!(
                "{key} is not on node {node} yet, and pods start there outside the mesh: {why}"
            ),
        }
    }

    fn note(&self, note: &str) {
        self.told.health.taint(note);
        // Without a state directory `status` does not tell, and that is all.
        let _ = files::note(&self.settings.state_dir.join(NOTE), note);
    }
}

/// When to look again. Nodes that start together must not ask together for ever.
fn pace(resync: Duration) -> Duration {
    let pace = (resync * 2).clamp(SOONEST, LATEST);
    let part = u32::try_from(RandomState::new().hash_one(0) % 64).unwrap_or_default();
    pace + pace * part / 256
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_thousand_nodes_ask_less_often_than_their_kubelets() {
        for (resync, least, most) in [(50, 10_000, 12_500), (15_000, 30_000, 37_500)] {
            for _ in 0..100 {
                let pace = pace(Duration::from_millis(resync)).as_millis();
                assert!((least..=most).contains(&pace), "{pace}");
            }
        }
        assert!(pace(Duration::from_secs(86_400)) <= LATEST * 5 / 4);
    }
}
