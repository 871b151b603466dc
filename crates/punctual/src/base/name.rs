//! Names that people and hosts choose: topics, kinds, owners, tenants.

use crate::base::error::Problems;
use crate::base::limits;

/// A name is 1 to 255 characters, none of them a control character.
pub fn check_name(name: &str, path: &str, problems: &mut Problems) {
    let chars = name.chars().count();
    if chars == 0 {
        problems.push(path, "must not be empty");
    } else if chars > limits::NAME_CHARS_MAX {
        problems
            .push(path, format!("has {chars} characters, at most {} are allowed", limits::NAME_CHARS_MAX));
    } else if name.chars().any(char::is_control) {
        problems.push(path, "must not contain control characters");
    } else if name.trim() != name {
        problems.push(path, "must not begin or end with white space");
    }
}
