//! A container runtime of a test's own, on a node of its own.
//!
//! The node is a process namespace, a mount namespace and a network namespace:
//! what runs in them sees an empty `/run`, a `/var/lib/cni` of its own, and a
//! network in which nothing is but loopback. The host's network, records and
//! leases are never touched, tests that run at once never meet, and when the
//! node ends, however it ends, the kernel takes its processes and mounts along.

pub use self::cgroup::Cgroup;
pub use self::containerd::Containerd;
pub use self::image::PAUSE;
pub use self::namespaces::Namespaces;

mod cgroup;
mod containerd;
mod image;
mod namespaces;
