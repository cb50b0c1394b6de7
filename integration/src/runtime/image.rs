//! The image that holds a pod's namespaces, made here.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::process;

/// Its name. The domain is one that never is, so that nobody is asked for it.
pub const PAUSE: &str = "linkerd-cni.invalid/pause:1";

/// What it runs: waits, until it is told to end.
const ENTRYPOINT: [&str; 4] = [
    "/bin/busybox",
    "sh",
    "-c",
    "trap 'exit 0' TERM INT; while :; do /bin/busybox sleep 3600 & wait; done",
];

const BUSYBOX: &str = "/bin/busybox";

/// Writes the image as an OCI archive into a directory; returns its path.
///
/// # Errors
///
/// A file cannot be written, or busybox is not the static one.
pub(super) fn archive(directory: &Path) -> Result<PathBuf> {
    let (content, layout) = (directory.join("pause"), directory.join("pause.oci"));
    fs::create_dir_all(content.join("bin"))?;
    fs::create_dir_all(layout.join("blobs/sha256"))?;
    let headers = process::run("readelf", &["--program-headers", BUSYBOX])?;
    if headers.contains("INTERP") {
        bail!("{BUSYBOX} needs libraries, which the image has not: install busybox-static");
    }
    fs::copy(BUSYBOX, content.join("bin/busybox"))?;
    let layer = directory.join("layer.tar");
    tar(&content, &layer)?;
    let layer = blob(&layout, &fs::read(layer)?, "layer.v1.tar")?;
    let image = json!({
        "architecture": architecture()?,
        "os": "linux",
        "config": {"Entrypoint": ENTRYPOINT},
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]},
    });
    let image = blob(&layout, image.to_string().as_bytes(), "config.v1+json")?;
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": media("manifest.v1+json"),
        "config": image,
        "layers": [layer],
    });
    let mut manifest = blob(&layout, manifest.to_string().as_bytes(), "manifest.v1+json")?;
    manifest["annotations"] = json!({"io.containerd.image.name": PAUSE});
    let index = json!({"schemaVersion": 2, "manifests": [manifest]});
    fs::write(layout.join("index.json"), index.to_string())?;
    fs::write(
        layout.join("oci-layout"),
        r#"{"imageLayoutVersion":"1.0.0"}"#,
    )?;
    let archive = directory.join("pause.tar");
    tar(&layout, &archive)?;
    Ok(archive)
}

/// Writes a blob; returns its descriptor.
fn blob(layout: &Path, bytes: &[u8], kind: &str) -> Result<Value> {
    let new = layout.join("blobs/sha256/new");
    fs::write(&new, bytes)?;
    let summed = process::run("sha256sum", &[text(&new)?])?;
    let digest = summed.split(' ').next().context("sha256sum says nothing")?;
    fs::rename(&new, new.with_file_name(digest))?;
    Ok(json!({
        "mediaType": media(kind),
        "digest": format!("sha256:{digest}"),
        "size": bytes.len(),
    }))
}

fn media(kind: &str) -> String {
    format!("application/vnd.oci.image.{kind}")
}

fn tar(content: &Path, archive: &Path) -> Result<()> {
    process::run("tar", &["-C", text(content)?, "-cf", text(archive)?, "."])?;
    Ok(())
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a path that is not UTF-8")
}

/// As Go calls it.
fn architecture() -> Result<&'static str> {
    match std::env::consts::ARCH {
        "x86_64" => Ok("amd64"),
        "aarch64" => Ok("arm64"),
        other => bail!("no name is known for the architecture {other}"),
    }
}
