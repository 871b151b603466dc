//! Every row of the table under `## Promises` in the README names the test that keeps it:
//! `crate::module::name`, or the path of a file.

use super::Finding;
use super::requirements::test_text;
use crate::markdown;
use crate::repo::Repo;

const README: &str = "README.md";

/// The rule.
pub fn check(repo: &Repo) -> Vec<Finding> {
    let Some(readme) = repo.file(README) else {
        return vec![Finding::new(README, 1, "is missing: say what this is, and what it promises")];
    };
    let section = readme.text.lines().enumerate().skip_while(|(_, line)| line.trim() != "## Promises");
    let section: Vec<_> = section.skip(1).take_while(|(_, line)| !line.starts_with("## ")).collect();
    let rows: Vec<_> = section.iter().filter(|(_, line)| line.starts_with('|')).skip(2).collect();
    if rows.is_empty() {
        let what = "has no table under `## Promises`: list what we promise and the test that keeps it";
        return vec![Finding::new(README, 1, what)];
    }
    let tests: Vec<String> = repo.files().iter().filter_map(|file| test_text(repo, file)).collect();
    let mut findings = Vec::new();
    for (at, row) in rows {
        let named = markdown::cells(row).last().map(markdown::quoted).unwrap_or_default();
        if named.is_empty() {
            let what = "promises without a test: name it in backticks in the last column";
            findings.push(Finding::new(README, at + 1, what));
        }
        for test in named.iter().filter(|test| !exists(repo, &tests, test)) {
            let what = format!("names the test `{test}`, which is not there: write it, or drop the promise");
            findings.push(Finding::new(README, at + 1, what));
        }
    }
    findings
}

fn exists(repo: &Repo, tests: &[String], name: &str) -> bool {
    if name.contains('/') {
        return repo.files().iter().any(|file| file.path == name);
    }
    let function = format!("fn {}", name.rsplit("::").next().unwrap_or(name));
    let is_end = |c: char| c == '(' || c == '<';
    let found = |text: &String| {
        text.match_indices(&function).any(|(at, _)| text[at + function.len()..].starts_with(is_end))
    };
    tests.iter().any(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(row: &str) -> usize {
        let readme = format!("# P\n\n## Promises\n\n| we promise | kept by |\n|---|---|\n{row}\n\n## Next\n");
        let test = "/// x\nasync fn stale_claim_changes_nothing(t: &Bench) {}";
        check(&Repo::of([(README, readme.as_str()), ("crates/a/tests/it/claim.rs", test)])).len()
    }

    #[test]
    fn a_promise_names_a_test_that_exists() {
        assert_eq!(count("| a | `punctual::it::claim::stale_claim_changes_nothing` |"), 0);
        assert_eq!(count("| a | `crates/a/tests/it/claim.rs` |"), 0);
        assert_eq!(count("| a | `claim::stale_claim` |"), 1);
        assert_eq!(count("| a | `crates/a/tests/it/gone.rs` |"), 1);
        assert_eq!(count("| `a` | trust us |"), 1);
    }

    #[test]
    fn a_readme_without_promises_is_caught() {
        assert_eq!(check(&Repo::of([(README, "# P")])).len(), 1);
        assert_eq!(check(&Repo::of([("x", "y")])).len(), 1);
    }
}
