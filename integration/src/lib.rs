//! The harness of the tests: the executables as black boxes, real network
//! namespaces, real TCP connections, and an API server that can misbehave.
//!
//! Nothing here looks inside the crates under test. What they did is judged by
//! independent tools: `iptables-save`, `nft`, the kernel's `SO_ORIGINAL_DST`,
//! and the requests that a server really received.
//!
//! A test usually starts from a [`stage::Stage`]: a network namespace, an API
//! server with one pod in it, and a kubeconfig that leads there. Everything a
//! stage makes is taken away when it is dropped, also when the test panics.

pub mod api_server;
pub mod backends;
pub mod binaries;
pub mod chain;
pub mod chart;
pub mod cnitool;
pub mod exposition;
pub mod fake;
pub mod fixtures;
pub mod http;
pub mod image;
pub mod kubeconfig;
pub mod netns;
pub mod node;
pub mod plugin;
pub mod process;
pub mod rules;
pub mod runtime;
pub mod stage;
pub mod tool;
pub mod trace;
pub mod traffic;
pub mod verdicts;
