//! The lock is the namespace's own.

use std::fs::File;
use std::path::Path;
use std::thread;
use std::time::Duration;

use linkerd_cni_integration::rules;
use linkerd_cni_integration::stage::Stage;
use nix::fcntl::{Flock, FlockArg};

/// The plugin waits 5 s; the rest is a busy machine.
const WAIT: Duration = Duration::from_secs(15);

#[test]
fn a_held_lock_is_an_error_that_says_so() {
    let stage = Stage::new("meshed");
    let before = rules::everything(&stage.netns);
    let _held = lock(&stage.netns.path());
    stage.add().fail(11).says(&["lock"]).within(WAIT);
    assert_eq!(before, rules::everything(&stage.netns));
}

#[test]
fn a_lock_that_is_let_go_is_waited_for() {
    let stage = Stage::new("meshed");
    let held = lock(&stage.netns.path());
    let release = thread::spawn(move || {
        thread::sleep(Duration::from_millis(700));
        drop(held);
    });
    let output = stage.add().succeed();
    assert!(
        output.elapsed >= Duration::from_millis(500),
        "it did not wait"
    );
    release.join().expect("the lock is let go");
    assert!(!rules::effective(&stage.netns).is_empty());
}

#[test]
fn del_does_not_wait_for_ever() {
    let stage = Stage::new("meshed");
    stage.add().succeed();
    let _held = lock(&stage.netns.path());
    stage.del().succeed().within(WAIT);
}

#[test]
fn a_lock_on_one_namespace_does_not_hold_up_another() {
    let stage = Stage::new("meshed");
    let _held = lock(&stage.netns.path());
    let other = Stage::new("meshed");
    other.add().succeed().within(Duration::from_secs(4));
}

#[test]
fn the_hosts_iptables_lock_does_not_matter() {
    let _held = lock(Path::new("/run/xtables.lock"));
    for mode in ["legacy", "nft", "plain", "native"] {
        let stage = Stage::new("meshed").linkerd("iptables-mode", mode);
        stage.add().succeed().within(Duration::from_secs(4));
        stage.del().succeed().within(Duration::from_secs(4));
        assert!(rules::effective(&stage.netns).is_empty());
    }
}

fn lock(path: &Path) -> Flock<File> {
    let file = File::options()
        .read(true)
        .write(path.starts_with("/run/xtables.lock"))
        .create(path.starts_with("/run/xtables.lock"))
        .truncate(false)
        .open(path)
        .expect("the file can be opened");
    Flock::lock(file, FlockArg::LockExclusive)
        .map_err(|(_, errno)| errno)
        .expect("it can be locked")
}
