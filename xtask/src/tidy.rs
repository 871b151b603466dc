//! The house rules that a machine can hold. Each rule is a function from the repository to
//! findings, and a test of its own below.

mod bans;
mod layers;
mod names;
mod panics;
mod promises;
mod requirements;
mod rooms;
mod sizes;
mod sql;
mod statements;
mod type_names;
mod workplace;

use std::fmt;

use crate::repo::{File, Repo};

/// One place that breaks a rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    path: String,
    line: usize,
    /// What is wrong, and what to do instead.
    what: String,
}

impl Finding {
    fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_string(), line, what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

type Rule = fn(&Repo) -> Vec<Finding>;

/// Every rule by name.
pub const RULES: [(&str, Rule); 12] = [
    ("layers", layers::check),
    ("rooms", rooms::check),
    ("sql", sql::check),
    ("statements", statements::check),
    ("sizes", sizes::check),
    ("names", names::check),
    ("type names", type_names::check),
    ("panics", panics::check),
    ("requirements", requirements::check),
    ("promises", promises::check),
    ("bans", bans::check),
    ("workplace", workplace::check),
];

/// All findings of all rules, in order of path and line.
pub fn all(repo: &Repo) -> Vec<Finding> {
    let mut findings: Vec<Finding> = RULES.iter().flat_map(|(_, rule)| rule(repo)).collect();
    findings.sort();
    findings.dedup();
    findings
}

/// Whether the file is part of what we ship: a crate's sources, not tests, examples or bench.
fn is_shipped(repo: &Repo, file: &File) -> bool {
    let inside = file.path.starts_with("crates/") && file.path.ends_with(".rs");
    inside && !crate::repo::in_folder(&file.path, &["examples", "benches"]) && !repo.is_test_file(file)
}

/// Whether a path fits a pattern in which `*` stands for anything. A pattern that does not
/// begin with `crates/` is meant inside the engine's sources.
fn fits(path: &str, pattern: &str) -> bool {
    let inside = path.strip_prefix(layers::ENGINE);
    let path = if pattern.starts_with("crates/") { Some(path) } else { inside };
    path.is_some_and(|path| is_glob_of(path, pattern))
}

fn is_glob_of(path: &str, pattern: &str) -> bool {
    match pattern.split_once('*') {
        None => path == pattern,
        Some((start, rest)) => path.strip_prefix(start).is_some_and(|left| {
            left.char_indices().map(|(at, _)| at).chain([left.len()]).any(|at| is_glob_of(&left[at..], rest))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold(name: &str) {
        let repo = Repo::here().unwrap();
        let (_, rule) = RULES.iter().find(|(rule, _)| *rule == name).unwrap();
        let mut findings = rule(&repo);
        findings.sort();
        let said: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert!(said.is_empty(), "{} to mend:\n{}", said.len(), said.join("\n"));
    }

    #[test]
    fn layers_point_down() {
        hold("layers");
    }

    #[test]
    fn clock_random_sleep_and_spawn_stay_in_their_rooms() {
        hold("rooms");
    }

    #[test]
    fn sql_stays_in_the_store() {
        hold("sql");
    }

    #[test]
    fn statements_are_named_and_have_a_line_for_each_clause() {
        hold("statements");
    }

    #[test]
    fn functions_files_and_lines_are_short() {
        hold("sizes");
    }

    #[test]
    fn files_are_named_after_what_they_hold() {
        hold("names");
    }

    #[test]
    fn public_type_names_are_unique_in_their_crate() {
        hold("type names");
    }

    #[test]
    fn nothing_unwraps_outside_tests() {
        hold("panics");
    }

    #[test]
    fn every_finished_requirement_is_named_by_a_test() {
        hold("requirements");
    }

    #[test]
    fn every_promise_names_its_test() {
        hold("promises");
    }

    #[test]
    fn no_banned_crate_is_locked() {
        hold("bans");
    }

    #[test]
    fn no_path_of_somebodys_machine() {
        hold("workplace");
    }

    #[test]
    fn findings_read_as_path_line_and_advice() {
        let finding = Finding::new("a.rs", 3, "x: do y");
        assert_eq!(finding.to_string(), "a.rs:3: x: do y");
    }

    #[test]
    fn patterns_fit() {
        assert!(fits("crates/punctual/src/database/sqlite/writer.rs", "database/sqlite*"));
        assert!(fits("crates/punctual-server/src/http.rs", "crates/punctual-server/src/*"));
        assert!(!fits("crates/punctual-server/src/database/sqlite.rs", "database/sqlite*"));
        assert!(!fits("crates/punctual/src/base/clock/host.rs", "base/clock.rs"));
        assert!(fits("crates/punctual/src/queue/run/reap.rs", "*/run/*"));
        assert!(!fits("crates/punctual/src/queue/store/run.rs", "*/run/*"));
    }
}
