//! The image that `deploy/image` packs: a valid archive, the same each time, with what it needs.

use std::fs;

use linkerd_cni_integration::chart::{Chart, deploy};
use linkerd_cni_integration::image::{Image, json, sha256};
use linkerd_cni_integration::{process, tool};

#[test]
fn every_digest_and_size_of_the_archive_is_right() {
    let image = Image::shared();
    let layout = json(&image.layout().join("oci-layout"));
    assert_eq!(layout["imageLayoutVersion"], "1.0.0");
    let layers = image.manifest()["layers"].as_array().unwrap().clone();
    let differences = &image.config()["rootfs"]["diff_ids"];
    for (layer, difference) in layers.iter().zip(differences.as_array().unwrap()) {
        let directory = tool::scratch();
        let copy = directory.path().join("layer.gz");
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
        let packed = image.source(name);
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

/// Two ways to the same image: what one says of it, the other says too.
#[test]
fn the_dockerfile_describes_the_same_image() {
    let dockerfile = fs::read_to_string(deploy().join("Dockerfile")).unwrap();
    let config = Image::shared().config()["config"].clone();
    let has = |line: &str| assert!(dockerfile.contains(line), "lacks {line}");
    has(&format!("\nENTRYPOINT {}\n", config["Entrypoint"]));
    has(&format!(
        "\nWORKDIR {}\n",
        config["WorkingDir"].as_str().unwrap()
    ));
    for variable in config["Env"].as_array().unwrap() {
        has(&format!("\nENV {}\n", variable.as_str().unwrap()));
    }
    has(&format!("\nARG VERSION={}\n", env!("CARGO_PKG_VERSION")));
    for (label, value) in config["Labels"].as_object().unwrap() {
        let given = match label.rsplit('.').next() {
            Some("version") => "\"$VERSION\"".to_owned(),
            Some("revision") => "\"$REVISION\"".to_owned(),
            _ => value.to_string(),
        };
        has(&format!("{label}={given}"));
    }
}
