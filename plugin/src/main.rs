//! The linkerd CNI plugin.
fn main() {}
