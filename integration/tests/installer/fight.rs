//! Other writers at the same files.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use linkerd_cni_integration::node::{Node, fixture_bytes, is_chained};

const CALICO: &str = "10-calico.conflist";

/// Random numbers that are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

fn long() -> bool {
    std::env::var_os("LINKERD_CNI_LONG_TESTS").is_some()
}

#[test]
fn two_hundred_interleavings_converge_with_valid_json_at_every_instant() {
    let mut node = Node::new();
    node.set("RESYNC_INTERVAL", "200ms");
    node.start();
    let over = Arc::new(AtomicBool::new(false));
    let reader = reading_valid_json(&node, &over);
    let mut random = Random(0x5eed);
    for round in 0..if long() { 2000 } else { 200 } {
        // A name of its own, so that a round is no fight.
        let name = format!("{round:03}-net.conflist");
        let mut last = String::new();
        for write in 0..=random.below(4) {
            last = format!(
                r#"{{"name":"n{round}","cniVersion":"1.0.0","plugins":[{{"type":"bridge","mtu":{write}}}]}}"#
            );
            node.rename_in(&name, &last);
            thread::sleep(Duration::from_micros(random.below(25_000)));
        }
        if random.below(5) == 0 {
            fs::remove_file(node.conf(&name)).unwrap();
            continue;
        }
        // Only what was written last is there, with our entry.
        let newest = last.trim_end_matches("}]}").to_owned();
        node.wait(&format!("{name} to hold the last write"), |node| {
            fs::read_to_string(node.conf(&name))
                .is_ok_and(|text| text.starts_with(&newest) && is_chained(text.as_bytes()))
        });
        fs::remove_file(node.conf(&name)).unwrap();
    }
    over.store(true, Ordering::Relaxed);
    assert!(reader.join().unwrap() > 200);
    node.wait("an empty node", |node| node.files().is_empty());
    assert!(node.is_alive());
}

#[test]
fn what_another_writer_writes_in_place_is_never_lost() {
    let mut node = Node::new();
    node.set("RESYNC_INTERVAL", "200ms");
    node.start();
    let mut random = Random(0xfeed);
    for round in 0..150 {
        let name = format!("{round:03}-net.conflist");
        let mut last = String::new();
        for write in 0..=random.below(3) {
            // Now longer, now shorter than what is there.
            let padding = "x".repeat(usize::try_from(random.below(2000)).unwrap());
            last = format!(
                r#"{{"name":"n{round}","padding":"{padding}","plugins":[{{"type":"bridge","mtu":{write}}}]}}"#
            );
            node.write(&name, &last);
            thread::sleep(Duration::from_micros(random.below(20_000)));
        }
        let newest = last.trim_end_matches("}]}").to_owned();
        node.wait(&format!("{name} to hold the last write"), |node| {
            fs::read_to_string(node.conf(&name))
                .is_ok_and(|text| text.starts_with(&newest) && is_chained(text.as_bytes()))
        });
        fs::remove_file(node.conf(&name)).unwrap();
    }
    assert!(node.is_alive());
}

/// Reads every list again and again; each read has to be a whole one.
fn reading_valid_json(node: &Node, over: &Arc<AtomicBool>) -> thread::JoinHandle<usize> {
    let (dir, over) = (node.net_dir(), Arc::clone(over));
    thread::spawn(move || {
        let mut reads = 0;
        while !over.load(Ordering::Relaxed) {
            for entry in fs::read_dir(&dir).unwrap().flatten() {
                let path = entry.path();
                if path.extension().is_some_and(|e| e == "conflist")
                    && let Ok(bytes) = fs::read(&path)
                {
                    let json: Result<serde_json::Value, _> = serde_json::from_slice(&bytes);
                    assert!(
                        json.is_ok(),
                        "{}: {}",
                        path.display(),
                        String::from_utf8_lossy(&bytes)
                    );
                    reads += 1;
                }
            }
        }
        reads
    })
}

#[test]
fn another_writer_that_keeps_undoing_us_is_named_once_and_met_with_patience() {
    let time = Duration::from_secs(if long() { 60 } else { 12 });
    let mut node = Node::new();
    let plain = fixture_bytes("net.d/10-calico.conflist");
    node.write(
        "05-old.conflist.cilium_bak",
        r#"{"plugins":[{"type":"linkerd-cni"}]}"#,
    );
    node.write(CALICO, &plain);
    node.start();
    node.wait_chained(CALICO);
    let over = Arc::new(AtomicBool::new(false));
    let reader = reading_valid_json(&node, &over);
    let (start, mut undone, mut lines) = (Instant::now(), 0, None);
    // A pause that grew would not let it be undone so often before the test gives up.
    while start.elapsed() < time || lines.is_none() || undone < 12 {
        assert!(start.elapsed() < time * 5, "{}", node.log());
        if node.is_chained(CALICO) {
            node.rename_in(CALICO, &plain);
            undone += 1;
        }
        if undone == 5 && lines.is_none() {
            node.wait("the warning", |node| node.logged("keeps undoing") == 1);
            lines = Some((Instant::now(), node.log().lines().count()));
        }
        thread::sleep(Duration::from_millis(20));
    }
    let (since, before) = lines.expect("undone five times");
    let later = node.log().lines().count() - before;
    assert!(
        u64::try_from(later).unwrap() < since.elapsed().as_secs().max(1),
        "{later} lines:\n{}",
        node.log()
    );
    if long() {
        assert!(node.log().lines().count() < 60, "{}", node.log());
    }
    let most = 7 + start.elapsed().as_secs();
    assert!(undone <= most, "no pause: undone {undone} times");
    assert_eq!(node.logged("keeps undoing"), 1);
    let path = node.conf(CALICO);
    assert_eq!(node.logged(&format!("keeps undoing {}", path.display())), 1);
    assert_eq!(node.logged("cni.exclusive=false"), 1);
    let status = node.run(&["status"]);
    let said = String::from_utf8_lossy(&status.stdout).into_owned();
    assert_eq!(status.status.and_then(|s| s.code()), Some(1), "{said}");
    assert!(
        said.contains(&format!("another writer keeps undoing {}", path.display())),
        "{said}"
    );
    over.store(true, Ordering::Relaxed);
    reader.join().unwrap();
    // It gives up: the next write stands.
    node.wait_chained(CALICO);
}

/// As Consul's plugin does: whatever stands behind it, it takes itself out and appends itself.
fn append_consul(text: &[u8]) -> Option<String> {
    let mut list: serde_json::Value = serde_json::from_slice(text).unwrap();
    let plugins = list["plugins"].as_array_mut().unwrap();
    if plugins.last().unwrap()["type"] == "consul-cni" {
        return None;
    }
    plugins.retain(|plugin| plugin["type"] != "consul-cni");
    plugins.push(serde_json::json!({"type": "consul-cni", "name": "consul-cni"}));
    Some(serde_json::to_string_pretty(&list).unwrap())
}

#[test]
fn another_that_wants_to_be_the_last_is_let_be_the_last() {
    let mut node = Node::new();
    node.set("RESYNC_INTERVAL", "50ms");
    node.set("ADMIN_ADDRESS", "127.0.0.1:0");
    // An entry of an earlier version in the middle is stale: that one moves, once.
    node.write(
        CALICO,
        r#"{"name":"n","cniVersion":"1.0.0","plugins":[{"type":"calico"},{"type":"linkerd-cni"},{"type":"consul-cni"}]}"#,
    );
    node.start();
    for start in [0, 1] {
        node.wait("our entry", |node| {
            node.logged("Created CNI config") == start + 1
        });
        let text = fs::read(node.conf(CALICO)).unwrap();
        let appended = append_consul(&text).expect("ours is the last");
        node.rename_in(CALICO, &appended);
        let identity = |node: &Node| {
            let metadata = fs::metadata(node.conf(CALICO)).unwrap();
            (metadata.ino(), metadata.mtime(), metadata.mtime_nsec())
        };
        let before = (identity(&node), node.files()[CALICO].clone());
        node.wait("passes", |node| {
            let unchanged = "linkerd_cni_installer_passes_total{result=\"unchanged\"}";
            let passes = |node: &Node| node.metrics().value(unchanged).unwrap_or_default();
            let first = passes(node);
            while passes(node) < first + 10.0 {
                thread::sleep(Duration::from_millis(20));
            }
            true
        });
        let after = (identity(&node), node.files()[CALICO].clone());
        assert_eq!(after, before, "{}", node.log());
        let status = node.run(&["status"]);
        assert!(status.status.is_some_and(|s| s.success()), "{status:?}");
        // The agent of the network begins anew.
        node.rename_in(CALICO, fixture_bytes("net.d/10-calico.conflist"));
    }
    node.wait("both counted", |node| {
        node.metrics().value("linkerd_cni_installer_undone_total") == Some(2.0)
    });
}
