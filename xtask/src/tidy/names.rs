//! A file is named after the noun it holds.

use super::Finding;
use crate::repo::Repo;

/// Names that say nothing about what is inside.
const EMPTY: [&str; 8] = ["util", "utils", "common", "types", "helper", "helpers", "misc", "models"];

/// The rule.
pub fn check(repo: &Repo) -> Vec<Finding> {
    let findings = repo.rust().filter_map(|(file, _)| {
        let what = if file.path.ends_with("/mod.rs") {
            "mod.rs: call it after its folder, name.rs beside name/".to_string()
        } else {
            let mut parts = file.path.trim_end_matches(".rs").split('/');
            let empty = parts.find(|part| EMPTY.contains(part))?;
            format!("`{empty}` names no thing: call it after the noun it holds")
        };
        Some(Finding::new(&file.path, 1, what))
    });
    findings.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_names_are_caught() {
        let paths = ["a/src/mod.rs", "a/src/utils.rs", "a/src/common/x.rs", "a/src/work.rs", "docs/types.md"];
        let repo = Repo::of(paths.map(|path| (path, "")));
        let found: Vec<String> = check(&repo).into_iter().map(|f| f.path).collect();
        assert_eq!(found, ["a/src/common/x.rs", "a/src/mod.rs", "a/src/utils.rs"]);
    }
}
