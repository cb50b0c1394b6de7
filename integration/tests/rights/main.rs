//! With how little the plugin gets along: `plugin/RIGHTS.md`.

mod api;
mod capabilities;
mod confined;
