//! Tables in our documents that are read by the checks, so that they cannot go stale.

/// The rows under a marker like `<!-- layers -->`, without heading; each cell as its words
/// in backticks.
pub fn table(text: &str, marker: &str) -> Option<Vec<Vec<Vec<String>>>> {
    let mut lines = text.lines().skip_while(|line| line.trim() != marker);
    lines.next()?;
    let rows = lines.skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let rows: Vec<_> = rows.skip(2).map(|row| cells(row).map(quoted).collect()).collect();
    (!rows.is_empty()).then_some(rows)
}

/// The cells of one row.
pub fn cells(row: &str) -> impl Iterator<Item = &str> {
    row.trim().trim_matches('|').split('|').map(str::trim)
}

/// What stands in backticks.
pub fn quoted(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(String::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_found_by_its_marker() {
        let text = "| `x` |\n<!-- layers -->\n\n| a | b |\n|---|---|\n\
            | `base` | `x`, `y` |\n| `run` | - |\n\n| `z` |";
        let table = table(text, "<!-- layers -->").unwrap();
        assert_eq!(table, [vec![vec!["base"], vec!["x", "y"]], vec![vec!["run"], vec![]]]);
    }

    #[test]
    fn a_missing_table_is_none() {
        assert!(table("no", "<!-- layers -->").is_none());
        assert!(table("<!-- layers -->\n", "<!-- layers -->").is_none());
    }
}
