//! What must hold after each step.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use super::step::Kind;
use super::world::{Running, World, token};
use crate::cri::Answer;
use crate::machine::LIST;
use crate::pod::Sandbox;
use crate::verbs::started_with;

/// How long the installer may take: a token, an API server that is away, and pauses between its
/// writes where another writes the same file again and again.
const PATIENCE: Duration = Duration::from_secs(60);

// === impl World ===

impl World {
    /// Waits until everybody has done what is his to do.
    pub(super) fn settle(&mut self) {
        if self.installer {
            assert!(self.machine.node.is_alive(), "{}", self.machine.node.log());
            self.wait("the installer's work", Self::is_installed);
        }
        if self.mtu.is_some() {
            let chained = self.machine.node.is_chained(LIST);
            assert!(
                chained || !self.chained,
                "unchained: {}",
                self.machine.node.log()
            );
            self.chained = chained;
            let last = if chained { "linkerd-cni" } else { "portmap" };
            self.machine.wait_loaded(last);
            let executable = self.machine.node.executable();
            assert!(
                executable.exists() || !chained,
                "chained without executable"
            );
        } else {
            self.wait("no network", |world| world.machine.cri.loaded().is_empty());
        }
    }

    /// Both things that must hold.
    pub(super) fn judge(&mut self) {
        self.nobody_is_in_the_clear();
        if self.mtu.is_some() {
            self.clear_dead();
            for kind in [Kind::Ours, Kind::Excluded] {
                let starting = self.begin(kind);
                let answer = starting.wait();
                self.judge_start(kind, answer, self.chained, true);
                self.end_pod(self.pods.len() - 1);
            }
        }
    }

    /// A pod's start: `must` says that it must have been with our plugin, `served`
    /// that the plugin could know what it needs.
    pub(super) fn judge_start(
        &mut self,
        kind: Kind,
        answer: Answer<String>,
        must: bool,
        served: bool,
    ) {
        let id = match answer {
            Ok(id) => id,
            Err(error) => return self.judge_refusal(kind, &error, must, served),
        };
        let with_ours = started_with(&self.machine, &id).contains(&"linkerd-cni".to_owned());
        assert!(
            with_ours || !must,
            "{kind:?} started without us; {}",
            self.machine.node.log()
        );
        self.tally.without_ours += u32::from(!with_ours);
        let serving = Sandbox::of(&self.machine, id).serve();
        let running = Running {
            kind,
            serving,
            with_ours,
        };
        running.judge(self);
        self.pods.push(running);
    }

    fn judge_refusal(&mut self, kind: Kind, error: &str, must: bool, served: bool) {
        println!("     {kind:?} refused: {error}");
        self.tally.refused += 1;
        let bound = served || must && kind.is_passed_on_unseen();
        assert!(!bound, "{kind:?} cannot start: {error}");
    }

    fn nobody_is_in_the_clear(&mut self) {
        let pods = std::mem::take(&mut self.pods);
        for pod in &pods {
            pod.judge(self);
        }
        self.pods = pods;
    }

    /// What the installer is there for: the other plugin's newest list, chained; the
    /// newest token; the newest executable.
    fn is_installed(&self) -> bool {
        let node = &self.machine.node;
        let has = |path, text: &str| {
            fs::read(path)
                .is_ok_and(|bytes| bytes.windows(text.len()).any(|w| w == text.as_bytes()))
        };
        let newest =
            |mtu| node.is_chained(LIST) && has(node.conf(LIST), &format!("\"mtu\": {mtu}"));
        let executable = fs::read(node.executable());
        self.mtu.is_none_or(newest)
            && has(node.kubeconfig(), &token(self.brought))
            && executable.is_ok_and(|bytes| bytes.ends_with(self.version.as_bytes()))
    }

    fn wait(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let until = Instant::now() + PATIENCE;
        while !holds(self) {
            let log = self.machine.node.log();
            assert!(
                Instant::now() < until,
                "{what} was waited for in vain:\n{log}"
            );
            thread::sleep(Duration::from_millis(5));
        }
    }
}

// === impl Running ===

impl Running {
    /// Real connections end where they must: at the proxy if the pod is meshed and
    /// was started with us, else where they were going.
    fn judge(&self, world: &mut World) {
        let redirected = self.serving.redirected(&world.machine);
        let expected = self.kind.is_meshed() && self.with_ours;
        assert_eq!(redirected, (expected, expected), "{:?}", self.kind);
        if expected {
            world.tally.redirected += 1;
        } else {
            world.tally.passed_on += 1;
        }
    }
}
