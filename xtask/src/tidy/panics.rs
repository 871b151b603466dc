//! Nothing unwraps outside tests and examples. An `expect` may stand where a comment
//! `// invariant: …` on its line or right above it says why it cannot fail.

use super::Finding;
use crate::repo::{Repo, in_folder};
use crate::source::Source;

/// The rule.
pub fn check(repo: &Repo) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, source) in repo.rust() {
        if in_folder(&file.path, &["examples", "benches", "peers"]) {
            continue;
        }
        let lines: Vec<&str> = file.text.lines().collect();
        for call in [".unwrap()", ".expect("] {
            for (at, _) in source.code.match_indices(call) {
                let line = source.line_of(at);
                if repo.is_test_line(file, line) || (call == ".expect(" && explained(source, &lines, line)) {
                    continue;
                }
                let call = call.trim_matches(['.', '(', ')']);
                let what = format!(
                    "{call} outside tests: return the error, or use expect below `// invariant: why`"
                );
                findings.push(Finding::new(&file.path, line, what));
            }
        }
    }
    findings
}

/// Whether an invariant is stated on the line, or above it with only comments and attributes
/// between.
fn explained(source: &Source, lines: &[&str], line: usize) -> bool {
    let above = lines[..line - 1].iter().rev().map(|text| text.trim_start());
    let above = above.take_while(|text| text.starts_with("//") || text.starts_with("#[")).count();
    source
        .comments
        .iter()
        .filter(|comment| (line - above..=line).contains(&comment.line))
        .any(|comment| comment.text.trim_start().starts_with("invariant:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, code: &str) -> usize {
        check(&Repo::of([(path, code)])).len()
    }

    #[test]
    fn an_unwrap_is_caught() {
        assert_eq!(count("a/src/x.rs", "fn f() { a.unwrap() }"), 1);
        assert_eq!(count("a/src/x.rs", "fn f() { a\n.expect(\"x\") }"), 1);
        assert_eq!(count("a/src/x.rs", "// invariant: never empty\nfn f() { a.unwrap() }"), 1);
        assert_eq!(count("a/src/x.rs", "#[test]\nfn t() { a.unwrap() }\nfn f() { a.unwrap() }"), 1);
    }

    #[test]
    fn tests_examples_and_explained_expects_are_fine() {
        assert_eq!(count("a/tests/x.rs", "fn f() { a.unwrap() }"), 0);
        assert_eq!(count("a/examples/x.rs", "fn f() { a.unwrap() }"), 0);
        assert_eq!(count("a/src/x.rs", "#[cfg(test)]\nmod t { fn f() { a.unwrap() } }"), 0);
        assert_eq!(count("a/src/x.rs", "// invariant: never empty\nlet x = a.expect(\"full\");"), 0);
        let apart = "// invariant: never empty,\n// ever\n#[allow(x)]\nlet x = a.expect(\"full\");";
        assert_eq!(count("a/src/x.rs", apart), 0);
        assert_eq!(count("a/src/x.rs", "let x = a.expect(\"full\"); // invariant: never empty"), 0);
        assert_eq!(count("a/src/x.rs", "/// a.unwrap()\nfn f() { a.unwrap_or(\".unwrap()\") }"), 0);
    }
}
