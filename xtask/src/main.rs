//! Checks of our own house: `cargo run -p xtask -- tidy`.
//!
//! The same checks are tests of this crate, so `cargo test -p xtask` fails on the same
//! findings. Nothing here depends on another crate: a rule must be cheap to run.

#[cfg(test)]
mod dependencies;
mod markdown;
mod paths;
mod repo;
mod source;
mod tidy;

use std::process::ExitCode;

const USAGE: &str = "usage: cargo run -p xtask -- tidy\n\n  tidy   check the house rules (CONTRIBUTING.md)";

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("tidy") => tidy(),
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn tidy() -> ExitCode {
    let repo = match repo::Repo::here() {
        Ok(repo) => repo,
        Err(error) => {
            eprintln!("tidy: cannot read the repository: {error}");
            return ExitCode::from(2);
        }
    };
    let findings = tidy::all(&repo);
    for finding in &findings {
        eprintln!("{finding}");
    }
    if findings.is_empty() {
        println!("tidy: {} files, {} rules, nothing to say", repo.files().len(), tidy::RULES.len());
        ExitCode::SUCCESS
    } else {
        eprintln!("tidy: {} to mend", findings.len());
        ExitCode::FAILURE
    }
}
