//! The repository as the checks see it: every text file that git tracks or would track.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::source::Source;

/// One text file, with its Rust reading when it is Rust.
pub struct File {
    /// Path from the repository's root, with `/`.
    pub path: String,
    /// The whole text.
    pub text: String,
    /// Present for `.rs` files.
    pub rust: Option<Source>,
}

/// All files, and which Rust files are test code as a whole.
pub struct Repo {
    files: Vec<File>,
    test_modules: BTreeSet<String>,
}

impl Repo {
    /// Reads the repository this crate stands in.
    pub fn here() -> io::Result<Self> {
        let root = root();
        let mut files = Vec::new();
        for path in listed_by_git(&root).map_or_else(|| walked(&root), Ok)? {
            // A file deleted but not yet committed is still listed; binary files have no text.
            if let Ok(text) = std::fs::read_to_string(root.join(&path)) {
                files.push((path, text));
            }
        }
        Ok(Self::of(files))
    }

    /// Builds a repository from paths and texts.
    pub fn of(files: impl IntoIterator<Item = (impl Into<String>, impl Into<String>)>) -> Self {
        let mut files: Vec<File> = files.into_iter().map(|(p, t)| read(p.into(), t.into())).collect();
        files.sort_by(|a, b| a.path.cmp(&b.path));
        let test_modules = files.iter().flat_map(test_modules_of).collect();
        Self { files, test_modules }
    }

    /// Every text file, sorted by path.
    pub fn files(&self) -> &[File] {
        &self.files
    }

    /// The file at `path`.
    pub fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Rust files with their reading.
    pub fn rust(&self) -> impl Iterator<Item = (&File, &Source)> {
        self.files.iter().filter_map(|file| Some((file, file.rust.as_ref()?)))
    }

    /// Whether the file is test code from its first line to its last.
    pub fn is_test_file(&self, file: &File) -> bool {
        in_folder(&file.path, &["tests"])
            || file.rust.as_ref().is_some_and(|source| source.all_test)
            || self.test_modules.iter().any(|module| {
                let rest = file.path.strip_prefix(module.as_str());
                rest.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
            })
    }

    /// Whether this line of a Rust file is test code.
    pub fn is_test_line(&self, file: &File, line: usize) -> bool {
        self.is_test_file(file) || file.rust.as_ref().is_some_and(|source| source.is_test_line(line))
    }
}

/// Asked when run, not when built: two clones that share a target folder share this binary, and
/// the one must not be told that the other is tidy.
fn root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    here.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR"))).join("..")
}

/// Whether one of the path's folders has one of these names.
pub fn in_folder(path: &str, names: &[&str]) -> bool {
    let mut folders: Vec<&str> = path.split('/').collect();
    folders.pop();
    folders.iter().any(|folder| names.contains(folder))
}

fn read(path: String, text: String) -> File {
    let rust = path.ends_with(".rs").then(|| Source::read(&text));
    File { path, text, rust }
}

/// `#[cfg(test)] mod name;` makes `name.rs` and `name/` test code: their paths, without `.rs`.
fn test_modules_of(file: &File) -> Vec<String> {
    let Some(source) = &file.rust else {
        return Vec::new();
    };
    let stem = file.path.trim_end_matches(".rs");
    let (folder, name) = stem.rsplit_once('/').unwrap_or(("", stem));
    let home = if matches!(name, "lib" | "main" | "mod") { folder } else { stem };
    source.test_modules.iter().map(|module| format!("{home}/{module}")).collect()
}

fn listed_by_git(root: &Path) -> Option<Vec<String>> {
    let out = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .ok()?;
    let text = String::from_utf8(out.stdout).ok()?;
    let paths: BTreeSet<String> = text.split('\0').filter(|p| !p.is_empty()).map(String::from).collect();
    (out.status.success() && !paths.is_empty()).then(|| paths.into_iter().collect())
}

/// For a copy without git: everything but what is built or fetched.
fn walked(root: &Path) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root.join(&folder))? {
            let entry = entry?;
            let name = entry.file_name();
            let path = folder.join(&name);
            let kind = entry.file_type()?;
            let skipped = ["target", ".git", "node_modules"].iter().any(|skip| name == *skip);
            if kind.is_dir() && !skipped {
                folders.push(path);
            } else if kind.is_file() {
                found.push(path.to_string_lossy().replace('\\', "/"));
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_declared_for_tests_is_test_code() {
        let repo = Repo::of([
            ("a/src/store.rs", "#[cfg(test)]\nmod conformance;\nmod work;"),
            ("a/src/store/conformance.rs", ""),
            ("a/src/store/conformance/claim.rs", ""),
            ("a/src/store/conformance_not.rs", ""),
            ("a/src/store/work.rs", ""),
            ("a/src/lib.rs", "#[cfg(test)] mod bench;"),
            ("a/src/bench.rs", ""),
            ("a/tests/it/main.rs", ""),
        ]);
        let tests: Vec<&str> =
            repo.files().iter().filter(|f| repo.is_test_file(f)).map(|f| f.path.as_str()).collect();
        let want = [
            "a/src/bench.rs",
            "a/src/store/conformance.rs",
            "a/src/store/conformance/claim.rs",
            "a/tests/it/main.rs",
        ];
        assert_eq!(tests, want);
    }

    #[test]
    fn a_copy_without_git_is_walked() {
        let paths = walked(&root().join("xtask")).unwrap();
        assert!(paths.contains(&"src/repo.rs".to_string()), "{paths:?}");
    }
}
