//! Functions, files and lines that a reader can hold in mind.

use super::Finding;
use crate::repo::Repo;

const FUNCTION_LINES_MAX: usize = 70;
const FILE_LINES_MAX: usize = 500;
const LINE_CHARS_MAX: usize = 110;

/// The rule. Test code may be long, but not wide.
pub fn check(repo: &Repo) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, source) in repo.rust() {
        for (at, line) in file.text.lines().enumerate() {
            let width = line.chars().count();
            if width > LINE_CHARS_MAX {
                let what = format!("{width} characters: break the line at {LINE_CHARS_MAX}");
                findings.push(Finding::new(&file.path, at + 1, what));
            }
        }
        if repo.is_test_file(file) {
            continue;
        }
        let lines = source.lines_of_code();
        if lines > FILE_LINES_MAX {
            let what = format!("{lines} lines without tests: split by noun to stay within {FILE_LINES_MAX}");
            findings.push(Finding::new(&file.path, 1, what));
        }
        for function in source.functions() {
            if function.length > FUNCTION_LINES_MAX && !source.is_test_line(function.line) {
                let what = format!(
                    "fn {} has {} lines: give its steps names of their own (at most {FUNCTION_LINES_MAX})",
                    function.name, function.length
                );
                findings.push(Finding::new(&file.path, function.line, what));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(path: &str, code: String) -> Vec<String> {
        check(&Repo::of([(path, code)])).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_long_function_is_caught() {
        let body = "    x();\n".repeat(70);
        let long = format!("fn short() {{}}\nfn long() {{\n{body}}}\n");
        assert!(said("a/src/x.rs", long.clone())[0].starts_with("a/src/x.rs:2: fn long has 72 lines"));
        assert!(said("a/tests/x.rs", long.clone()).is_empty());
        assert!(said("a/src/x.rs", format!("#[cfg(test)]\nmod t {{\n{long}}}\n")).is_empty());
    }

    #[test]
    fn a_long_file_is_caught_but_its_tests_do_not_count() {
        let lines = "const A: u8 = 1;\n".repeat(501);
        assert!(said("a/src/x.rs", lines.clone())[0].contains("501 lines"));
        let tests = format!("fn a() {{}}\n#[cfg(test)]\nmod t {{\n{lines}}}\n");
        assert!(said("a/src/x.rs", tests).is_empty());
    }

    #[test]
    fn a_wide_line_is_caught_in_tests_too() {
        assert!(said("a/tests/x.rs", format!("// {}", "é".repeat(108)))[0].contains("111 characters"));
        assert!(said("a/tests/x.rs", format!("// {}", "é".repeat(107))).is_empty());
    }
}
