//! Inside the engine a room uses only the rooms that the table `<!-- layers -->` in
//! ARCHITECTURE.md allows it, and drivers are named only where `<!-- drivers -->` says.

use super::{Finding, fits, is_shipped};
use crate::markdown;
use crate::paths::{self, Named};
use crate::repo::{File, Repo};
use crate::source::Source;

/// Where the rooms stand.
pub const ENGINE: &str = "crates/punctual/src/";
/// The document that is this rule's input.
pub const DOCUMENT: &str = "ARCHITECTURE.md";

struct Room {
    name: String,
    may_use: Vec<String>,
    must_not_name: Vec<String>,
}

struct Driver {
    name: String,
    only_in: Vec<String>,
}

/// The rule.
pub fn check(repo: &Repo) -> Vec<Finding> {
    let (Some(rooms), Some(drivers)) = (rooms_of(repo), drivers_of(repo)) else {
        return vec![Finding::new(
            DOCUMENT,
            1,
            "the table under `<!-- layers -->` or `<!-- drivers -->` is missing: put it back, tidy reads it",
        )];
    };
    let mut findings = Vec::new();
    for (file, source) in repo.rust().filter(|(file, _)| is_shipped(repo, file)) {
        let named = paths::named(source).into_iter().filter(|path| !source.is_test_line(path.line));
        let named: Vec<Named> = named.collect();
        findings.extend(driver_findings(file, &named, &drivers));
        if let Some(inside) = file.path.strip_prefix(ENGINE) {
            findings.extend(room_findings(file, source, inside, &named, &rooms));
        }
    }
    findings
}

fn rooms_of(repo: &Repo) -> Option<Vec<Room>> {
    let rows = markdown::table(&repo.file(DOCUMENT)?.text, "<!-- layers -->")?;
    let rooms = rows.into_iter().map(|row| {
        let mut cells = row.into_iter();
        let name = cells.next()?.into_iter().next()?;
        Some(Room { name, may_use: cells.next()?, must_not_name: cells.next()? })
    });
    rooms.collect()
}

fn drivers_of(repo: &Repo) -> Option<Vec<Driver>> {
    let rows = markdown::table(&repo.file(DOCUMENT)?.text, "<!-- drivers -->")?;
    let drivers = rows.into_iter().map(|row| {
        let mut cells = row.into_iter();
        Some(Driver { name: cells.next()?.into_iter().next()?, only_in: cells.next()? })
    });
    drivers.collect()
}

fn driver_findings(file: &File, named: &[Named], drivers: &[Driver]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for driver in drivers {
        if driver.only_in.iter().any(|pattern| fits(&file.path, pattern)) {
            continue;
        }
        for path in named.iter().filter(|path| path.segments[0] == driver.name) {
            let what = format!(
                "names the driver {}, which only {} may: add a verb to the store instead",
                driver.name,
                driver.only_in.join(", ")
            );
            findings.push(Finding::new(&file.path, path.line, what));
        }
    }
    findings
}

fn room_findings(
    file: &File,
    source: &Source,
    inside: &str,
    named: &[Named],
    rooms: &[Room],
) -> Vec<Finding> {
    // The crate's root declares the modules and gives the public names; it is no room.
    if inside == "lib.rs" {
        return Vec::new();
    }
    let top = inside.split(['/', '.']).next().unwrap_or_default();
    let Some(room) = rooms.iter().find(|room| room.name == top) else {
        let what = format!("stands in no room: move it into one, or add `{top}` to {DOCUMENT}");
        return vec![Finding::new(&file.path, 1, what)];
    };
    let home: Vec<&str> = inside.trim_end_matches(".rs").split('/').collect();
    let arrows = named.iter().filter_map(|path| {
        let what = match target(path, &home, source) {
            Some(target) => arrow(room, &target, path, rooms)?,
            None if room.must_not_name.contains(&path.segments[0]) => {
                format!("{top} names {}: {}", path.text(), advice(top))
            }
            None => return None,
        };
        Some(Finding::new(&file.path, path.line, what))
    });
    arrows.collect()
}

/// The room a path leads to inside the crate; none for other crates and local names.
fn target(path: &Named, home: &[&str], source: &Source) -> Option<String> {
    let mut from: Vec<&str> = home.iter().copied().chain(source.modules_around(path.offset)).collect();
    let mut rest = path.segments.iter().map(String::as_str).peekable();
    match rest.next()? {
        "crate" => from.clear(),
        "self" => {}
        "super" => {
            from.pop();
        }
        _ => return None,
    }
    while rest.next_if_eq(&"super").is_some() {
        from.pop();
    }
    from.into_iter().chain(rest).next().map(String::from)
}

fn arrow(room: &Room, target: &str, path: &Named, rooms: &[Room]) -> Option<String> {
    if room.may_use.iter().any(|may| may == target) {
        return None;
    }
    if !rooms.iter().any(|room| room.name == target) {
        let text = path.text();
        return Some(format!("`{text}` hides where it lives: name the room, like crate::base::{target}"));
    }
    let may = room.may_use.join(", ");
    Some(format!(
        "{} uses {} ({}), but may use only {may}: {}",
        room.name,
        target,
        path.text(),
        advice(&room.name)
    ))
}

fn advice(room: &str) -> &'static str {
    match room {
        "base" => "base knows nothing of ours and does no I/O; move this to the room that needs it",
        "rules" => "rules decide on values; let the caller fetch and pass them in",
        "store" => "the store remembers and answers; return an outcome and let the caller act on it",
        "run" => "loops call store verbs; add the verb there",
        _ => "move it to a room that may",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLES: &str = "<!-- layers -->\n| room | may use | must not name |\n|---|---|---|\n\
        | `base` | `base` | `tokio` |\n| `rules` | `base`, `rules` | `tokio`, `tracing` |\n\
        | `store` | `base`, `rules`, `store` | - |\n| `engine` | `base`, `store`, `engine` | - |\n\
        <!-- drivers -->\n| driver | only in |\n|---|---|\n\
        | `rusqlite` | `store/sqlite.rs`, `store/sqlite/*` |\n";

    fn check_file(path: &str, code: &str) -> Vec<String> {
        let repo = Repo::of([(DOCUMENT, TABLES), (path, code)]);
        check(&repo).iter().map(ToString::to_string).collect()
    }

    #[track_caller]
    fn caught(path: &str, code: &str, says: &str) {
        let said = check_file(path, code);
        assert!(said.len() == 1 && said[0].contains(says), "{said:?}");
    }

    #[track_caller]
    fn fine(path: &str, code: &str) {
        assert_eq!(check_file(path, code), Vec::<String>::new(), "{code}");
    }

    const RULE: &str = "crates/punctual/src/rules/backoff.rs";

    #[test]
    fn an_arrow_up_is_caught() {
        caught(
            RULE,
            "\nuse crate::store::Work;",
            "rules/backoff.rs:2: rules uses store (crate::store::Work)",
        );
        caught(RULE, "use crate::{base::Id, store::{self}};", "rules uses store");
        caught(RULE, "use super::super::store::Work;", "rules uses store");
        caught(RULE, "fn f() { crate::store::claim() }", "rules uses store");
        caught("crates/punctual/src/rules.rs", "use super::engine::Engine;", "rules uses engine");
        caught(
            "crates/punctual/src/base/id.rs",
            "mod inner { use super::super::super::rules::X; }",
            "base uses",
        );
        caught("crates/punctual/src/store.rs", "use crate::engine as e; fn f() { }", "store uses engine");
    }

    #[test]
    fn a_name_from_the_root_is_caught() {
        caught(RULE, "use crate::Engine;", "name the room");
    }

    #[test]
    fn a_foreign_crate_is_caught() {
        caught(RULE, "use tokio::sync::Notify;", "rules names tokio::sync::Notify");
        caught(RULE, "fn f() { tracing::info!(x) }", "rules names tracing::info");
    }

    #[test]
    fn a_driver_outside_its_file_is_caught() {
        caught("crates/punctual/src/store/work.rs", "use rusqlite::Row;", "names the driver rusqlite");
        caught("crates/punctual-server/src/main.rs", "fn f(x: rusqlite::Row) {}", "names the driver");
        fine("crates/punctual/src/store/sqlite.rs", "use rusqlite::Row;");
        fine("crates/punctual/src/store/sqlite/writer.rs", "use rusqlite::Row;");
    }

    #[test]
    fn arrows_down_and_tests_are_fine() {
        fine(RULE, "use crate::base::Id; use super::jitter; use self::x::Y; use std::fmt;");
        fine(RULE, "#[cfg(test)]\nmod tests { use super::*; use crate::store::Work; use tokio::test; }");
        fine(RULE, "// use crate::store::Work\nconst A: &str = \"crate::store::X\";");
        fine("crates/punctual/src/lib.rs", "pub use engine::Engine; pub use crate::store::Store;");
        fine("crates/punctual/tests/it/main.rs", "use rusqlite::Row;");
    }

    #[test]
    fn a_file_without_a_room_is_caught() {
        caught("crates/punctual/src/stuff.rs", "", "stands in no room");
    }

    #[test]
    fn a_missing_table_is_caught() {
        let repo = Repo::of([(DOCUMENT, "nothing")]);
        assert_eq!(check(&repo).len(), 1);
    }
}
