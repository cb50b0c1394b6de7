# Sourced by demo and test: what both need of the machine.
# shellcheck shell=bash

say() {
  printf '%s\n' "-- $*" >&2
}

die() {
  say "$*"
  exit 1
}

need_root() {
  [ "$(id -u)" = 0 ] || die "run this as root: it makes network namespaces"
  command -v cargo >/dev/null || die "no cargo: install a Rust toolchain (https://rustup.rs)"
}

# need_programs PROGRAM:PACKAGE... installs the packages whose programs are missing.
need_programs() {
  local pair packages=()
  PATH=$PATH:/usr/sbin:/sbin
  for pair in "$@"; do
    command -v "${pair%%:*}" >/dev/null || packages+=("${pair##*:}")
  done
  [ ${#packages[@]} -eq 0 ] || need_packages "${packages[@]}"
}

# need_packages PACKAGE... installs them.
need_packages() {
  command -v apt-get >/dev/null || die "not on this machine, and no apt-get: $*"
  say "installing with apt-get: $*"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq >/dev/null
  apt-get install -qq -y --no-install-recommends "$@" >/dev/null
}

# need_cargo_tool NAME installs a cargo subcommand outside of the clone, so that the next one finds it.
need_cargo_tool() {
  local tools=${XDG_CACHE_HOME:-$HOME/.cache}/linkerd-cni/tools
  PATH=$tools/bin:$PATH
  command -v "$1" >/dev/null && return
  say "installing $1 with cargo, which takes some minutes"
  cargo install --quiet --locked --root "$tools" "$1"
}

# Where cargo puts what it builds, in this workspace.
target_directory() {
  cargo metadata --format-version 1 --no-deps |
    sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p'
}
