//! The `linkerd` configuration schema, the annotations that change it for one pod, and the
//! redirect rules made from both.
//!
//! Everything here is pure: no files, no processes, no clock, no logging. Untrusted text goes in
//! through parsers and comes out as typed values; rules are rendered from typed values only.
//!
//! ```
//! use proxy_init_rules::{Config, Family, RawConfig, RuleSet};
//!
//! let raw: RawConfig = serde_json::from_str(
//!     r#"{"incoming-proxy-port": 4143, "outgoing-proxy-port": 4140, "proxy-uid": 2102}"#,
//! )
//! .unwrap();
//! let config = Config::try_from(raw).unwrap();
//! let rules = RuleSet::new(&config, Family::Ipv4);
//! assert!(rules.render_install().starts_with("*nat\n"));
//! ```

pub mod annotation;
pub mod config;
pub mod difference;
pub mod interface;
pub mod log_file;
pub mod overrides;
pub mod parse;
pub mod port;
pub mod proxy_ports;
mod render;
pub mod report;
pub mod rule;
pub mod ruleset;
pub mod subnet;
pub mod walk;

pub use annotation::{Annotated, AnnotationError, Suggestion, suggestions};
pub use config::{Config, ConfigError, Id, IptablesMode, RawConfig};
pub use difference::{Difference, difference, difference_in_effect, taken};
pub use interface::{Interface, InterfaceError};
pub use log_file::{LogFile, LogFileError};
pub use overrides::Overrides;
pub use parse::{NatTable, ParseError};
pub use port::{Port, PortError, PortRange};
pub use proxy_ports::{Listener, ProxyPorts};
pub use render::render_uninstall;
pub use rule::{Action, Chain, Condition, Family, PortGroup, Rule};
pub use ruleset::RuleSet;
pub use walk::{Connection, End, Outcome, Step, Walk, Way, walk};
