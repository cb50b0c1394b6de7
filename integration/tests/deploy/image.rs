//! The image that `deploy/image` packs, taken apart with tar and sha256sum, and run.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use linkerd_cni_integration::chart::{Chart, deploy};
use linkerd_cni_integration::{binaries, process};
use serde_json::Value;
use tempfile::TempDir;

/// Packing compresses some 15 MiB, and may fetch a package before.
const DEADLINE: Duration = Duration::from_secs(300);

/// An image, its archive's blobs and its file system.
struct Image {
    directory: TempDir,
}

impl Image {
    /// Packs the executables under test.
    fn pack() -> Self {
        let directory = TempDir::with_prefix("lct-image-").unwrap();
        for (executable, name) in [
            (binaries::plugin(), "linkerd-cni"),
            (binaries::installer(), "linkerd-cni-installer"),
        ] {
            let copy = directory.path().join(name);
            fs::copy(executable, &copy).unwrap();
            // The shipping build has no symbols; those of another would take minutes to compress.
            process::run("strip", &[copy.to_str().unwrap()]).unwrap();
        }
        let mut command = process::command(deploy().join("image"));
        command.env("DIST", directory.path());
        let packed = process::finish(&mut command, b"", DEADLINE).unwrap();
        let said = String::from_utf8_lossy(&packed.stderr);
        assert!(packed.status.is_some_and(|s| s.success()), "{said}");
        Self { directory }
    }

    /// One that all tests may read.
    fn shared() -> &'static Self {
        static IMAGE: OnceLock<Image> = OnceLock::new();
        IMAGE.get_or_init(|| {
            let image = Self::pack();
            image.unpack();
            image
        })
    }

    fn archive(&self) -> PathBuf {
        self.directory.path().join("linkerd-cni.oci.tar")
    }

    fn root(&self) -> PathBuf {
        self.directory.path().join("root")
    }

    fn layout(&self) -> PathBuf {
        self.directory.path().join("layout")
    }

    fn unpack(&self) {
        untar(&self.archive(), &self.layout());
        for layer in self.manifest()["layers"].as_array().expect("layers") {
            untar(&self.blob(layer), &self.root());
        }
    }

    fn index(&self) -> Value {
        read(&self.layout().join("index.json"))
    }

    fn manifest(&self) -> Value {
        read(&self.blob(&self.index()["manifests"][0]))
    }

    fn config(&self) -> Value {
        read(&self.blob(&self.manifest()["config"]))
    }

    /// The file that a descriptor names, if it has its size and digest.
    fn blob(&self, descriptor: &Value) -> PathBuf {
        let digest = descriptor["digest"].as_str().expect("a digest");
        let hex = digest.strip_prefix("sha256:").expect("SHA-256");
        let path = self.layout().join("blobs/sha256").join(hex);
        let size = fs::metadata(&path).unwrap().len();
        assert_eq!(descriptor["size"], size, "{descriptor}");
        assert_eq!(sha256(&path), hex);
        path
    }

    /// Runs a program of the image in its own file system.
    fn run(&self, words: &[&str]) -> String {
        let root = self.root();
        let root = root.to_str().unwrap();
        process::run("chroot", &[&[root], words].concat()).unwrap_or_else(|error| {
            panic!("{error:#}: the image holds the shipping build, which is static: run deploy/build, and set LINKERD_CNI_BIN and LINKERD_CNI_INSTALLER_BIN to what it built")
        })
    }
}

fn untar(archive: &Path, into: &Path) {
    fs::create_dir_all(into).unwrap();
    let (archive, into) = (archive.to_str().unwrap(), into.to_str().unwrap());
    process::run("tar", &["-xf", archive, "-C", into]).unwrap();
}

fn sha256(path: &Path) -> String {
    let said = process::run("sha256sum", &[path.to_str().unwrap()]).unwrap();
    said.split(' ').next().unwrap().to_owned()
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn every_digest_and_size_of_the_archive_is_right() {
    let image = Image::shared();
    let layout = read(&image.layout().join("oci-layout"));
    assert_eq!(layout["imageLayoutVersion"], "1.0.0");
    let layers = image.manifest()["layers"].as_array().unwrap().clone();
    let differences = &image.config()["rootfs"]["diff_ids"];
    for (layer, difference) in layers.iter().zip(differences.as_array().unwrap()) {
        let copy = image.directory.path().join("layer.gz");
        fs::copy(image.blob(layer), &copy).unwrap();
        process::run("gzip", &["-d", "-f", copy.to_str().unwrap()]).unwrap();
        let plain = format!("sha256:{}", sha256(&copy.with_extension("")));
        assert_eq!(*difference, plain);
    }
    let blobs = fs::read_dir(image.layout().join("blobs/sha256")).unwrap();
    assert_eq!(blobs.count(), 2 + layers.len(), "nothing but what is named");
}

#[test]
fn the_same_executables_give_the_same_bytes() {
    let first = Image::shared();
    assert_eq!(sha256(&Image::pack().archive()), sha256(&first.archive()));
}

#[test]
fn the_executables_are_the_ones_that_were_packed() {
    let image = Image::shared();
    let root = image.root();
    for (name, path) in [
        ("linkerd-cni", "opt/cni/bin/linkerd-cni"),
        (
            "linkerd-cni-installer",
            "usr/local/bin/linkerd-cni-installer",
        ),
    ] {
        let packed = image.directory.path().join(name);
        assert_eq!(sha256(&root.join(path)), sha256(&packed));
    }
    // Everything in there is copied to the nodes.
    let names = fs::read_dir(root.join("opt/cni/bin")).unwrap();
    let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["linkerd-cni"]);
}

#[test]
fn the_executables_run_with_nothing_but_the_image() {
    let image = Image::shared();
    let version = env!("CARGO_PKG_VERSION");
    let entrypoint = image.config()["config"]["Entrypoint"][0].clone();
    let entrypoint = entrypoint.as_str().unwrap();
    for words in [
        &["/opt/cni/bin/linkerd-cni", "--version"],
        &[entrypoint, "--version"],
        // What the present image is started with.
        &["/linkerd/install-cni.sh", "--version"],
    ] {
        let said = image.run(words);
        assert!(said.contains(version), "{words:?}: {said}");
    }
}

#[test]
fn a_command_of_the_present_chart_finds_its_programs() {
    let image = Image::shared();
    // Its preStop, with a signal that kills nobody.
    image.run(&["/bin/sh", "-c", "kill -0 $$; sleep 0s"]);
    let path = image.config()["config"]["Env"][0].clone();
    let path = path
        .as_str()
        .unwrap()
        .trim_start_matches("PATH=")
        .to_owned();
    let find = format!("PATH={path}; command -v install-cni.sh");
    assert_eq!(
        image.run(&["/bin/sh", "-c", &find]).trim(),
        "/linkerd/install-cni.sh"
    );
}

#[test]
fn the_charts_probe_is_the_images_program() {
    let probe = Chart::new().container()["readinessProbe"]["exec"]["command"].clone();
    assert_eq!(
        probe[0],
        Image::shared().config()["config"]["Entrypoint"][0]
    );
    assert_eq!(probe[1], "status");
}
