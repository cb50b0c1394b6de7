//! Listens to what the plugin decides for each pod, and says so in our log, where people look.
//!
//! The plugin sends datagrams and does not wait. What comes in is input from outside of the
//! process: it is bounded, and what is not understood is counted and dropped.

use std::{
    collections::VecDeque,
    net::Shutdown,
    os::unix::net::UnixDatagram,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use proxy_init_rules::report::{LARGEST, SOCKET};
use tracing::{info, warn};

use crate::{
    files::{self, Bound, FileError},
    metrics::Metrics,
};

mod line;

/// How many datagrams are kept in memory at once.
const MOST_WAITING: usize = 64;

/// Reading JSON takes little.
const STACK: usize = 256 << 10;

/// Keeps the socket up.
#[derive(Debug)]
pub struct Decisions {
    path: PathBuf,
    metrics: Arc<Metrics>,
    listening: Option<Listening>,
    said: String,
}

/// A socket, and the thread that sleeps on it.
#[derive(Debug)]
struct Listening {
    bound: Bound,
    over: Arc<AtomicBool>,
}

// === impl Decisions ===

impl Decisions {
    /// Nothing is bound before the first [`Decisions::renew`].
    #[must_use]
    pub fn new(prefix: &Path, metrics: Arc<Metrics>) -> Self {
        Self {
            path: files::under(prefix, Path::new(SOCKET)),
            metrics,
            listening: None,
            said: String::new(),
        }
    }

    /// Binds the socket if it is not there (any more). One that another installer listens on is
    /// left to that one: it came after us, and we are about to go.
    pub fn renew(&mut self) {
        if let Some(listening) = &self.listening
            && (listening.bound.is_in_place() || files::is_listened_to(&self.path))
        {
            return;
        }
        self.listening = None;
        match Listening::start(&self.path, &self.metrics) {
            Ok(listening) => {
                info!("Listening for decisions on {}", self.path.display());
                self.listening = Some(listening);
                self.said.clear();
            }
            Err(e) => self.complain(&e),
        }
    }

    fn complain(&mut self, error: &FileError) {
        let what = error.to_string();
        if what == self.said {
            return;
        }
        let without = "The plugin's decisions are not shown here";
        if error.is_missing() {
            info!("{without}: {what}");
        } else {
            warn!("{without}: {what}");
        }
        self.said = what;
    }
}

// === impl Listening ===

impl Listening {
    fn start(path: &Path, metrics: &Arc<Metrics>) -> Result<Self, FileError> {
        let failed = |source| FileError::Io {
            doing: "listening on",
            path: path.to_owned(),
            source,
        };
        let bound = files::bind(path)?;
        let over = Arc::new(AtomicBool::new(false));
        let socket = bound.socket.try_clone().map_err(failed)?;
        let (metrics, ends) = (Arc::clone(metrics), Arc::clone(&over));
        thread::Builder::new()
            .name("decisions".to_owned())
            .stack_size(STACK)
            .spawn(move || listen(&socket, &metrics, &ends))
            .map_err(failed)?;
        Ok(Self { bound, over })
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        // Wakes the thread up.
        let _ = self.bound.socket.shutdown(Shutdown::Both);
    }
}

fn listen(socket: &UnixDatagram, metrics: &Metrics, over: &AtomicBool) {
    // One byte more, by which a datagram that is too long is known.
    let mut buffer = vec![0; LARGEST + 1];
    let mut waiting = VecDeque::new();
    let mut warned = false;
    loop {
        // Nothing is left to listen to on an error; a signal does not get here.
        let Ok(length) = socket.recv(&mut buffer) else {
            return;
        };
        waiting.push_back(buffer[..length].to_vec());
        empty(socket, &mut buffer, &mut waiting);
        // A socket that was shut down gives empty datagrams without end.
        if over.load(Ordering::Relaxed) {
            return;
        }
        for datagram in waiting.drain(..) {
            take(&datagram, metrics, &mut warned);
        }
    }
}

/// Empties the kernel's queue before a word is written: it may be as short as 10
/// (`net.unix.max_dgram_qlen`), and pods start in bursts.
fn empty(socket: &UnixDatagram, buffer: &mut [u8], waiting: &mut VecDeque<Vec<u8>>) {
    if socket.set_nonblocking(true).is_err() {
        return;
    }
    while waiting.len() < MOST_WAITING
        && let Ok(length) = socket.recv(buffer)
    {
        waiting.push_back(buffer[..length].to_vec());
    }
    let _ = socket.set_nonblocking(false);
}

fn take(datagram: &[u8], metrics: &Metrics, warned: &mut bool) {
    if let Some(report) = line::read(datagram) {
        line::log(&report);
        metrics.decision(&report);
        return;
    }
    metrics.ignored();
    if !std::mem::replace(warned, true) {
        warn!(
            "A datagram on the log socket is no report of linkerd-cni and is ignored, as all such are from now on"
        );
    }
}
