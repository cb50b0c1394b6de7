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
  [ ${#packages[@]} -gt 0 ] || return 0
  command -v apt-get >/dev/null || die "not on this machine, and no apt-get: ${packages[*]}"
  say "installing with apt-get: ${packages[*]}"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq >/dev/null
  apt-get install -qq -y --no-install-recommends "${packages[@]}" >/dev/null
}

# Where cargo puts what it builds, in this workspace.
target_directory() {
  cargo metadata --format-version 1 --no-deps |
    sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p'
}

# Where programs that no package has are kept: outside of the clone, so that the next one finds them.
tools_directory() {
  printf '%s\n' "${XDG_CACHE_HOME:-$HOME/.cache}/linkerd-cni/tools"
}

# need_go puts a Go that can build Go modules' programs on the PATH.
need_go() {
  local least=1.24 found
  PATH=$PATH:/usr/local/go/bin
  found=$(go env GOVERSION 2>/dev/null | sed 's/^go//') || true
  [ "$(printf '%s\n' "$least" "${found:-0}" | sort -V | head -n 1)" = "$least" ] ||
    die "no Go of $least or later: install one (https://go.dev/dl)"
}

# need_helm VERSION puts this Helm on the PATH, built from its module. Built so, it tells no more of
# its version than the first two numbers.
need_helm() {
  local bin
  bin=$(tools_directory)/bin
  PATH=$bin:$PATH
  if [ "$("$bin/helm" version --template '{{.Version}}' 2>/dev/null)" != "${1%.*}" ]; then
    need_go
    say "building helm $1 with go, which takes some minutes"
    GOBIN=$bin GOFLAGS=-mod=mod go install "helm.sh/helm/v3/cmd/helm@$1"
  fi
}

# need_promtool puts promtool on the PATH, without the Prometheus that Debian's package would start.
need_promtool() {
  local bin work
  bin=$(tools_directory)/bin
  PATH=$PATH:$bin
  command -v promtool >/dev/null && return
  say "fetching promtool from the package prometheus"
  apt-get update -qq >/dev/null
  work=$(mktemp -d)
  (cd "$work" && apt-get -qq -o APT::Sandbox::User=root download prometheus && dpkg-deb -x ./*.deb .)
  mkdir -p "$bin"
  install -m 0755 "$work/usr/bin/promtool" "$bin/promtool"
  rm -rf "$work"
}
