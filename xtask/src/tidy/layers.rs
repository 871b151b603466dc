//! Inside the engine a domain uses only those above it in the table `<!-- domains -->` of ARCHITECTURE.md,
//! and inside a domain a layer uses only what the table `<!-- layers -->` allows. Drivers are named only
//! where `<!-- drivers -->` says.

use super::{Finding, fits, is_shipped};
use crate::markdown;
use crate::paths::{self, Named};
use crate::repo::{File, Repo};
use crate::source::Source;

/// The folder of the engine's domains.
pub const ENGINE: &str = "crates/punctual/src/";
/// The document that is this rule's input.
pub const DOCUMENT: &str = "ARCHITECTURE.md";

/// Arrows between domains that are still to be turned: (from, to). A pair that no file uses any more is
/// reported.
const LEFT: [(&str, &str); 4] =
    [("delivery", "notification"), ("delivery", "survey"), ("flow", "delivery"), ("flow", "survey")];

/// A folder of the engine.
struct Domain {
    name: String,
    /// Domains that stand above it and that it must not use all the same.
    not: Vec<String>,
    /// The layer of the whole domain, where it has no layers inside.
    layer: Option<String>,
}

/// A kind of code inside a domain.
struct Layer {
    name: String,
    may_use: Vec<String>,
    must_not_name: Vec<String>,
}

struct Driver {
    name: String,
    only_in: Vec<String>,
}

struct Tables {
    domains: Vec<Domain>,
    layers: Vec<Layer>,
    drivers: Vec<Driver>,
}

/// The rule.
pub fn check(repo: &Repo) -> Vec<Finding> {
    let Some(tables) = repo.file(DOCUMENT).and_then(|file| Tables::read(&file.text)) else {
        let what = "the table under `<!-- domains -->`, `<!-- layers -->` or `<!-- drivers -->` is missing: \
            put it back, tidy reads it";
        return vec![Finding::new(DOCUMENT, 1, what)];
    };
    let mut findings = Vec::new();
    for (file, source) in repo.rust().filter(|(file, _)| is_shipped(repo, file)) {
        let named = paths::named(source).into_iter().filter(|path| !source.is_test_line(path.line));
        let named: Vec<Named> = named.collect();
        findings.extend(driver_findings(file, &named, &tables.drivers));
        if let Some(inside) = file.path.strip_prefix(ENGINE) {
            findings.extend(tables.findings(file, source, inside, &named));
        }
    }
    findings
}

impl Tables {
    fn read(text: &str) -> Option<Self> {
        let rows = |marker| Some(markdown::table(text, marker)?.into_iter().map(Vec::into_iter));
        let first = |cell: Vec<String>| cell.into_iter().next();
        let domains = rows("<!-- domains -->")?
            .map(|mut row| {
                let (name, layer) = (first(row.next()?)?, first(row.next()?));
                Some(Domain { name, layer, not: row.next()? })
            })
            .collect::<Option<_>>()?;
        let layers = rows("<!-- layers -->")?
            .map(|mut row| {
                Some(Layer { name: first(row.next()?)?, may_use: row.next()?, must_not_name: row.next()? })
            })
            .collect::<Option<_>>()?;
        let drivers = rows("<!-- drivers -->")?
            .map(|mut row| Some(Driver { name: first(row.next()?)?, only_in: row.next()? }))
            .collect::<Option<_>>()?;
        Some(Self { domains, layers, drivers })
    }

    /// The place of a domain in the order, from the top.
    fn place(&self, name: &str) -> Option<usize> {
        self.domains.iter().position(|domain| domain.name == name)
    }

    /// The layer that a path of segments belongs to.
    fn layer(&self, segments: &[&str]) -> Option<&Layer> {
        let domain = &self.domains[self.place(segments.first()?)?];
        let name = domain.layer.as_deref().or_else(|| segments.get(1).copied())?;
        self.layers.iter().find(|layer| layer.name == name)
    }

    fn findings(&self, file: &File, source: &Source, inside: &str, named: &[Named]) -> Vec<Finding> {
        // The crate's root declares the domains and gives the public names.
        if inside == "lib.rs" {
            return Vec::new();
        }
        let home: Vec<&str> = inside.trim_end_matches(".rs").split('/').collect();
        if self.place(home[0]).is_none() {
            let what = format!("stands in no domain: move it into one, or add `{}` to {DOCUMENT}", home[0]);
            return vec![Finding::new(&file.path, 1, what)];
        }
        let findings = named.iter().filter_map(|path| {
            let what = match target(path, &home, source) {
                Some(target) => self.arrow(&home, &target, path)?,
                None => self.foreign(&home, path)?,
            };
            Some(Finding::new(&file.path, path.line, what))
        });
        findings.collect()
    }

    /// What is wrong with using `target` from `home`.
    fn arrow(&self, home: &[&str], target: &[String], path: &Named) -> Option<String> {
        let target: Vec<&str> = target.iter().map(String::as_str).collect();
        let (from, text) = (home[0], path.text());
        let Some(to) = self.place(target.first()?) else {
            return Some(format!(
                "`{text}` hides where it lives: name the domain, like crate::base::{}",
                target[0]
            ));
        };
        let domain = &self.domains[self.place(from)?];
        if LEFT.contains(&(from, target[0])) {
            return None;
        }
        if self.place(from)? < to || domain.not.iter().any(|not| not == target[0]) {
            return Some(format!(
                "the domain {from} uses {} ({text}), which stands below or beside it: move the code, or let \
                 the lower domain hand it in",
                target[0]
            ));
        }
        let (here, there) = (self.layer(home)?, self.layer(&target)?);
        let allowed = here.may_use.contains(&there.name);
        (!allowed)
            .then(|| format!("{} code uses {} code ({text}): {}", here.name, there.name, advice(&here.name)))
    }

    /// What is wrong with naming another crate from `home`.
    fn foreign(&self, home: &[&str], path: &Named) -> Option<String> {
        let layer = self.layer(home)?;
        let banned = layer.must_not_name.contains(&path.segments[0]);
        banned.then(|| format!("{} code names {}: {}", layer.name, path.text(), advice(&layer.name)))
    }
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

/// The segments a path leads to inside the crate; none for other crates and local names.
fn target(path: &Named, home: &[&str], source: &Source) -> Option<Vec<String>> {
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
    Some(from.into_iter().chain(rest).map(String::from).collect())
}

fn advice(layer: &str) -> &'static str {
    match layer {
        "rules" => "rules decide on values; let the caller fetch and pass them in",
        "store" => "the store remembers and answers; return an outcome and let the caller act on it",
        "run" => "loops call store verbs; add the verb there",
        _ => "move it to a layer that may",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLES: &str = "<!-- domains -->\n| domain | layer | but not |\n|---|---|---|\n\
        | `base` | `rules` | - |\n| `database` | `store` | - |\n| `queue` | - | - |\n\
        | `survey` | - | - |\n| `reminder` | - | `survey` |\n| `engine` | `engine` | - |\n\
        <!-- layers -->\n| layer | may use | must not name |\n|---|---|---|\n\
        | `rules` | `rules` | `tokio`, `tracing` |\n| `store` | `rules`, `store` | - |\n\
        | `run` | `rules`, `store`, `run` | - |\n| `engine` | `rules`, `store`, `run`, `engine` | - |\n\
        <!-- drivers -->\n| driver | only in |\n|---|---|\n\
        | `rusqlite` | `database/sqlite.rs`, `database/sqlite/*` |\n";

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

    const RULE: &str = "crates/punctual/src/queue/rules/attempt.rs";

    #[test]
    fn an_arrow_to_a_lower_domain_is_caught() {
        caught(RULE, "\nuse crate::survey::rules::X;", "attempt.rs:2: the domain queue uses survey");
        caught(RULE, "use crate::{base::Id, engine::{self}};", "the domain queue uses engine");
        caught(RULE, "use super::super::super::survey::rules::X;", "the domain queue uses survey");
        caught(RULE, "fn f() { crate::survey::rules::x() }", "the domain queue uses survey");
        caught("crates/punctual/src/queue.rs", "use super::engine::Engine;", "queue uses engine");
        caught("crates/punctual/src/base/id.rs", "mod a { use super::super::super::queue::X; }", "base uses");
    }

    #[test]
    fn an_arrow_to_a_sibling_is_caught() {
        let path = "crates/punctual/src/reminder/run/plan.rs";
        caught(path, "use crate::survey::rules::X;", "the domain reminder uses survey");
    }

    #[test]
    fn an_arrow_between_layers_is_caught() {
        caught(RULE, "use crate::queue::store::Work;", "rules code uses store code");
        caught(RULE, "use crate::database::tx::Tx;", "rules code uses store code");
        caught(
            "crates/punctual/src/queue/store/work.rs",
            "use crate::queue::run::Wake;",
            "store code uses run",
        );
        fine("crates/punctual/src/queue/run/x.rs", "use crate::queue::store::Work; use crate::base::id::X;");
    }

    #[test]
    fn a_name_from_the_root_is_caught() {
        caught(RULE, "use crate::Engine;", "name the domain");
    }

    #[test]
    fn a_foreign_crate_is_caught() {
        caught(RULE, "use tokio::sync::Notify;", "rules code names tokio::sync::Notify");
        caught(
            "crates/punctual/src/base/x.rs",
            "fn f() { tracing::info!(x) }",
            "rules code names tracing::info",
        );
    }

    #[test]
    fn a_driver_outside_its_file_is_caught() {
        let work = "crates/punctual/src/queue/store/work.rs";
        caught(work, "use rusqlite::Row;", "names the driver rusqlite");
        caught("crates/punctual-server/src/main.rs", "fn f(x: rusqlite::Row) {}", "names the driver");
        fine("crates/punctual/src/database/sqlite.rs", "use rusqlite::Row;");
        fine("crates/punctual/src/database/sqlite/writer.rs", "use rusqlite::Row;");
    }

    #[test]
    fn arrows_up_and_tests_are_fine() {
        fine(RULE, "use crate::base::Id; use super::jitter; use self::x::Y; use std::fmt;");
        fine(RULE, "#[cfg(test)]\nmod tests { use super::*; use crate::survey::Work; use tokio::test; }");
        fine(RULE, "// use crate::survey::Work\nconst A: &str = \"crate::survey::X\";");
        fine("crates/punctual/src/lib.rs", "pub use engine::Engine; pub use crate::survey::Store;");
        fine("crates/punctual/tests/it/main.rs", "use rusqlite::Row;");
    }

    #[test]
    fn a_file_without_a_domain_is_caught() {
        caught("crates/punctual/src/stuff.rs", "", "stands in no domain");
    }

    #[test]
    fn a_missing_table_is_caught() {
        let repo = Repo::of([(DOCUMENT, "nothing")]);
        assert_eq!(check(&repo).len(), 1);
    }
}
