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
    time::Instant,
};

use proxy_init_rules::report::{LARGEST, SOCKET};
use tracing::{info, warn};

use crate::{
    desired,
    files::{self, Bound, FileError},
    metrics::Metrics,
    settings::Settings,
    swapped::Swapped,
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
    heard: Heard,
    listening: Option<Listening>,
    said: String,
}

/// Who learns of a decision.
#[derive(Clone, Debug)]
pub struct Heard {
    /// Counts it.
    pub metrics: Arc<Metrics>,
    /// Looks whether the plugin complains of what is in order here.
    pub swapped: Arc<Swapped>,
    /// Where that is.
    pub settings: Settings,
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
    pub fn new(heard: Heard) -> Self {
        Self {
            path: files::under(&heard.settings.prefix, Path::new(SOCKET)),
            heard,
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
        match Listening::start(&self.path, &self.heard) {
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
    fn start(path: &Path, heard: &Heard) -> Result<Self, FileError> {
        let failed = |source| FileError::Io {
            doing: "listening on",
            path: path.to_owned(),
            source,
        };
        let bound = files::bind(path)?;
        let over = Arc::new(AtomicBool::new(false));
        let socket = bound.socket.try_clone().map_err(failed)?;
        let (heard, ends) = (heard.clone(), Arc::clone(&over));
        thread::Builder::new()
            .name("decisions".to_owned())
            .stack_size(STACK)
            .spawn(move || listen(&socket, &heard, &ends))
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

fn listen(socket: &UnixDatagram, heard: &Heard, over: &AtomicBool) {
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
            take(&datagram, heard, &mut warned);
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

fn take(datagram: &[u8], heard: &Heard, warned: &mut bool) {
    if let Some(report) = line::read(datagram) {
        line::log(&report);
        heard.metrics.decision(&report);
        let in_order = || desired::is_in_order(&heard.settings);
        heard.swapped.hear(&report, in_order, Instant::now());
        return;
    }
    heard.metrics.ignored();
    if !std::mem::replace(warned, true) {
        warn!(
            "A datagram on the log socket is no report of linkerd-cni and is ignored, as all such are from now on"
        );
    }
}
