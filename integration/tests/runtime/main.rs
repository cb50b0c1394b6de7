//! What must hold on a node with a real runtime: Debian's containerd and runc,
//! driven through CRI as kubelet does, with the real bridge, host-local and
//! portmap plugins, chained by the real installer: its process, or the container
//! from our image.
//!
//! Each test has a node of its own, made of namespaces (`runtime` of the harness).

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed, also in what its tests share"
)]

mod api_server;
mod connections;
mod cri;
mod installed;
mod killed;
mod kubelet;
mod life;
mod machine;
mod pod;
mod pods;
mod present;
mod random;
mod verbs;
