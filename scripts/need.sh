# Sourced by ./run and ./test: makes sure that a command is there, or says how to get it.

say() { if [ -t 2 ]; then printf '\033[1m%s\033[0m\n' "$*" >&2; else printf '%s\n' "$*" >&2; fi; }

# apt_install 'DEBIAN-PACKAGES': installs them if we may.
apt_install() {
  local as_root=()
  [ "$(id -u)" = 0 ] || as_root=(sudo -n)
  if command -v apt-get >/dev/null && "${as_root[@]}" true 2>/dev/null; then
    say "Installing $1"
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive sh -c \
      "apt-get update -qq && apt-get install -y -qq --no-install-recommends $1" >/dev/null || true
    hash -r
    postgres_path
  fi
}

# need COMMAND 'DEBIAN-PACKAGES': installs the packages if the command is missing and we may.
need() {
  command -v "$1" >/dev/null && return
  apt_install "$2"
  command -v "$1" >/dev/null && return
  say "Missing: $1. Please install it (Debian and Ubuntu: sudo apt-get install $2) and run this again."
  exit 1
}

# Debian keeps the PostgreSQL server programs outside PATH; the newest version wins.
postgres_path() {
  local newest
  newest=$(printf '%s\n' /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
  case ":$PATH:" in *":$newest:"*) return ;; esac
  if [ -d "$newest" ]; then export PATH="$newest:$PATH"; fi
}

# A Rust toolchain new enough for Cargo.toml's rust-version.
need_rust() {
  if ! command -v cargo >/dev/null && [ -f "$HOME/.cargo/env" ]; then . "$HOME/.cargo/env"; fi
  local wanted have
  wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
  have=$(cargo --version 2>/dev/null | cut -d' ' -f2) || true
  if [ "$(printf '%s\n' "$wanted" "${have:-0}" | sort -V | head -n 1)" != "$wanted" ]; then
    say "Punctual needs Rust $wanted or newer (found: ${have:-none}). Get it with"
    say "  curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh"
    say "or, with rustup already there, rustup update stable"
    exit 1
  fi
}
