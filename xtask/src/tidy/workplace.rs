//! No file names a folder that exists on one machine only: a stranger's clone has none of it.

use super::Finding;
use crate::repo::Repo;

/// Absolute homes, and the folder beside ours. Spelt in parts, so that this file passes.
const FOLDERS: [&str; 3] = [concat!("/", "work/"), concat!("/", "root/"), concat!("shared", "/")];

/// The one file that may look for test data beside the repository, and the variable it sets.
const EXCEPTION: (&str, &str) = (".ci/run", concat!("shared", "/data"));

/// The rule.
pub fn check(repo: &Repo) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in repo.files() {
        for (at, line) in file.text.lines().enumerate() {
            let excepted = file.path == EXCEPTION.0 && line.contains(EXCEPTION.1);
            if let (Some(folder), false) = (FOLDERS.iter().find(|folder| stands_in(line, folder)), excepted) {
                let what = format!("`{folder}` is a folder of one machine: use a path inside the repository");
                findings.push(Finding::new(&file.path, at + 1, what));
            }
        }
    }
    findings
}

/// Whether the folder starts there, and is not the end of a longer name like `run/work/`.
fn stands_in(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "_-})".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, text: String) -> usize {
        check(&Repo::of([(path, text)])).len()
    }

    #[test]
    fn folders_of_one_machine_are_caught() {
        assert_eq!(count("README.md", format!("see {}main", FOLDERS[0])), 1);
        assert_eq!(count("a.sh", format!("cd \"{}x\"", FOLDERS[1])), 1);
        assert_eq!(count("a.sh", format!("cd ../{}data", FOLDERS[2])), 1);
        assert_eq!(count(".ci/run", format!("cd ../{}hooks", FOLDERS[2])), 1);
    }

    #[test]
    fn folders_of_our_own_are_fine() {
        assert_eq!(count("a.md", format!("run{}x.rs", FOLDERS[0])), 0);
        assert_eq!(count(".ci/run", format!("data=../{}data", FOLDERS[2])), 0);
    }
}
