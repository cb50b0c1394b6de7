//! The pod's network namespace: opening, locking and entering it. The only `setns`.

use std::{
    fs::{self, File, Metadata},
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, FdFlag, Flock, FlockArg, fcntl},
    sched::{CloneFlags, setns},
    sys::statfs::{NSFS_MAGIC, fstatfs},
    unistd::geteuid,
};
use proxy_init_rules::Family;

/// How long another run on the same namespace is waited for.
pub(crate) const LOCK_WAIT: Duration = Duration::from_secs(5);

const OWN: &str = "/proc/self/ns/net";

/// Where the calling thread is, which need not be where the process is.
const HOME: &str = "/proc/thread-self/ns/net";

/// A network namespace that is not our own.
#[derive(Debug)]
pub(crate) struct Namespace {
    file: File,
    path: PathBuf,
}

/// Tells one namespace from another, whatever their paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
}

/// Holds off other runs on the same namespace until it is dropped. The lock lies on the namespace
/// itself, so it leaves nothing behind and never makes one pod wait for another.
#[derive(Debug)]
pub(crate) struct Lock(Option<Flock<File>>);

/// A thread in a foreign namespace, and the way home, which it also takes when it panics.
struct Abroad(Option<File>);

/// Why a namespace cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum NetnsError {
    /// The path cannot be opened.
    #[error("network namespace {path} cannot be opened", path = .path.display())]
    Open {
        /// `CNI_NETNS`.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is something else.
    #[error("{path} is not a network namespace", path = .path.display())]
    NotANamespace {
        /// `CNI_NETNS`.
        path: PathBuf,
        /// What the kernel said, if it was asked.
        source: Option<Errno>,
    },
    /// It is the namespace that we run in.
    #[error(
        "{path} is the plugin's own network namespace; redirecting it would redirect the host",
        path = .path.display()
    )]
    Own {
        /// `CNI_NETNS`.
        path: PathBuf,
    },
    /// Another run holds the lock.
    #[error(
        "another run of this plugin holds the lock on network namespace {path} for longer than \
         {seconds} s",
        path = .path.display(), seconds = LOCK_WAIT.as_secs()
    )]
    Locked {
        /// `CNI_NETNS`.
        path: PathBuf,
    },
    /// A system call failed.
    #[error("network namespace {path}: {what}", path = .path.display())]
    System {
        /// `CNI_NETNS`.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

impl Namespace {
    /// Opens the namespace and makes sure that it is one, and not our own.
    ///
    /// # Errors
    /// It cannot be opened, is none, or is the one we run in (device and inode compared).
    pub(crate) fn open(path: &Path) -> Result<Self, NetnsError> {
        let path = path.to_path_buf();
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(source) => return Err(NetnsError::Open { path, source }),
        };
        let not_a_namespace = |path, source| NetnsError::NotANamespace { path, source };
        match fstatfs(&file) {
            Ok(stat) if stat.filesystem_type() == NSFS_MAGIC => {}
            Ok(_) => return Err(not_a_namespace(path, None)),
            Err(errno) => {
                let what = "cannot be told from an ordinary file";
                let source = errno.into();
                return Err(NetnsError::System { path, what, source });
            }
        }
        let same = own().and_then(|own| Ok(own == Identity::of(&file.metadata()?)));
        match same {
            Ok(false) => {}
            Ok(true) => return Err(NetnsError::Own { path }),
            Err(source) => {
                let what = "cannot be told from our own";
                return Err(NetnsError::System { path, what, source });
            }
        }
        let namespace = Self { file, path };
        // A mount or user namespace is on the same file system; only the kernel tells.
        namespace.visit()?;
        Ok(namespace)
    }

    /// Takes the lock, waiting at most [`LOCK_WAIT`].
    ///
    /// # Errors
    /// It stays held, or cannot be taken at all.
    pub(crate) fn lock(&self) -> Result<Lock, NetnsError> {
        let started = Instant::now();
        let mut pause = Duration::from_millis(1);
        loop {
            // Opened anew: a duplicated descriptor would share its lock with ours.
            let file = File::open(&self.path).map_err(|source| NetnsError::Open {
                path: self.path.clone(),
                source,
            })?;
            match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(lock) => {
                    outlives_us(&lock)
                        .map_err(|errno| self.system("cannot be locked", errno.into()))?;
                    return Ok(Lock(Some(lock)));
                }
                Err((_, Errno::EWOULDBLOCK)) if started.elapsed() < LOCK_WAIT => {
                    // `sleep` would panic where a filter refuses its system call.
                    std::thread::park_timeout(pause);
                    pause = (pause * 2).min(Duration::from_millis(50));
                }
                Err((_, Errno::EWOULDBLOCK)) => {
                    let path = self.path.clone();
                    return Err(NetnsError::Locked { path });
                }
                Err((_, errno)) => return Err(self.system("cannot be locked", errno.into())),
            }
        }
    }

    /// In and out again.
    fn visit(&self) -> Result<(), NetnsError> {
        // What comes next may ask the API server, and must not do so from in there.
        self.inside(|| ())?.1
    }

    /// Runs `work` inside the namespace, on the calling thread: what it spawns is inside too.
    ///
    /// # Errors
    /// The namespace cannot be entered; `work` has not run then.
    ///
    /// # Panics
    /// If `work` does.
    pub(crate) fn enter<T>(&self, work: impl FnOnce() -> T) -> Result<T, NetnsError> {
        let (value, left) = self.inside(work)?;
        if let Err(error) = left {
            // Nothing but a filter of system calls can bring this about. The work has been done; only
            // `check` still asks the API server after it, and says so if there is no answer.
            tracing::warn!(%error, "Going on inside a network namespace");
        }
        Ok(value)
    }

    /// Runs `work` inside, and tells whether the thread is back where it was. A thread of its own
    /// for it would take longer than all the rest.
    fn inside<T>(
        &self,
        work: impl FnOnce() -> T,
    ) -> Result<(T, Result<(), NetnsError>), NetnsError> {
        let home = File::open(HOME);
        let home = home.map_err(|source| self.system("cannot be told from others", source))?;
        setns(&self.file, CloneFlags::CLONE_NEWNET).map_err(|errno| self.refused(errno))?;
        let mut abroad = Abroad(Some(home));
        let value = work();
        let left = abroad.leave();
        let left =
            left.map_err(|errno| self.system("was entered and cannot be left", errno.into()));
        Ok((value, left))
    }

    /// What tells it from other namespaces.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub(crate) fn identity(&self) -> Result<Identity, NetnsError> {
        let metadata = self.file.metadata();
        let told = metadata.map(|metadata| Identity::of(&metadata));
        told.map_err(|source| self.system("cannot be told from others", source))
    }

    fn refused(&self, errno: Errno) -> NetnsError {
        match errno {
            Errno::EINVAL => NetnsError::NotANamespace {
                path: self.path.clone(),
                source: Some(errno),
            },
            Errno::EPERM => {
                let what = "cannot be entered: that takes CAP_SYS_ADMIN, and a seccomp filter that \
                            allows setns";
                self.system(what, errno.into())
            }
            _ => self.system("cannot be entered", errno.into()),
        }
    }

    fn system(&self, what: &'static str, source: io::Error) -> NetnsError {
        NetnsError::System {
            path: self.path.clone(),
            what,
            source,
        }
    }
}

// === impl Abroad ===

impl Abroad {
    fn leave(&mut self) -> nix::Result<()> {
        let home = self.0.take();
        home.map_or(Ok(()), |home| setns(home, CloneFlags::CLONE_NEWNET))
    }
}

impl Drop for Abroad {
    fn drop(&mut self) {
        // Only where the work has panicked is anything left to do, and there is nobody left to tell.
        let _ = self.leave();
    }
}

// === impl Lock ===

impl Drop for Lock {
    fn drop(&mut self) {
        if let Some(Err((lock, _))) = self.0.take().map(Flock::unlock) {
            // Dropping it would panic. The end of this process lets go of it as well.
            std::mem::forget(lock);
        }
    }
}

// === impl Identity ===

impl Identity {
    /// Of a file that is a namespace. `/proc/PID/ns/net` need not be opened for it.
    #[must_use]
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
        }
    }
}

/// The namespace that we run in.
///
/// # Errors
/// The kernel does not tell.
pub(crate) fn own() -> io::Result<Identity> {
    fs::metadata(OWN).map(|metadata| Identity::of(&metadata))
}

/// A file of every network namespace that belongs to the root of the user namespace that owns it,
/// seen with the eyes of the thread that asks.
const OWNED: &str = "/proc/sys/net/core/somaxconn";

/// Whether the network namespace of the calling thread is owned by another user namespace than
/// ours. One whose root is our own root is not told apart.
#[must_use]
pub(crate) fn is_of_another_user() -> bool {
    let owner = fs::metadata(OWNED).map(|metadata| metadata.uid());
    owner.is_ok_and(|owner| owner != geteuid().as_raw())
}

/// Whether the legacy `nat` table of a family is there in the network namespace of the calling
/// thread. Asking does not bring it into being.
#[must_use]
pub(crate) fn has_legacy_nat(family: Family) -> bool {
    // One thread at a time: kernels were seen to spin when several of a process, each in a
    // namespace of its own, read these files at once.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let tables = fs::read_to_string(match family {
        Family::Ipv4 => "/proc/thread-self/net/ip_tables_names",
        Family::Ipv6 => "/proc/thread-self/net/ip6_tables_names",
    });
    tables.is_ok_and(|names| names.lines().any(|name| name == "nat"))
}

/// Lets what we start hold the lock as well: if we are killed, a program that goes on without us
/// must not change the rules after the next run has left.
fn outlives_us(lock: &Flock<File>) -> nix::Result<()> {
    fcntl(&**lock, FcntlArg::F_SETFD(FdFlag::empty())).map(|_| ())
}
