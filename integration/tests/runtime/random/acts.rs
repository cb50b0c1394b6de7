//! What is done to the node, and what is to be expected of it then.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use linkerd_cni_integration::api_server::Fault;
use linkerd_cni_integration::node::send;
use nix::sys::signal::Signal;

use super::step::Step;
use super::world::{World, token};
use crate::machine::{LIST, list};

// === impl World ===

impl World {
    /// Takes a step, all but the starting of a pod.
    pub(super) fn apply(&mut self, step: &Step) {
        match step {
            Step::Start(_) => {}
            Step::End => {
                let index = self.rng.usize(..self.pods.len());
                self.end_pod(index);
            }
            Step::Install => self.install(),
            Step::Stop => self.stop(),
            Step::Kill => self.kill(),
            Step::KillAtWork(milliseconds) => {
                self.write_list(false);
                thread::sleep(Duration::from_millis(*milliseconds));
                self.kill();
            }
            Step::KillAtStart(milliseconds) => {
                self.renew_image();
                self.install();
                thread::sleep(Duration::from_millis(*milliseconds));
                self.kill();
            }
            Step::KillAtLeaving(milliseconds) => {
                self.machine.forget_daemonset();
                send(self.machine.node.pid(), Signal::SIGTERM);
                thread::sleep(Duration::from_millis(*milliseconds));
                self.kill();
                self.machine.remember_daemonset();
                self.chained = false;
            }
            Step::Upgrade => self.upgrade(),
            Step::Uninstall => self.uninstall(),
            Step::Misbehave(fault) => {
                self.machine.api.misbehave(fault.clone());
                self.fault = Some(fault.clone());
            }
            Step::Behave => {
                self.machine.api.behave();
                self.fault = None;
            }
            Step::Expire => self.expire(),
            Step::Rotate => self.rotate(),
            Step::Rewrite { in_place } => self.write_list(*in_place),
            Step::TakeAway => {
                while !self.pods.is_empty() {
                    self.end_pod(0);
                }
                fs::remove_file(self.machine.node.conf(LIST)).unwrap();
                (self.mtu, self.chained) = (None, false);
            }
            Step::LoseKubeconfig => {
                let _ = fs::remove_file(self.machine.node.kubeconfig());
            }
            Step::LoseRecords => self.each_record(fs::remove_file),
            Step::SpoilRecords => self.each_record(|path| fs::write(path, "{\"version\":")),
            Step::RestartRuntime => self.machine.restart_runtime(),
            Step::Reboot => self.reboot(),
        }
    }

    fn install(&mut self) {
        self.machine.install();
        self.installer = true;
    }

    /// A refusal means to the installer that its release is gone.
    fn stop(&mut self) {
        let refused = matches!(self.fault, Some(Fault::Status(403)));
        let unheard = self.fault.is_some() && !matches!(self.fault, Some(Fault::Slow(_)));
        let expired = self.taken != self.brought && !unheard;
        self.machine.node.stop(Signal::SIGTERM);
        self.installer = false;
        self.chained &= !refused && !expired;
    }

    fn kill(&mut self) {
        self.machine.node.stop(Signal::SIGKILL);
        self.installer = false;
    }

    fn upgrade(&mut self) {
        self.stop();
        self.renew_image();
        self.install();
    }

    fn renew_image(&mut self) {
        self.version = format!("version {}", self.steps);
        let image = self.machine.node.image().join("linkerd-cni");
        let mut image = fs::OpenOptions::new().append(true).open(image).unwrap();
        image.write_all(self.version.as_bytes()).unwrap();
    }

    fn uninstall(&mut self) {
        self.machine.forget_daemonset();
        self.stop();
        self.machine.remember_daemonset();
        self.chained = false;
    }

    /// The API server takes a new token only.
    pub(super) fn expire(&mut self) {
        self.taken += 1;
        self.machine.api.set_token(&token(self.taken));
    }

    /// Kubelet brings the token that is taken.
    pub(super) fn rotate(&mut self) {
        self.brought = self.taken;
        self.machine.node.rotate_token(&token(self.brought));
    }

    /// The other plugin writes its list, which is then told apart by its MTU.
    pub(super) fn write_list(&mut self, in_place: bool) {
        let mtu = 1300 + self.steps;
        let text = list().replace("\"cni0\"", &format!("\"cni0\", \"mtu\": {mtu}"));
        if in_place {
            self.machine.node.write(LIST, text);
        } else {
            self.machine.drop_list(&text);
        }
        (self.mtu, self.chained) = (Some(mtu), false);
    }

    fn each_record(&self, what: impl Fn(PathBuf) -> io::Result<()>) {
        let records = self.machine.namespaces.path("/run/linkerd-cni");
        let entries = fs::read_dir(records).into_iter().flatten().flatten();
        let paths = entries.map(|entry| entry.path());
        for path in paths.filter(|path| path.extension().is_some_and(|e| e == "json")) {
            let _ = what(path);
        }
    }

    fn reboot(&mut self) {
        if self.installer {
            self.kill();
        }
        self.pods.clear();
        self.machine.reboot();
    }
}
