//! t
pub mod conflist;
pub mod kubeconfig;
pub mod plan;
pub mod settings;
pub mod template;
