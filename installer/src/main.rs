//! Keeps a node chained.
fn main() {}
