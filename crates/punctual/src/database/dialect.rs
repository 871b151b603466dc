//! The two databases' words, side by side.
//!
//! Statements are written once, in PostgreSQL's words. SQLite reads a translation made of
//! the few rules below; where a hot statement needs more than that it has two texts, and
//! [`Dialect::pick`] names them together. See `docs/adr/0002-statements.md`.

/// Which database a statement is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// PostgreSQL 13 or newer.
    Postgres,
    /// SQLite 3.51.3 or newer.
    Sqlite,
}

impl Dialect {
    /// The text for this database, where the two differ by more than words.
    #[must_use]
    pub const fn pick(self, postgres: &'static str, sqlite: &'static str) -> &'static str {
        match self {
            Self::Postgres => postgres,
            Self::Sqlite => sqlite,
        }
    }
}

/// Says a statement in SQLite's words.
///
/// `punctual.work` becomes `punctual_work`, `$1` becomes `?1`, `= any($1)` reads a list
/// that is bound as a table, and row locks and casts fall away: the one writer is its own lock.
#[must_use]
pub fn for_sqlite(sql: &str) -> String {
    let mut out = sql.replace("punctual.", "punctual_").replace(" as materialized", " as");
    for lock in ROW_LOCKS {
        out = out.replace(lock, "");
    }
    while let Some(at) = out.find("= any($") {
        let end = out[at..].find(')').map_or(out.len(), |e| at + e);
        let parameter = out[at + "= any(".len()..end].split("::").next().unwrap_or("$1").to_owned();
        out.replace_range(at..=end, &format!("in rarray({parameter})"));
    }
    drop_casts(&out).replace('$', "?")
}

/// The row locks of statements that both databases run. Whichever begins as another comes before that.
const ROW_LOCKS: [&str; 7] = [
    "for update of d skip locked",
    "for update of d",
    "for update of e",
    "for update skip locked",
    "for no key update skip locked",
    "for no key update",
    "for update",
];

fn drop_casts(sql: &str) -> String {
    let mut parts = sql.split("::");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let ends = part.find(|c: char| !c.is_ascii_alphanumeric() && c != '[' && c != ']');
        out.push_str(&part[ends.unwrap_or(part.len())..]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::for_sqlite;

    #[test]
    fn sqlite_reads_the_same_statement_in_its_own_words() {
        let table = [
            ("select 1 from punctual.work where id = $1", "select 1 from punctual_work where id = ?1"),
            (
                "delete from punctual.claim where token = any($2::text[])",
                "delete from punctual_claim where token in rarray(?2)",
            ),
            ("select 1\n    from t\n    for update skip locked", "select 1\n    from t\n    "),
            ("select $1::bigint + 1", "select ?1 + 1"),
            ("with c as materialized (select 1)", "with c as (select 1)"),
        ];
        for (postgres, sqlite) in table {
            assert_eq!(for_sqlite(postgres), sqlite);
        }
    }
}
