//! What makes a run hard to repeat (clock, randomness, sleeping, spawning) happens only in the
//! files that the table `<!-- rooms -->` in ARCHITECTURE.md lists for it.

use super::layers::DOCUMENT;
use super::{Finding, fits, is_shipped};
use crate::repo::Repo;
use crate::{markdown, paths};

struct Room {
    what: String,
    calls: Vec<String>,
    only_in: Vec<String>,
}

/// The rule.
pub fn check(repo: &Repo) -> Vec<Finding> {
    let Some(rooms) = rooms_of(repo) else {
        let what = "the table under `<!-- rooms -->` is missing: put it back, tidy reads it";
        return vec![Finding::new(DOCUMENT, 1, what)];
    };
    let mut findings = Vec::new();
    for (file, source) in repo.rust().filter(|(file, _)| is_shipped(repo, file)) {
        for path in paths::named(source).iter().filter(|path| !source.is_test_line(path.line)) {
            let broken = rooms.iter().find(|room| {
                let calls = room.calls.iter().any(|call| {
                    let call: Vec<&str> = call.split("::").collect();
                    path.contains(&call)
                });
                calls && !room.only_in.iter().any(|pattern| fits(&file.path, pattern))
            });
            if let Some(room) = broken {
                let what = format!(
                    "{} belongs to the {} room ({}): take it as an argument or call that room",
                    path.text(),
                    room.what,
                    room.only_in.join(", ")
                );
                findings.push(Finding::new(&file.path, path.line, what));
            }
        }
    }
    findings
}

fn rooms_of(repo: &Repo) -> Option<Vec<Room>> {
    let rows = markdown::table(&repo.file(DOCUMENT)?.text, "<!-- rooms -->")?;
    let rooms = rows.into_iter().map(|row| {
        let mut cells = row.into_iter();
        let what = cells.next()?.into_iter().next()?;
        Some(Room { what, calls: cells.next()?, only_in: cells.next()? })
    });
    rooms.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "<!-- rooms -->\n| what | calls | only in |\n|---|---|---|\n\
        | `clock` | `SystemTime::now`, `Instant::now` | `base/clock.rs` |\n\
        | `random` | `getrandom` | `base/random.rs` |\n\
        | `sleep` | `tokio::time::sleep`, `thread::sleep` | `queue/*`, `crates/punctual-server/src/*` |\n";

    fn count(path: &str, code: &str) -> usize {
        check(&Repo::of([(DOCUMENT, TABLE), (path, code)])).len()
    }

    #[test]
    fn a_call_outside_its_room_is_caught() {
        let rule = "crates/punctual/src/jobs/rules/cron.rs";
        assert_eq!(count(rule, "fn f() { std::time::SystemTime::now(); }"), 1);
        assert_eq!(count(rule, "use std::time::Instant as I; fn f() { I::now() }"), 1);
        assert_eq!(count(rule, "use tokio::time; fn f() { time::sleep(x) }"), 1);
        assert_eq!(count(rule, "use tokio::time::sleep;"), 1);
        assert_eq!(count(rule, "fn f() { getrandom::fill(&mut x) }"), 1);
        assert_eq!(count("crates/punctual-server/src/http.rs", "fn f() { Instant::now() }"), 1);
    }

    #[test]
    fn in_its_room_in_tests_and_in_the_bench_it_is_fine() {
        assert_eq!(count("crates/punctual/src/base/clock.rs", "fn f() { SystemTime::now() }"), 0);
        assert_eq!(count("crates/punctual/src/queue/run/wait.rs", "use tokio::time::sleep;"), 0);
        assert_eq!(count("crates/punctual-server/src/main.rs", "use tokio::time::sleep;"), 0);
        assert_eq!(count("crates/punctual/src/rules/x.rs", "#[test]\nfn f() { Instant::now() }"), 0);
        assert_eq!(count("bench/src/lib.rs", "fn f() { Instant::now() }"), 0);
        assert_eq!(count("crates/punctual/src/rules/x.rs", "// SystemTime::now\n"), 0);
    }
}
