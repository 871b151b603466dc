# Sourced by ./test: the advisories, licences, bans and sources of every dependency, as deny.toml wants them.
# It never uses the network: the database of advisories is fetched by hand, with `cargo deny fetch`.

deny() {
  if ! command -v cargo-deny >/dev/null; then
    say "  NOT CHECKED: advisories and licences of dependencies. cargo-deny is missing: cargo install --locked cargo-deny"
    return
  fi
  local databases="${CARGO_HOME:-$HOME/.cargo}/advisory-dbs"
  if [ -n "$(ls -A "$databases" 2>/dev/null)" ]; then
    cargo deny --offline --locked check advisories bans licenses sources
  else
    say "  NOT CHECKED: advisories. There is no database in $databases: cargo deny fetch"
    cargo deny --offline --locked check bans licenses sources
  fi
}
