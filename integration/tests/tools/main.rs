//! CHECK, STATUS, GC and the command line, shown from outside: against what
//! `iptables` itself did, and where real connections landed.

mod check_all;
mod costs;
mod elsewhere;
mod explain;
mod foreign;
mod gc;
mod matrix;
mod native_matrix;
mod notes;
mod other_plugin;
mod status;
mod status_command;
mod usage;
