//! `linkerd-cni-confine CALL,CALL,… PROGRAM ARGUMENT…`: becomes the program, under
//! a filter that refuses every other system call with EPERM, as the profiles of
//! hardened hosts do.

use std::env::{self, consts::ARCH};
use std::os::unix::process::CommandExt;

use anyhow::{Context, Result, anyhow};
use linkerd_cni_integration::process;
use nix::libc::EPERM;
use seccompiler::{TargetArch, apply_filter, compile_from_json};
use serde_json::{Value, json};

fn main() -> Result<()> {
    let mut words = env::args_os().skip(1);
    let calls = words.next().context("which calls?")?;
    let calls: Vec<Value> = calls
        .to_string_lossy()
        .split(',')
        .map(|call| json!({"syscall": call}))
        .collect();
    let filters = json!({"only": {
        "mismatch_action": {"errno": EPERM},
        "match_action": "allow",
        "filter": calls,
    }});
    let arch = TargetArch::try_from(ARCH)?;
    let programs = compile_from_json(filters.to_string().as_bytes(), arch)?;
    let mut command = process::command(words.next().context("which program?")?);
    command.args(words);
    apply_filter(programs.get("only").context("no filter")?)?;
    Err(anyhow!(command.exec()))
}
