//! Statements of the engine stand in `statements! { … }`, where a test prepares each of them, or as a shared
//! piece in a `macro_rules!`; nowhere in the body of a function. Each clause has a line of its own.

use super::Finding;
use super::layers::ENGINE;
use super::sql::first_statement;
use crate::repo::Repo;
use crate::source::words;

/// Where statements and their pieces stand.
const PLACES: [&str; 2] = ["statements!", "macro_rules!"];

/// Words that begin a clause.
const CLAUSES: [&str; 17] = [
    "select",
    "from",
    "where",
    "group",
    "having",
    "order",
    "limit",
    "returning",
    "values",
    "set",
    "union",
    "join",
    "left",
    "cross",
    "insert",
    "update",
    "delete",
];

/// What makes the word behind it no clause: `for update`, `is distinct from`, `left join`.
const NO_CLAUSE_AFTER: [&str; 10] =
    ["for", "key", "do", "delete", "distinct", "rows", "left", "cross", "update", "or"];

/// The rule.
pub fn check(repo: &Repo) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, source) in repo.rust().filter(|(file, _)| file.path.starts_with(ENGINE)) {
        let places = PLACES.map(|opening| source.lines_of_blocks(opening));
        for literal in source.literals.iter().filter(|l| !repo.is_test_line(file, l.line)) {
            let is_in = |places: &[std::ops::RangeInclusive<usize>]| {
                places.iter().any(|lines| lines.contains(&literal.line))
            };
            let is_placed = places.iter().any(|places| is_in(places));
            let bare = literal.text.lines().position(has_bare_status);
            if let (true, Some(line)) = (is_placed, bare) {
                let what = "a status is a bare number: name it, as `delivery_status!(Pending)` does";
                findings.push(Finding::new(&file.path, literal.line + line, what));
            }
            let Some((line, word)) = first_statement(&literal.text) else { continue };
            if !is_placed {
                let what =
                    format!("`{word}` reads as SQL outside of `statements!`: make it a constant there");
                findings.push(Finding::new(&file.path, literal.line + line, what));
            }
            let wrong = misplaced_clause(&literal.text);
            if let (true, Some((line, word))) = (is_placed, wrong) {
                let what = format!("`{word}` begins a clause: begin a line with it");
                findings.push(Finding::new(&file.path, literal.line + line, what));
            }
        }
    }
    findings
}

/// Whether a line compares a status with a number, or sets it to one.
fn has_bare_status(line: &str) -> bool {
    let is_number =
        |text: &str| text.trim_start_matches([' ', '(']).starts_with(|c: char| c.is_ascii_digit());
    line.match_indices("status").any(|(at, word)| {
        let rest = line[at + word.len()..].trim_start();
        let behind = rest.strip_prefix("in").unwrap_or_else(|| rest.trim_start_matches(['=', '<', '>']));
        behind.len() < rest.len() && is_number(behind)
    })
}

/// The first clause that begins within a line, outside of parentheses that the line opens; its line within
/// the text, and its word.
fn misplaced_clause(text: &str) -> Option<(usize, &str)> {
    if text.contains("\\\n") {
        return Some((0, "\\"));
    }
    text.lines().enumerate().find_map(|(n, line)| Some((n, misplaced_in(line, n > 0)?)))
}

/// A text that begins with a clause begins behind other words, or would be a statement on one line.
fn misplaced_in(line: &str, is_whole: bool) -> Option<&str> {
    let mut before = None;
    for (at, word) in words(line) {
        let opened = line[..at].matches('(').count() > line[..at].matches(')').count();
        let is_named = line[..at].ends_with(['.', '\'', '$']);
        let is_call = line[at + word.len()..].starts_with('(');
        let is_first = is_whole && line[..at].trim().is_empty();
        let is_clause = CLAUSES.contains(&word) && !before.is_some_and(|b| NO_CLAUSE_AFTER.contains(&b));
        if is_clause && !(opened || is_named || is_call || is_first) {
            return Some(word);
        }
        before = Some(word);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(code: &str) -> Vec<String> {
        let repo = Repo::of([("crates/punctual/src/queue/store/work.rs", code)]);
        check(&repo).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_statement_in_a_function_is_caught() {
        for code in [
            "async fn f(tx: &mut Tx) {\n    tx.query(\"\n select 1\n\", &[]).await\n}",
            "const A: &str = \"\n select id\n from work\n\";",
            "fn f() -> String {\n    format!(\"\n delete from {}\", table)\n}",
        ] {
            let said = told(code);
            assert!(said.len() == 1 && said[0].contains("make it a constant there"), "{code}: {said:?}");
        }
    }

    #[test]
    fn a_clause_within_a_line_is_caught() {
        for (word, text) in [
            ("select", "select id"),
            ("from", "\n select id from work\n"),
            ("where", "\n delete from work\n where id = $1\n \", own!(), \"\n select 1 where a = 1\n"),
            ("set", "\n update work as w set due_at = 1\n"),
            ("values", "\n insert into work (a, b) values (1, 2)\n"),
            ("limit", "\n select (select 1 from t limit 1)\n from t limit 2\n"),
            ("\\", "\n select id \\\n from work\n"),
        ] {
            let said = told(&format!("statements! {{\n    const A = \"{text}\";\n}}"));
            assert!(said.len() == 1 && said[0].contains(&format!("`{word}` begins")), "{text}: {said:?}");
        }
    }

    #[test]
    fn a_status_that_is_a_bare_number_is_caught() {
        for (condition, count) in [
            ("status = 2", 1),
            ("d.status <> 0 and d.status in (1, 2)", 1),
            ("status in (1, 2)", 1),
            ("e.status >= 3", 1),
            ("status = $2 and status = 'pending' and status = case when a = 1 then b end", 0),
            ("status = \", delivery_status!(Pending), \"", 0),
        ] {
            let text = format!("\n select id\n from x\n where {condition}\n");
            let said = told(&format!("statements! {{\n    const A = \"{text}\";\n}}"));
            assert_eq!(said.len(), count, "{condition}: {said:?}");
        }
    }

    #[test]
    fn a_statement_with_a_line_for_each_clause_is_fine() {
        let text = "
        with x as materialized (
            select w.id, w.values, (select count(*) from y where y.id = w.id limit 1)
            from work w
            left join lane l on l.id = w.lane_id and l.a is distinct from l.b
            order by w.id
            for update of w skip locked
        )
        insert into y (a)
        values ($1)
        on conflict (a)
        do update set a = excluded.a
        returning a
    ";
        for place in ["statements! {\n    const A = @;\n}", "macro_rules! a {\n    () => { @ };\n}"] {
            assert_eq!(told(&place.replace('@', &format!("\"{text}\""))), [""; 0], "{place}");
        }
    }

    #[test]
    fn tests_and_prose_are_fine() {
        for code in [
            "#[cfg(test)]\nmod tests { fn f() { q(\"select 1\") } }",
            "fn f() -> &'static str { \"update the settings from a file\" }",
        ] {
            assert_eq!(told(code), [""; 0], "{code}");
        }
    }
}
