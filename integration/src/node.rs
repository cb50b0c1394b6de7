//! A node in a temporary directory, and the installer on it.
//!
//! The host's directories, the image's and the service account's are real
//! directories; the installer is the real process. What it did is read back as
//! bytes, metadata and its log.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

use crate::process::{self, Finished};
use crate::{binaries, fixtures};

/// How long anything that must happen is waited for. Nothing is late before.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// The kubeconfig's name on the node.
pub const KUBECONFIG: &str = "ZZZ-linkerd-cni-kubeconfig";

/// The node's name.
pub const NAME: &str = "node-7";

/// The plugins whose executables a node of the fixtures has.
const PLUGINS: [&str; 14] = [
    "aws-cni",
    "azure-vnet",
    "bandwidth",
    "bridge",
    "calico",
    "cilium-cni",
    "egress-cni",
    "firewall",
    "flannel",
    "multus",
    "openshift-sdn",
    "ovn-k8s-cni-overlay",
    "portmap",
    "ptp",
];

/// A node; its installer is killed and its files go when it is dropped.
pub struct Node {
    root: TempDir,
    env: BTreeMap<String, String>,
    running: Option<Child>,
}

/// What a file is, apart from its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Permissions.
    pub mode: u32,
    /// User and group.
    pub owner: (u32, u32),
}

// === impl Node ===

impl Node {
    /// An empty node: directories, the other plugins' executables, a service
    /// account, and the seed's template in the environment.
    ///
    /// # Panics
    ///
    /// If the directories cannot be made.
    pub fn new() -> Self {
        let node = Self {
            root: TempDir::with_prefix("node.").expect("a temporary directory"),
            env: BTreeMap::new(),
            running: None,
        };
        for dir in [
            node.net_dir(),
            node.bin_dir(),
            node.image(),
            node.path("run"),
        ] {
            fs::create_dir_all(dir).expect("a directory");
        }
        for plugin in PLUGINS {
            fs::copy("/bin/true", node.bin_dir().join(plugin)).expect("a plugin");
        }
        fs::copy("/bin/true", node.image().join("linkerd-cni")).expect("our plugin");
        node.rotate_token("e30.e30.first");
        node.with_defaults()
    }

    fn with_defaults(mut self) -> Self {
        let template = fixtures::text("linkerd/template-seed.json");
        let paths = [
            ("CONTAINER_MOUNT_PREFIX", self.path("host")),
            ("CONTAINER_CNI_BIN_DIR", self.image()),
            ("SERVICE_ACCOUNT_DIR", self.service_account()),
            ("STATE_DIR", self.path("run/state")),
        ];
        for (name, path) in paths {
            self.set(name, &path.to_string_lossy());
        }
        self.set("CNI_NETWORK_CONFIG", &template);
        self.set("KUBERNETES_SERVICE_HOST", "10.60.0.1");
        self.set("KUBERNETES_SERVICE_PORT", "443");
        self.set("KUBERNETES_NODE_NAME", NAME);
        self
    }

    /// Sets a variable of the installer's environment.
    pub fn set(&mut self, name: &str, value: &str) {
        self.env.insert(name.to_owned(), value.to_owned());
    }

    /// Takes a variable out of the installer's environment.
    pub fn unset(&mut self, name: &str) {
        self.env.remove(name);
    }

    /// A path in the node's temporary directory.
    pub fn path(&self, relative: &str) -> PathBuf {
        self.root.path().join(relative)
    }

    /// The host's configuration directory.
    pub fn net_dir(&self) -> PathBuf {
        self.path("host/etc/cni/net.d")
    }

    /// The host's executables.
    pub fn bin_dir(&self) -> PathBuf {
        self.path("host/opt/cni/bin")
    }

    /// Our executables in the image.
    pub fn image(&self) -> PathBuf {
        self.path("image")
    }

    /// The service account's directory.
    pub fn service_account(&self) -> PathBuf {
        self.path("account")
    }

    /// A file in the configuration directory.
    pub fn conf(&self, name: &str) -> PathBuf {
        self.net_dir().join(name)
    }

    /// Our executable on the host.
    pub fn executable(&self) -> PathBuf {
        self.bin_dir().join("linkerd-cni")
    }

    /// The kubeconfig on the host.
    pub fn kubeconfig(&self) -> PathBuf {
        self.conf(KUBECONFIG)
    }

    /// Writes a file into the configuration directory, as an agent does that
    /// knows nothing of renaming.
    ///
    /// # Panics
    ///
    /// If it cannot be written.
    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.conf(name), bytes).expect("a configuration is written");
    }

    /// Renames a file into the configuration directory.
    ///
    /// # Panics
    ///
    /// If it cannot be renamed.
    pub fn rename_in(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let other = self.path(&format!("host/{name}.elsewhere"));
        fs::write(&other, bytes).expect("a file is written");
        fs::rename(&other, self.conf(name)).expect("a file is renamed");
    }

    /// Drops a configuration of the fixtures in, with mode 0644.
    ///
    /// # Panics
    ///
    /// If there is no such fixture.
    pub fn drop_in(&self, fixture: &str) -> Vec<u8> {
        let bytes = fixture_bytes(fixture);
        let name = fixture.rsplit('/').next().unwrap_or(fixture);
        self.write(name, &bytes);
        fs::set_permissions(self.conf(name), Permissions::from_mode(0o644)).expect("chmod");
        bytes
    }

    /// Swaps the token as kubelet does: a new directory, and a link to it that
    /// is renamed over `..data`.
    ///
    /// # Panics
    ///
    /// If it cannot be swapped.
    pub fn rotate_token(&self, token: &str) {
        let account = self.service_account();
        let version = format!("..version_{:?}", Instant::now()).replace(['{', '}', ' ', ':'], "");
        let new = account.join(&version);
        fs::create_dir_all(&new).expect("a directory");
        for (name, text) in [
            ("token", token),
            ("namespace", "linkerd-cni"),
            ("ca.crt", "CA\n"),
        ] {
            let old = account.join("..data").join(name);
            let text = if name == "token" {
                None
            } else {
                fs::read_to_string(old).ok()
            }
            .unwrap_or_else(|| text.to_owned());
            fs::write(new.join(name), text).expect("a file of the account");
            let _ = symlink(format!("..data/{name}"), account.join(name));
        }
        let old = fs::read_link(account.join("..data"));
        symlink(&version, account.join("..data_tmp")).expect("a link");
        fs::rename(account.join("..data_tmp"), account.join("..data")).expect("a swap");
        if let Ok(old) = old {
            fs::remove_dir_all(account.join(old)).expect("the old version goes");
        }
    }

    /// Puts this CA into the service account.
    ///
    /// # Panics
    ///
    /// If it cannot be written.
    pub fn trust(&self, ca: &str) {
        fs::write(self.service_account().join("ca.crt"), ca).expect("a CA");
    }

    /// The installer's command for this node, behind a program that starts it
    /// (`unshare`, `strace`) if there is one.
    pub fn command(&self, before: &[&str], args: &[&str]) -> Command {
        let installer = binaries::installer();
        let mut command = match before {
            [] => process::command(&installer),
            [program, rest @ ..] => {
                let mut command = process::command(program);
                command.args(rest).arg(&installer);
                command
            }
        };
        command
            .args(args)
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .envs(&self.env);
        command
    }

    /// Runs the installer to its end.
    ///
    /// # Panics
    ///
    /// If it cannot be started, or does not end.
    pub fn run(&self, args: &[&str]) -> Finished {
        let finished = process::finish(&mut self.command(&[], args), b"", DEADLINE)
            .expect("the installer starts");
        assert!(
            finished.status.is_some(),
            "the installer does not end: {args:?}"
        );
        finished
    }

    /// Installs once (`SLEEP=false`) and returns the log.
    ///
    /// # Panics
    ///
    /// If it fails.
    pub fn install_once(&self) -> String {
        let finished = self.run(&["--sleep=false"]);
        let log = String::from_utf8_lossy(&finished.stderr).into_owned();
        assert!(finished.status.is_some_and(|s| s.success()), "{log}");
        log
    }

    /// Uninstalls and returns what it said.
    ///
    /// # Panics
    ///
    /// If it fails.
    pub fn uninstall(&self) -> String {
        let finished = self.run(&["uninstall"]);
        let said = String::from_utf8_lossy(&finished.stdout).into_owned();
        assert!(finished.status.is_some_and(|s| s.success()), "{said}");
        said
    }

    /// Starts the installer and waits until it watches.
    ///
    /// # Panics
    ///
    /// If it does not come that far.
    pub fn start(&mut self) {
        self.start_behind(&[]);
        self.wait("the kubeconfig", |node| node.kubeconfig().exists());
    }

    /// Starts the installer behind another program, and does not wait.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn start_behind(&mut self, before: &[&str]) {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.path("log"))
            .expect("a log");
        let child = self
            .command(before, &[])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("the installer starts");
        self.running = Some(child);
    }

    /// Everything that running installers of this node have logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// How many lines of the log contain this.
    pub fn logged(&self, text: &str) -> usize {
        self.log()
            .lines()
            .filter(|line| line.contains(text))
            .count()
    }

    /// The running installer's process id; of the outermost program if it was
    /// started behind another.
    ///
    /// # Panics
    ///
    /// If none was started.
    pub fn pid(&self) -> u32 {
        self.running.as_ref().expect("an installer runs").id()
    }

    /// Whether the installer still runs.
    pub fn is_alive(&mut self) -> bool {
        self.running
            .as_mut()
            .is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// Sends a signal to the installer and waits for its end.
    ///
    /// # Panics
    ///
    /// If it does not end.
    pub fn stop(&mut self, signal: Signal) -> ExitStatus {
        send(self.pid(), signal);
        self.ended()
    }

    /// Waits for the end of the installer.
    ///
    /// # Panics
    ///
    /// If it does not end.
    pub fn ended(&mut self) -> ExitStatus {
        let mut child = self.running.take().expect("an installer runs");
        let until = Instant::now() + DEADLINE;
        loop {
            if let Some(status) = child.try_wait().expect("a child can be waited for") {
                return status;
            }
            if Instant::now() > until {
                let _ = child.kill();
                panic!("the installer does not end; its log:\n{}", self.log());
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits until something holds.
    ///
    /// # Panics
    ///
    /// If it does not come to hold, with the log and the directory.
    pub fn wait(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let until = Instant::now() + DEADLINE;
        while !holds(self) {
            if Instant::now() > until {
                panic!(
                    "{what} was waited for in vain; there is {:?}; the log:\n{}",
                    self.names(),
                    self.log()
                );
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits until a configuration is chained.
    ///
    /// # Panics
    ///
    /// If it does not come to be.
    pub fn wait_chained(&self, name: &str) {
        self.wait(&format!("{name} chained"), |node| node.is_chained(name));
    }

    /// Whether a file is a list that ends with the one entry of ours.
    pub fn is_chained(&self, name: &str) -> bool {
        fs::read(self.conf(name)).is_ok_and(|bytes| is_chained(&bytes))
    }

    /// Each regular file of the configuration directory but the kubeconfig.
    ///
    /// # Panics
    ///
    /// If the directory cannot be read.
    pub fn files(&self) -> BTreeMap<String, State> {
        let mut files = BTreeMap::new();
        for name in self.names().into_iter().filter(|name| name != KUBECONFIG) {
            let path = self.conf(&name);
            // A FIFO would be waited for.
            let regular = fs::metadata(&path).is_ok_and(|m| m.is_file());
            if regular && let Ok(state) = State::of(&path) {
                files.insert(name, state);
            }
        }
        files
    }

    /// The names in the configuration directory.
    ///
    /// # Panics
    ///
    /// If the directory cannot be read.
    pub fn names(&self) -> Vec<String> {
        names(&self.net_dir())
    }

    /// Checks what must hold at every instant, whatever was interrupted: no
    /// configuration without the executable it names, none that is not JSON
    /// unless it was left that way, and no kubeconfig that others can read.
    ///
    /// # Panics
    ///
    /// If it does not hold.
    pub fn assert_sound(&self, when: &str) {
        let chained = self.names().iter().any(|name| {
            is_configuration(name)
                && fs::read_to_string(self.conf(name)).is_ok_and(|t| t.contains("linkerd-cni"))
        });
        if chained {
            let metadata = fs::metadata(self.executable());
            let whole = metadata.is_ok_and(|m| m.mode() & 0o111 != 0);
            assert!(
                whole && same(&self.executable(), &self.image().join("linkerd-cni")),
                "{when}: no executable"
            );
            assert!(self.kubeconfig().exists(), "{when}: no kubeconfig");
        }
        for name in self.names().iter().filter(|name| is_configuration(name)) {
            let bytes = fs::read(self.conf(name)).unwrap_or_default();
            let json: Result<Value, _> = serde_json::from_slice(&bytes);
            assert!(
                json.is_ok(),
                "{when}: {name} is not JSON: {:?}",
                String::from_utf8_lossy(&bytes)
            );
        }
    }
}

impl Default for Node {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(child) = &mut self.running {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

// === impl State ===

impl State {
    /// The state of a file.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub fn of(path: &Path) -> std::io::Result<Self> {
        let metadata = fs::metadata(path)?;
        Ok(Self {
            bytes: fs::read(path)?,
            mode: metadata.mode() & 0o7777,
            owner: (metadata.uid(), metadata.gid()),
        })
    }
}

/// Whether a text is a list whose last plugin, and only that, is ours.
pub fn is_chained(bytes: &[u8]) -> bool {
    let list: Value = serde_json::from_slice(bytes).unwrap_or_default();
    let types: Vec<_> = list["plugins"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|p| p["type"].as_str())
        .collect();
    types.len() > 1
        && types.last() == Some(&Some("linkerd-cni"))
        && types.iter().filter(|t| **t == Some("linkerd-cni")).count() == 1
}

/// The bytes of a fixture, given relative to `integration/fixtures/`.
///
/// # Panics
///
/// If there is no such fixture.
pub fn fixture_bytes(relative: &str) -> Vec<u8> {
    let path = fixtures::path(relative);
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The names of the files of a fixture directory.
///
/// # Panics
///
/// If there is no such directory.
pub fn fixture_names(dir: &str) -> Vec<String> {
    names(&fixtures::path(dir))
}

/// Sends a signal to a process.
///
/// # Panics
///
/// If there is no such process.
pub fn send(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).expect("a process id"));
    kill(pid, signal).expect("the process is there");
}

/// Whether libcni would look at a file of this name.
pub fn is_configuration(name: &str) -> bool {
    [".conf", ".conflist", ".json"]
        .iter()
        .any(|extension| name.ends_with(extension))
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let mut names: Vec<_> = entries
        .flatten()
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn same(a: &Path, b: &Path) -> bool {
    matches!((fs::read(a), fs::read(b)), (Ok(a), Ok(b)) if a == b)
}
