//! A public type name is unique in its crate: who reads `Filter` in a signature or in an index of the
//! documentation need not ask which of two it is. Two modules that both want `Filter` have `EntryFilter` and
//! `DeliveryFilter`. What is `pub(crate)` or narrower is not public; types of test code may repeat names.

use super::Finding;
use crate::repo::{File, Repo};
use crate::source::Source;
use std::collections::HashMap;

/// The words that declare a type.
const DECLARING: [&str; 5] = ["struct", "enum", "union", "trait", "type"];

/// The rule.
pub fn check(repo: &Repo) -> Vec<Finding> {
    let mut first: HashMap<(&str, &str), (&str, usize)> = HashMap::new();
    let mut findings = Vec::new();
    for (file, source) in repo.rust() {
        let Some(krate) = crate_of(&file.path) else { continue };
        for (line, name) in public_types(repo, file, source) {
            let Some((path, at)) = first.get(&(krate, name)) else {
                first.insert((krate, name), (&file.path, line));
                continue;
            };
            let what = format!("a second public type `{name}`: {path}:{at} has one; say which it is");
            findings.push(Finding::new(&file.path, line, what));
        }
    }
    findings
}

/// The folder of the crate whose sources the file is part of.
fn crate_of(path: &str) -> Option<&str> {
    let (folder, _) = path.split_once("/src/")?;
    Some(folder)
}

/// The line and the name of each public type outside tests.
fn public_types<'f>(
    repo: &'f Repo,
    file: &'f File,
    source: &'f Source,
) -> impl Iterator<Item = (usize, &'f str)> {
    let lines = source.code.lines().zip(1..);
    lines.filter_map(|(text, line)| {
        let (word, rest) = text.trim_start().strip_prefix("pub ")?.split_once(' ')?;
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        // `pub enum $name` in a macro names nothing yet.
        let is_type = DECLARING.contains(&word) && end > 0 && !repo.is_test_line(file, line);
        is_type.then(|| (line, &rest[..end]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: [(&str, &str); 2]) -> Vec<String> {
        check(&Repo::of(files)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_second_public_type_of_the_same_name_is_caught() {
        let said = found([
            ("crates/a/src/entry.rs", "/// One.\npub struct Filter<'f>(&'f str);"),
            ("crates/a/src/delivery.rs", "mod inner {\n    pub enum Filter { All }\n}"),
        ]);
        let want = "crates/a/src/entry.rs:2: a second public type `Filter`: \
                    crates/a/src/delivery.rs:2 has one; say which it is";
        assert_eq!(said, [want]);
        let kinds = [
            ("crates/a/src/x.rs", "pub trait Step {}\npub type Place = u8;\npub union Cell { a: u8 }"),
            ("crates/a/src/y.rs", "pub type Step = u8;\npub struct Place;\npub enum Cell {}"),
        ];
        assert_eq!(found(kinds).len(), 3);
    }

    #[test]
    fn other_crates_private_types_and_tests_may_have_the_same_name() {
        let one = "pub struct Filter;";
        assert_eq!(found([("crates/a/src/x.rs", one), ("crates/b/src/x.rs", one)]), [""; 0]);
        assert_eq!(found([("crates/a/src/x.rs", one), ("crates/a/tests/x.rs", one)]), [""; 0]);
        for other in [
            "pub(crate) struct Filter;",
            "struct Filter;",
            "/// pub struct Filter;\nconst TEXT: &str = \"\npub struct Filter;\";",
            "#[cfg(test)]\nmod tests {\n    pub struct Filter;\n}",
            "pub fn filter() {}\npub struct Filters;",
            "pub use other::Filter;",
            "macro_rules! kinds { ($name:ident) => { pub enum $name {} pub struct $name {} } }",
        ] {
            assert_eq!(found([("crates/a/src/x.rs", one), ("crates/a/src/y.rs", other)]), [""; 0], "{other}");
        }
    }
}
