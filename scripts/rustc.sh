#!/usr/bin/env bash
# The compiler of whole runs of ./test: lints every crate of the workspace, and optimises the engine's library, in which
# slow tests spend half of their time. A profile of Cargo.toml would optimise the engine's tests with it, and take longer
# than they gain.
case " $* " in
  *" --test "*) exec clippy-driver "$@" ;;
  *" --crate-name punctual "*) exec clippy-driver "$@" -C opt-level=1 ;;
  *) exec clippy-driver "$@" ;;
esac
