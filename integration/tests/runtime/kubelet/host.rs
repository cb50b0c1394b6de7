//! A machine on which the rendered paths are the node's own.

use std::net::IpAddr;
use std::sync::Arc;

use linkerd_cni_integration::image::Image;
use linkerd_cni_integration::plugin::DEADLINE;
use linkerd_cni_integration::process::finish;

use super::IMAGE;
use crate::machine::{ADDRESS, Machine};

/// Puts the node's two directories (`$1`, `$2`) where runtimes have them. What is
/// there on the machine is neither seen nor touched, and need not be there.
const MOUNT: &str = "set -e
cp -a /etc /run/etc
mount --bind /run/etc /etc
mount -t tmpfs -o mode=755 node /opt
mkdir -p /etc/cni/net.d /opt/cni/bin
mount --bind \"$1\" /etc/cni/net.d
mount --bind \"$2\" /opt/cni/bin";

impl Machine {
    /// A node without a network, whose runtime has the image, and whose API server
    /// is reached at [`ADDRESS`] from pods too.
    pub(crate) fn with_image() -> Self {
        // Packed once for all that run at the same time.
        let image: Arc<Image> = Image::shared();
        let machine = Self::new();
        let mut command = machine.namespaces.command("sh");
        command.args(["-c", MOUNT, "sh"]);
        command.args([machine.node.net_dir(), machine.node.bin_dir()]);
        let mounted = finish(&mut command, b"", DEADLINE).unwrap();
        let well = mounted.status.is_some_and(|status| status.success());
        assert!(well, "{}", String::from_utf8_lossy(&mounted.stderr));
        let address: IpAddr = ADDRESS.parse().unwrap();
        machine.namespaces.enter(|| machine.api.listen_on(address));
        machine.containerd.import(&image.archive()).unwrap();
        let name = format!("{IMAGE}:{}", env!("CARGO_PKG_VERSION"));
        machine.cri.wait_image(&name);
        machine
    }
}
