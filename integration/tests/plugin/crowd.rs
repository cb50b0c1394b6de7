//! Many at once, with each backend.

use std::sync::{Mutex, PoisonError};
use std::thread;

use linkerd_cni_integration::backends;
use linkerd_cni_integration::netns::{Netns, unique_name};
use linkerd_cni_integration::rules;
use linkerd_cni_integration::stage::Stage;

/// One crowd at a time: behind another one, the last in a namespace would wait
/// longer for its lock than the plugin does.
static CROWD: Mutex<()> = Mutex::new(());

#[test]
fn sixty_four_adds_at_once_are_all_fine() {
    let _alone = CROWD.lock().unwrap_or_else(PoisonError::into_inner);
    for backend in backends::all() {
        let stage = Stage::new("annotated").linkerd("iptables-mode", backend.mode);
        stage.add().succeed();
        let once = rules::everything(&stage.netns);
        let pods: Vec<_> = (0..64).map(|_| (unique_name(), Netns::new())).collect();
        at_once(&stage, "ADD", &pods);
        for (_, netns) in &pods {
            assert_eq!(once, rules::everything(netns), "{}", backend.mode);
        }
        at_once(&stage, "DEL", &pods);
        for (_, netns) in &pods {
            assert!(rules::effective(netns).is_empty(), "{}", backend.mode);
        }
    }
}

#[test]
fn adds_at_once_in_one_namespace_are_as_one() {
    let _alone = CROWD.lock().unwrap_or_else(PoisonError::into_inner);
    for backend in backends::all() {
        let stage = Stage::new("annotated").linkerd("iptables-mode", backend.mode);
        stage.add().succeed();
        let once = rules::everything(&stage.netns);
        let netns = Netns::new();
        thread::scope(|scope| {
            for _ in 0..8 {
                let add = stage.add().netns(&netns.path());
                scope.spawn(move || add.succeed());
            }
        });
        assert_eq!(once, rules::everything(&netns), "{}", backend.mode);
    }
}

fn at_once(stage: &Stage, verb: &str, pods: &[(String, Netns)]) {
    thread::scope(|scope| {
        for (id, netns) in pods {
            let call = stage.call(verb).container(id).netns(&netns.path());
            scope.spawn(move || call.succeed());
        }
    });
}
