//! Many at once.

use std::thread;

use linkerd_cni_integration::netns::{Netns, unique_name};
use linkerd_cni_integration::rules;
use linkerd_cni_integration::stage::Stage;

#[test]
fn sixty_four_adds_at_once_are_all_fine() {
    sixty_four_adds("nft");
}

#[test]
fn sixty_four_native_adds_at_once_are_all_fine() {
    sixty_four_adds("native");
}

fn sixty_four_adds(mode: &str) {
    let stage = Stage::new("annotated").linkerd("iptables-mode", mode);
    stage.add().succeed();
    let once = rules::everything(&stage.netns);
    let pods: Vec<_> = (0..64).map(|_| (unique_name(), Netns::new())).collect();
    thread::scope(|scope| {
        for (id, netns) in &pods {
            let add = stage.add().container(id).netns(&netns.path());
            scope.spawn(move || add.succeed());
        }
    });
    for (_, netns) in &pods {
        assert_eq!(once, rules::everything(netns));
    }
    thread::scope(|scope| {
        for (id, netns) in &pods {
            let del = stage.del().container(id).netns(&netns.path());
            scope.spawn(move || del.succeed());
        }
    });
    for (_, netns) in &pods {
        assert!(rules::effective(netns).is_empty());
    }
}

#[test]
fn adds_at_once_in_one_namespace_are_as_one() {
    for mode in ["nft", "native"] {
        let stage = Stage::new("annotated").linkerd("iptables-mode", mode);
        stage.add().succeed();
        let once = rules::everything(&stage.netns);
        let netns = Netns::new();
        thread::scope(|scope| {
            for _ in 0..8 {
                let add = stage.add().netns(&netns.path());
                scope.spawn(move || add.succeed());
            }
        });
        assert_eq!(once, rules::everything(&netns), "{mode}");
    }
}
