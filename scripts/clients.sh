# Sourced by ./test: the drivers of other languages that tests and examples call our SQL
# functions with, the mail server, and what the browser tests need. They are kept beside the build, in
# $PUNCTUAL_CLIENTS.

PSYCOPG_VERSION=3.2.10
NODE_POSTGRES_VERSION=8.16.3
AXE_CORE_VERSION=4.14.0
AIOSMTPD_VERSION=1.4.6

# Installs psycopg, aiosmtpd, node-postgres and axe-core from their registries, and Java, its driver and chromium from the
# system's, once.
clients() {
  PUNCTUAL_CLIENTS=$(mkdir -p "${CARGO_TARGET_DIR:-target}/clients" && cd "${CARGO_TARGET_DIR:-target}/clients" && pwd)
  export PUNCTUAL_CLIENTS
  need python3 'python3 python3-venv'
  need node nodejs
  need npm npm
  psycopg || missing psycopg "python3 -m venv $PUNCTUAL_CLIENTS/python, then its pip install psycopg[binary]"
  aiosmtpd || missing aiosmtpd "$PUNCTUAL_CLIENTS/python/bin/python -m pip install aiosmtpd"
  node_postgres || missing node-postgres "npm install --prefix $PUNCTUAL_CLIENTS pg"
  need javac default-jdk-headless
  jdbc || missing 'the JDBC driver' "put postgresql.jar of https://jdbc.postgresql.org into $PUNCTUAL_CLIENTS"
  need chromium chromium
  axe_core || missing axe-core "npm install --prefix $PUNCTUAL_CLIENTS axe-core"
}

psycopg() {
  local python=$PUNCTUAL_CLIENTS/python
  [ "$("$python/bin/python" -c 'import psycopg; print(psycopg.__version__)' 2>/dev/null)" = "$PSYCOPG_VERSION" ] && return
  say "Installing psycopg $PSYCOPG_VERSION"
  # Debian has the venv module in a package of its own.
  python3 -c 'import ensurepip' 2>/dev/null || apt_install python3-venv
  python3 -m venv --clear "$python" &&
    "$python/bin/python" -m pip install --quiet --disable-pip-version-check "psycopg[binary]==$PSYCOPG_VERSION"
}

# The mail server that SMTP is tested against; in the same place as psycopg, which makes it.
aiosmtpd() {
  local python=$PUNCTUAL_CLIENTS/python/bin/python
  [ "$("$python" -c 'import aiosmtpd; print(aiosmtpd.__version__)' 2>/dev/null)" = "$AIOSMTPD_VERSION" ] && return
  say "Installing aiosmtpd $AIOSMTPD_VERSION"
  "$python" -m pip install --quiet --disable-pip-version-check "aiosmtpd==$AIOSMTPD_VERSION"
}

node_postgres() {
  [ "$(node -p "require('$PUNCTUAL_CLIENTS/node_modules/pg/package.json').version" 2>/dev/null)" = "$NODE_POSTGRES_VERSION" ] && return
  say "Installing node-postgres $NODE_POSTGRES_VERSION"
  npm install --prefix "$PUNCTUAL_CLIENTS" --no-audit --no-fund --loglevel=error "pg@$NODE_POSTGRES_VERSION" >/dev/null
}

# The driver is one file. Debian packages it; one that was put there by hand stays.
jdbc() {
  local packaged=/usr/share/java/postgresql.jar
  [ -f "$PUNCTUAL_CLIENTS/postgresql.jar" ] && return
  [ -f "$packaged" ] || apt_install libpostgresql-jdbc-java
  [ -f "$packaged" ] && ln -sfn "$packaged" "$PUNCTUAL_CLIENTS/postgresql.jar"
}

# Finds what keeps people from using a page.
axe_core() {
  [ "$(node -p "require('$PUNCTUAL_CLIENTS/node_modules/axe-core/package.json').version" 2>/dev/null)" = "$AXE_CORE_VERSION" ] && return
  say "Installing axe-core $AXE_CORE_VERSION"
  npm install --prefix "$PUNCTUAL_CLIENTS" --no-audit --no-fund --loglevel=error "axe-core@$AXE_CORE_VERSION" >/dev/null
}

missing() {
  say "Missing: $1. It could not be installed; by hand: $2"
  exit 1
}
