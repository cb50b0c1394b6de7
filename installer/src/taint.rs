//! Removes the startup taint from our own node, once, when it is ready for the first time.
//!
//! On a thread of its own: the API server may be away for hours, and the node is chained without
//! it.

use std::{thread, time::Duration};

use tracing::{info, warn};

use crate::{
    cluster::{self, Untainted},
    settings::Settings,
};

/// How long is waited between two attempts.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);

/// Starts removing every taint with this key, until that has succeeded.
pub fn start(settings: &Settings, key: String) {
    let settings = settings.clone();
    let name = "startup-taint".to_owned();
    let thread = thread::Builder::new().name(name);
    if let Err(e) = thread.spawn(move || keep_trying(&settings, &key)) {
        warn!("The startup taint stays: {e}");
    }
}

fn keep_trying(settings: &Settings, key: &str) {
    let node = &settings.node_name;
    let mut said = String::new();
    let mut backoff = FIRST;
    loop {
        match cluster::untaint(settings, key) {
            Ok(Untainted::Removed) => return info!("Removed taint {key} from node {node}"),
            Ok(Untainted::Absent) => return info!("Node {node} has no taint {key}"),
            Err(why) => {
                let what = why.to_string();
                if said != what {
                    warn!("Taint {key} of node {node} is not removed yet: {what}");
                }
                said = what;
            }
        }
        thread::sleep(backoff);
        backoff = (backoff * 2).min(LONGEST);
    }
}
