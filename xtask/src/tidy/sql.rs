//! SQL stands only in the store and in what works inside a host's transaction: outbox and inbox.

use super::Finding;
use super::layers::ENGINE;
use crate::repo::{Repo, in_folder};

/// Folders in which SQL is at home.
const HOMES: [&str; 4] = [
    "crates/punctual/src/database/",
    "crates/punctual/src/queue/outbox",
    "crates/punctual/src/queue/inbox",
    "bench/",
];

/// Whether a file may hold SQL: the store of a domain, the database, and what works inside a host's
/// transaction.
fn is_home(path: &str) -> bool {
    let is_store = || path.starts_with(ENGINE) && in_folder(path, &["store"]);
    HOMES.iter().any(|home| path.starts_with(home)) || is_store()
}

/// The rule.
pub fn check(repo: &Repo) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, source) in repo.rust() {
        if is_home(&file.path) || in_folder(&file.path, &["migrations", "tests", "examples", "benches"]) {
            continue;
        }
        for literal in source.literals.iter().filter(|l| !repo.is_test_line(file, l.line)) {
            if let Some((line, words)) = first_statement(&literal.text) {
                let what = format!(
                    "`{words}` reads as SQL: make it a verb of the store (or, in prose, choose other words)"
                );
                findings.push(Finding::new(&file.path, literal.line + line, what));
            }
        }
    }
    findings
}

/// The first SQL statement in a text: its line within the text, and the words that show it.
pub fn first_statement(text: &str) -> Option<(usize, &'static str)> {
    let words: Vec<(usize, String)> = words(text);
    let soon = |at: usize, word: &str| words[at + 1..].iter().take(4).any(|(_, w)| w == word);
    let next = |at: usize, word: &str| words.get(at + 1).is_some_and(|(_, w)| w == word);
    let (offset, shown) = words.iter().enumerate().find_map(|(at, (offset, word))| {
        let shown = match word.as_str() {
            "select" if opens_select(text, *offset) => "select",
            "insert" if soon(at, "into") => "insert",
            "update" if soon(at, "set") => "update",
            "delete" if next(at, "from") => "delete",
            _ => return None,
        };
        Some((*offset, shown))
    })?;
    Some((text[..offset].matches('\n').count(), shown))
}

/// `select` with something after it, and not the HTML element or part of a longer name.
fn opens_select(text: &str, offset: usize) -> bool {
    let before = text[..offset].chars().next_back();
    let after = text[offset + "select".len()..].chars().next();
    !before.is_some_and(|c| "<-.`".contains(c)) && after.is_some_and(|c| c.is_whitespace() || c == '\\')
}

fn words(text: &str) -> Vec<(usize, String)> {
    crate::source::words(text).map(|(at, word)| (at, word.to_lowercase())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, code: &str) -> usize {
        check(&Repo::of([(path, code)])).len()
    }

    #[test]
    fn sql_outside_the_store_is_caught() {
        for text in [
            "SELECT 1",
            "select id from work",
            "insert into work values ($1)",
            "INSERT OR IGNORE INTO x",
            "Update punctual.work w set due = 1",
            "with x as (\\n  delete from work returning id)",
        ] {
            assert_eq!(
                count("crates/punctual/src/queue/run/reap.rs", &format!("fn f() {{ q(\"{text}\") }}")),
                1,
                "{text}"
            );
        }
        assert_eq!(count("crates/punctual-server/src/x.rs", "const A: &str = r#\"\nselect 1\"#;"), 1);
    }

    #[test]
    fn the_line_is_that_of_the_word() {
        let repo = Repo::of([("crates/a/src/x.rs", "\nconst A: &str = \"\n\n  select 1\";")]);
        assert_eq!(check(&repo)[0].line, 4);
    }

    #[test]
    fn prose_and_html_are_fine() {
        for text in ["<select name='x'>", "select", "update the settings", "delete it from", "selected rows"]
        {
            assert_eq!(count("crates/a/src/x.rs", &format!("const A: &str = \"{text}\";")), 0, "{text}");
        }
        assert_eq!(count("crates/a/src/x.rs", "// select 1 from x\nfn f() { tokio::select! { } }"), 0);
    }

    #[test]
    fn homes_and_tests_are_fine() {
        let code = "const A: &str = \"select 1\";";
        for path in [
            "crates/punctual/src/queue/store/work.rs",
            "crates/punctual/src/queue/outbox/sqlx.rs",
            "bench/src/x.rs",
        ] {
            assert_eq!(count(path, code), 0, "{path}");
        }
        assert_eq!(count("crates/a/tests/it/main.rs", code), 0);
        assert_eq!(
            count("crates/a/src/x.rs", "#[cfg(test)]\nmod tests { const A: &str = \"select 1\"; }"),
            0
        );
    }
}
