//! A requirement counts as done when it stands in docs/requirements.txt, and it may stand
//! there only while a test names it.

use super::Finding;
use crate::repo::{File, Repo, in_folder};

const LIST: &str = "docs/requirements.txt";

/// The rule.
pub fn check(repo: &Repo) -> Vec<Finding> {
    let Some(list) = repo.file(LIST) else {
        return vec![Finding::new(LIST, 1, "is missing: list the finished requirement ids, one per line")];
    };
    let proofs: Vec<String> = repo.files().iter().filter_map(|file| test_text(repo, file)).collect();
    let mut findings = Vec::new();
    for (at, line) in list.text.lines().enumerate() {
        let id = line.split('#').next().unwrap_or_default().trim();
        if id.is_empty() {
            continue;
        }
        let what = if !is_id(id) {
            format!("`{id}` is no requirement id: write one like PLT-1 per line, ranges spelt out")
        } else if !proofs.iter().any(|text| names(text, id)) {
            format!("no test names {id}: put it into the doc comment of the test that proves it")
        } else {
            continue;
        };
        findings.push(Finding::new(LIST, at + 1, what));
    }
    findings
}

/// The part of a file that is a test, if any. Ours prove nothing about Punctual, and name ids
/// and tests that do not exist.
pub fn test_text(repo: &Repo, file: &File) -> Option<String> {
    if file.path.starts_with("xtask/") {
        return None;
    }
    if repo.is_test_file(file) {
        return Some(file.text.clone());
    }
    if let Some(source) = &file.rust {
        let lines = file.text.lines().enumerate().filter(|(at, _)| source.is_test_line(at + 1));
        let text: Vec<&str> = lines.map(|(_, line)| line).collect();
        return (!text.is_empty()).then(|| text.join("\n"));
    }
    let script = [".sh", ".mjs", ".py"].iter().any(|end| file.path.ends_with(end));
    let about_tests = in_folder(&file.path, &["test", "e2e"]) || file.path.contains("test");
    (script && about_tests).then(|| file.text.clone())
}

fn is_id(text: &str) -> bool {
    let letters = |part: &str| part.len() == 3 && part.bytes().all(|b| b.is_ascii_uppercase());
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    text.split_once('-').is_some_and(|(chapter, number)| letters(chapter) && digits(number))
}

/// Whether the id stands in the text as a whole: PLT-1 is not named by PLT-12.
fn names(text: &str, id: &str) -> bool {
    text.match_indices(id).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + id.len()..].chars().next();
        !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(|c| c.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(list: &str, path: &str, text: &str) -> Vec<String> {
        check(&Repo::of([(LIST, list), (path, text)])).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_requirement_without_a_test_is_caught() {
        let said = |path: &str, text: &str| said("# done\n\nPLT-1\n", path, text);
        assert!(
            said("a/src/x.rs", "/// PLT-1\nfn f() {}")[0]
                .starts_with("docs/requirements.txt:3: no test names")
        );
        assert_eq!(said("a/tests/x.rs", "/// PLT-12").len(), 1);
        assert_eq!(said("docs/test.md", "PLT-1").len(), 1);
        assert!(said("a/tests/x.rs", "/// PLT-1, PLT-12").is_empty());
        assert!(said("a/src/x.rs", "/// PLT-1: claims.\n#[test]\nfn f() {}").is_empty());
        assert!(said("portal/test/flows.mjs", "// PLT-1").is_empty());
    }

    #[test]
    fn a_range_is_refused() {
        assert!(said("PLT-1..PLT-9", "a/tests/x.rs", "")[0].contains("no requirement id"));
    }

    #[test]
    fn a_missing_list_is_caught() {
        assert_eq!(check(&Repo::of([("a", "b")])).len(), 1);
    }
}
