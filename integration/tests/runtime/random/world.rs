//! The node, and what is known of it.

use std::fs;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use fastrand::Rng;
use linkerd_cni_integration::api_server::Fault;
use linkerd_cni_integration::fixtures;

use super::step::{Kind, Now, Step};
use crate::cri::{Answer, Cri};
use crate::machine::{EXCLUDED, Machine};
use crate::pod::{Pod, Serving};

/// A node, its pods, and what everybody else believes of it.
pub(super) struct World {
    pub(super) machine: Machine,
    pub(super) pods: Vec<Running>,
    /// Whether the list was chained when it was last looked at, and nobody but the
    /// installer has had a reason to change that.
    pub(super) chained: bool,
    /// What the other plugin last wrote, told apart by its MTU; `None` if it has
    /// taken its list away.
    pub(super) mtu: Option<u32>,
    pub(super) installer: bool,
    pub(super) fault: Option<Fault>,
    /// The tokens that the API server takes and that kubelet brings, by number.
    pub(super) taken: u32,
    pub(super) brought: u32,
    /// What the image's executable ends with.
    pub(super) version: String,
    pub(super) tally: Tally,
    started: Instant,
    seed: u64,
    pub(super) rng: Rng,
    pub(super) steps: u32,
    names: u32,
}

/// A pod that runs.
pub(super) struct Running {
    pub(super) kind: Kind,
    pub(super) serving: Serving,
    /// Whether our plugin was in the list that it was started with.
    pub(super) with_ours: bool,
}

/// A pod that is being started.
pub(super) struct Starting {
    pub(super) kind: Kind,
    thread: JoinHandle<Answer<String>>,
}

/// How often something was seen, so that a search that finds nothing shows that it
/// looked.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) redirected: u32,
    pub(super) passed_on: u32,
    pub(super) refused: u32,
    pub(super) ended: u32,
    pub(super) without_ours: u32,
}

// === impl Starting ===

impl Starting {
    /// What came of it.
    pub(super) fn wait(self) -> Answer<String> {
        self.thread.join().unwrap()
    }
}

// === impl World ===

impl World {
    /// An empty node, without an installer.
    pub(super) fn new(seed: u64) -> Self {
        let mut world = Self {
            machine: Machine::new(),
            pods: Vec::new(),
            chained: false,
            mtu: None,
            installer: false,
            fault: None,
            taken: 0,
            brought: 0,
            version: String::new(),
            tally: Tally::default(),
            started: Instant::now(),
            seed,
            rng: Rng::with_seed(seed),
            steps: 0,
            names: 0,
        };
        world.expire();
        world.rotate();
        world
    }

    /// Something happens, perhaps while a pod starts; then the node is judged.
    pub(super) fn step(&mut self) {
        self.steps += 1;
        // So that a choice that came out otherwise does not change all that follow.
        self.rng = Rng::with_seed(self.seed.wrapping_add(u64::from(self.steps)));
        let now = self.now();
        let step = Step::choose(&mut self.rng, now);
        let beside = self.beside(&step);
        println!(
            "{:3}: at {:.1} s, {now:?}\n     {step:?}, beside {beside:?}",
            self.steps,
            self.started.elapsed().as_secs_f32(),
        );
        let (before, ready) = (self.chained, self.is_ready());
        let starting = beside.into_iter().map(|kind| self.begin(kind));
        let starting: Vec<_> = starting.collect();
        self.apply(&step);
        for starting in starting {
            let (kind, answer) = (starting.kind, starting.wait());
            let must = step.leaves_the_list() && before && self.chained;
            let served = must && step.leaves_the_way() && ready && self.is_ready();
            self.judge_start(kind, answer, must, served);
        }
        self.settle();
        self.judge();
    }

    /// What starts while a step is taken.
    fn beside(&mut self, step: &Step) -> Vec<Kind> {
        match step {
            Step::Start(kind) => vec![*kind; self.rng.usize(1..4)],
            step if step.stops_the_runtime() || self.mtu.is_none() => Vec::new(),
            _ => (0..self.rng.usize(0..3))
                .map(|_| Kind::any(&mut self.rng))
                .collect(),
        }
    }

    /// All pods end; returns what was seen.
    pub(super) fn end(mut self) -> String {
        if self.mtu.is_none() {
            self.write_list(false);
            self.settle();
        }
        while !self.pods.is_empty() {
            self.end_pod(0);
        }
        self.clear_dead();
        let left = self.machine.left();
        // A record outlives an uninstall. And `bridge` takes its rules along only in
        // the DEL that finds its link, so that one cut short leaves them.
        let theirs = |name: &str| name.contains("/run/linkerd-cni/") || name.starts_with("-A ");
        let left = left.iter().filter(|name| !theirs(name));
        let left: Vec<_> = left.collect();
        assert!(left.is_empty(), "{left:?}:\n{}", self.machine.complaints());
        format!("randomised: {} steps, {:?}", self.steps, self.tally)
    }

    /// Whether the API server can be asked, with the token that lies on the node.
    pub(super) fn is_ready(&self) -> bool {
        let token = token(self.taken);
        let text = fs::read_to_string(self.machine.node.kubeconfig());
        let slow = matches!(self.fault, Some(Fault::Slow(_)));
        (self.fault.is_none() || slow) && text.is_ok_and(|text| text.contains(&token))
    }

    /// A pod of this kind and a name of its own begins to start.
    pub(super) fn begin(&mut self, kind: Kind) -> Starting {
        self.names += 1;
        let pod = self.pod(kind, self.names);
        let config = pod.config(&self.machine.cgroup());
        let socket = self.machine.containerd.socket();
        Starting {
            kind,
            thread: thread::spawn(move || Cri::connect(&socket).run(&config)),
        }
    }

    /// A pod ends: whatever happened, nothing of ours may be in the way.
    pub(super) fn end_pod(&mut self, index: usize) {
        let pod = self.pods.swap_remove(index);
        let ended = pod.serving.sandbox.end(&self.machine);
        ended.unwrap_or_else(|error| panic!("a pod cannot end: {error}"));
        self.tally.ended += 1;
    }

    /// Sandboxes that failed or lost their power are taken away, as kubelet does.
    pub(super) fn clear_dead(&self) {
        let alive: Vec<_> = self
            .pods
            .iter()
            .map(|pod| &pod.serving.sandbox.id)
            .collect();
        for id in self.machine.cri.list() {
            if !alive.contains(&&id) {
                let gone = self
                    .machine
                    .cri
                    .stop(&id)
                    .and_then(|()| self.machine.cri.remove(&id));
                gone.unwrap_or_else(|error| panic!("a dead pod cannot be removed: {error}"));
            }
        }
    }

    fn pod(&self, kind: Kind, number: u32) -> Pod {
        let fixture = match kind {
            Kind::Ours => return Pod::named("linkerd-cni", &format!("linkerd-cni-{number:05}")),
            Kind::Excluded => return Pod::named(EXCLUDED, &format!("kube-proxy-{number:05}")),
            Kind::Meshed => "meshed",
            Kind::NativeSidecar => "native-sidecar",
            Kind::Unmeshed => "unmeshed",
        };
        let mut object = fixtures::pod(fixture);
        object["metadata"]["name"] = format!("{fixture}-{number}").into();
        Pod::of(&self.machine, object)
    }

    fn now(&self) -> Now {
        Now {
            pods: self.pods.len(),
            installer: self.installer,
            list: self.mtu.is_some(),
            misbehaving: self.fault.is_some(),
            expired: self.taken != self.brought,
        }
    }
}

/// A token by its number.
pub(super) fn token(number: u32) -> String {
    format!("token-number-{number}.")
}
