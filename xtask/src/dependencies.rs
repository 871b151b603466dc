//! Tests of `scripts/deny.sh`, with a stub in the place of `cargo-deny`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Writes a program that prints its name and arguments.
fn stub(folder: &Path, name: &str) {
    let file = folder.join(name);
    fs::write(&file, format!("#!/bin/sh\necho \"ran {name} $*\"\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs the step with these programs only; answers all that it says.
fn deny(programs: &Path, cargo_home: &Path) -> String {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let script = "set -euo pipefail; . scripts/need.sh; . scripts/deny.sh; deny 2>&1";
    let output = Command::new("/bin/bash")
        .args(["-c", script])
        .current_dir(root)
        .env("PATH", format!("{}:/usr/bin:/bin", programs.display()))
        .env("CARGO_HOME", cargo_home)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// PRD-14: what is not checked is said, with what to do.
#[test]
fn dependencies_are_checked_as_far_as_the_tools_are_there() {
    let folder = std::env::temp_dir().join(format!("punctual-deny-{}", std::process::id()));
    let (programs, home) = (folder.join("bin"), folder.join("cargo"));
    fs::create_dir_all(&programs).unwrap();
    let said = deny(&programs, &home);
    assert!(said.contains("NOT CHECKED") && said.contains("cargo install --locked cargo-deny"), "{said}");
    stub(&programs, "cargo");
    stub(&programs, "cargo-deny");
    let said = deny(&programs, &home);
    assert!(said.contains("NOT CHECKED: advisories") && said.contains("cargo deny fetch"), "{said}");
    assert!(said.contains("ran cargo deny --offline --locked check bans licenses sources"), "{said}");
    fs::create_dir_all(home.join("advisory-dbs/advisory-db-1")).unwrap();
    let said = deny(&programs, &home);
    assert!(said.contains("ran cargo deny --offline --locked check advisories bans"), "{said}");
    assert!(!said.contains("NOT CHECKED"), "{said}");
    fs::remove_dir_all(&folder).unwrap();
}
