//! No crate that deny.toml bans is in Cargo.lock. `cargo deny` says more, but is not on every
//! machine.

use super::Finding;
use crate::repo::Repo;

/// The rule.
pub fn check(repo: &Repo) -> Vec<Finding> {
    let Some(deny) = repo.file("deny.toml") else {
        return vec![Finding::new("deny.toml", 1, "is missing: it lists the crates we do not take")];
    };
    let locked = repo.file("Cargo.lock").map_or("", |file| file.text.as_str());
    let mut findings = Vec::new();
    for name in banned(&deny.text) {
        let line = locked.lines().position(|line| line == format!("name = \"{name}\""));
        if let Some(at) = line {
            let what =
                format!("{name} is banned in deny.toml: see `cargo tree -i {name}`, turn the feature off");
            findings.push(Finding::new("Cargo.lock", at + 1, what));
        }
    }
    findings
}

/// The names in the list `deny = [ … ]` of `[bans]`.
fn banned(text: &str) -> Vec<&str> {
    let bans = text.lines().skip_while(|line| line.trim() != "[bans]").skip(1);
    let list = bans.take_while(|line| !line.starts_with('[')).skip_while(|line| !line.starts_with("deny"));
    let entries = list.skip(1).take_while(|line| !line.starts_with(']'));
    entries.filter_map(|line| line.split("crate = \"").nth(1)?.split('"').next()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DENY: &str =
        "[bans]\nmultiple = 1\ndeny = [\n  { crate = \"chrono\", reason = \"x\" },\n]\n[sources]\n";

    #[test]
    fn a_banned_crate_is_caught() {
        let lock = "[[package]]\nname = \"chrono\"\n";
        let found = check(&Repo::of([("deny.toml", DENY), ("Cargo.lock", lock)]));
        assert_eq!((found.len(), found[0].line), (1, 2));
        assert!(check(&Repo::of([("deny.toml", DENY), ("Cargo.lock", "name = \"chrono-not\"")])).is_empty());
    }

    #[test]
    fn our_own_list_is_read() {
        let repo = Repo::here().unwrap();
        let names = banned(&repo.file("deny.toml").unwrap().text);
        assert!(names.contains(&"chrono") && names.contains(&"native-tls"), "{names:?}");
    }
}
