//! The image that `deploy/image` packs of the executables under test, taken apart with tar and
//! sha256sum.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::chart::deploy;
use crate::{binaries, process};

/// Packing compresses some 15 MiB, and may fetch a package before.
const DEADLINE: Duration = Duration::from_secs(300);

/// An image: its archive, the archive's content, and the file system in it. Gone when dropped.
#[derive(Debug)]
pub struct Image {
    directory: TempDir,
}

// === impl Image ===

impl Image {
    /// Packs the executables under test, and takes the archive apart.
    ///
    /// # Panics
    ///
    /// If it cannot be packed; with what the script says.
    pub fn pack() -> Self {
        let directory = TempDir::with_prefix("lct-image-").expect("a temporary directory");
        copy(&binaries::plugin(), &directory.path().join("linkerd-cni"));
        let installer = directory.path().join("linkerd-cni-installer");
        copy(&binaries::installer(), &installer);
        let mut command = process::command(deploy().join("image"));
        command.env("DIST", directory.path());
        let packed = process::finish(&mut command, b"", DEADLINE).expect("deploy/image starts");
        let said = String::from_utf8_lossy(&packed.stderr);
        assert!(packed.status.is_some_and(|s| s.success()), "{said}");
        let image = Self { directory };
        image.unpack();
        image
    }

    /// One for all tests that run at the same time; it goes with the last of them.
    ///
    /// # Panics
    ///
    /// As [`Image::pack`].
    pub fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<Image>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let image = Arc::new(Self::pack());
            *shared = Arc::downgrade(&image);
            image
        })
    }

    /// The OCI archive.
    pub fn archive(&self) -> PathBuf {
        self.path("linkerd-cni.oci.tar")
    }

    /// An executable as it was handed to the script.
    pub fn source(&self, name: &str) -> PathBuf {
        self.path(name)
    }

    /// The image's file system.
    pub fn root(&self) -> PathBuf {
        self.path("root")
    }

    /// The archive's content.
    pub fn layout(&self) -> PathBuf {
        self.path("layout")
    }

    /// The image's manifest.
    pub fn manifest(&self) -> Value {
        let index = json(&self.layout().join("index.json"));
        json(&self.blob(&index["manifests"][0]))
    }

    /// The image's configuration.
    pub fn config(&self) -> Value {
        json(&self.blob(&self.manifest()["config"]))
    }

    /// The file that a descriptor names.
    ///
    /// # Panics
    ///
    /// If it does not have the descriptor's size and digest.
    pub fn blob(&self, descriptor: &Value) -> PathBuf {
        let digest = descriptor["digest"].as_str().unwrap_or_default();
        let hex = digest.strip_prefix("sha256:").expect("a SHA-256 digest");
        let path = self.layout().join("blobs/sha256").join(hex);
        let size = fs::metadata(&path).expect("the blob is there").len();
        assert_eq!(descriptor["size"], size, "{descriptor}");
        assert_eq!(sha256(&path), hex);
        path
    }

    /// Runs a program of the image with nothing but the image's file system.
    ///
    /// # Panics
    ///
    /// If it fails, as one does that is not static.
    pub fn run(&self, words: &[&str]) -> String {
        let root = text(&self.root());
        process::run("chroot", &[&[root.as_str()], words].concat()).unwrap_or_else(|error| {
            panic!("{error:#}: an image holds the shipping build, which is static: run deploy/build, and set LINKERD_CNI_BIN and LINKERD_CNI_INSTALLER_BIN to what it built")
        })
    }

    fn unpack(&self) {
        untar(&self.archive(), &self.layout());
        let manifest = self.manifest();
        for layer in manifest["layers"].as_array().into_iter().flatten() {
            untar(&self.blob(layer), &self.root());
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

/// The SHA-256 digest of a file, in hexadecimal digits.
///
/// # Panics
///
/// If it cannot be read.
pub fn sha256(path: &Path) -> String {
    let said = process::run("sha256sum", &[&text(path)]).expect("a digest");
    said.split(' ').next().unwrap_or_default().to_owned()
}

/// A file that holds JSON.
///
/// # Panics
///
/// If it does not.
pub fn json(path: &Path) -> Value {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The shipping build has no symbols; those of another would take minutes to compress.
fn copy(executable: &Path, to: &Path) {
    fs::copy(executable, to).expect("the executable can be copied");
    process::run("strip", &[&text(to)]).expect("it can be stripped");
}

fn untar(archive: &Path, into: &Path) {
    fs::create_dir_all(into).expect("a directory");
    let (archive, into) = (text(archive), text(into));
    process::run("tar", &["-xf", &archive, "-C", &into]).expect("an archive");
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
