//! `punctual doctor`: one line for each check, with advice.

mod channels;

use crate::cli::failure::{FailureKind, Outcome};
use crate::cli::{GlobalOptions, format, print_json, print_line};
use crate::config::channels_of;
use crate::disk_space::DiskSpace;
use punctual::base::limits;
use punctual::database::dialect::Dialect;
use punctual::database::migrate::SCHEMA_VERSION;
use punctual::operate::store::census::Census;
use punctual::operate::store::storage::StorageStatus;
use punctual::queue::store::inbox::InboxCounts;
use punctual::{Component, Components, Error, Store};
use serde_json::json;
use std::process::ExitCode;
use std::time::Duration;

/// The wait of due work after which no worker seems to take it.
const LATE_AFTER: Duration = Duration::from_secs(300);

/// The result of one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Mark {
    Ok,
    Warn,
    Bad,
}

impl Mark {
    const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Bad => "bad",
        }
    }
}

/// One check.
#[derive(Debug)]
struct Finding {
    mark: Mark,
    what: &'static str,
    said: String,
}

/// Runs all checks.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Doctor;

impl Doctor {
    /// Returns the exit code of the worst finding.
    pub(in crate::cli) async fn run(self, options: &GlobalOptions) -> Outcome<ExitCode> {
        let inbox_stuck_after = options.inbox_stuck_after()?;
        let store = options.existing()?;
        let mut findings = Vec::new();
        let mut kind = match look(&store, inbox_stuck_after, &mut findings).await {
            Ok(kind) => kind,
            Err(error) => {
                findings.push(Finding { mark: Mark::Bad, what: "database", said: error.to_string() });
                Some(if error.is_transient() { FailureKind::Unreachable } else { FailureKind::Failed })
            }
        };
        match options.config.as_deref().map(channels_of).transpose() {
            Ok(known) => {
                findings.extend(known.iter().flat_map(|(all, url)| channels::look(all, url.as_deref())))
            }
            Err(failure) => {
                findings.push(Finding { mark: Mark::Bad, what: "channels", said: failure.sentence });
                kind = kind.or(Some(failure.kind));
            }
        }
        print(&findings, options.json);
        Ok(ExitCode::from(kind.map_or(0, FailureKind::code)))
    }
}

fn setting<'a>(settings: &'a [(String, String)], name: &str) -> &'a str {
    settings.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
}

/// Opening a file refuses older versions and sets what a commit promises; both are shown.
fn sqlite_settings(settings: &[(String, String)]) -> Vec<Finding> {
    let version = format!("SQLite {}, which is 3.51.3 or newer", setting(settings, "version"));
    let journal = setting(settings, "journal_mode");
    let mark = if journal == "wal" { Mark::Ok } else { Mark::Warn };
    let durability = format!("journal mode {journal}; each commit is flushed to the disk");
    vec![
        Finding { mark: Mark::Ok, what: "version", said: version },
        Finding { mark, what: "durability", said: durability },
    ]
}

/// PostgreSQL before this knows too little.
const POSTGRES_MIN: u32 = 130_000;

fn postgres_settings(settings: &[(String, String)]) -> Vec<Finding> {
    let version = setting(settings, "server_version");
    let new_enough = setting(settings, "server_version_num").parse().is_ok_and(|n: u32| n >= POSTGRES_MIN);
    let mark = if new_enough { Mark::Ok } else { Mark::Bad };
    let said = if new_enough { String::new() } else { "; 13 or newer is needed, upgrade the server".into() };
    let version = Finding { mark, what: "version", said: format!("PostgreSQL {version}{said}") };
    let off: Vec<&str> = ["fsync", "synchronous_commit", "full_page_writes"]
        .into_iter()
        .filter(|name| setting(settings, name) == "off")
        .collect();
    let durability = if off.is_empty() {
        Finding { mark: Mark::Ok, what: "durability", said: "each commit is flushed to the disk".into() }
    } else {
        let said = format!("{} is off: a crash of the server can lose committed work", off.join(", "));
        Finding { mark: Mark::Warn, what: "durability", said }
    };
    vec![version, durability]
}

async fn look(
    store: &Store,
    inbox_stuck_after: Duration,
    findings: &mut Vec<Finding>,
) -> Result<Option<FailureKind>, Error> {
    let schema = match store.check_schema().await {
        Err(error) if !matches!(error, Error::Schema(_)) => return Err(error),
        other => other,
    };
    let mut add = |mark, what, said: String| findings.push(Finding { mark, what, said });
    let name = store.dialect().name();
    add(Mark::Ok, "database", format!("{name} answers"));
    let settings = store.settings().await?;
    findings.extend(match store.dialect() {
        Dialect::Sqlite => sqlite_settings(&settings),
        Dialect::Postgres => postgres_settings(&settings),
    });
    let mut add = |mark, what, said: String| findings.push(Finding { mark, what, said });
    if let Err(error) = schema {
        add(Mark::Bad, "schema", error.to_string());
        return Ok(Some(FailureKind::Schema));
    }
    let census = store.census().await?;
    add(Mark::Ok, "schema", version(census.components));
    findings.extend(judge(&census));
    let (mark, said) = storage(&store.storage_status().await, DiskSpace::of(store));
    findings.push(Finding { mark, what: "storage", said });
    if census.components.has(Component::Inbox) {
        let (mark, said) = inbox(store.count_inbox(inbox_stuck_after).await?);
        findings.push(Finding { mark, what: "inbox", said });
    }
    if let Some(stands) = store.check_row_security().await? {
        let (mark, said) = tenants(stands);
        findings.push(Finding { mark, what: "tenants", said });
    }
    let bad = findings.iter().any(|finding| finding.mark == Mark::Bad);
    Ok(bad.then_some(FailureKind::Failed))
}

/// A database of single components is as it should be, but `serve` will add the others.
fn version(components: Components) -> String {
    if components == Components::ALL {
        return format!("version {SCHEMA_VERSION}, as it should be");
    }
    format!("version {SCHEMA_VERSION}, as it should be, with only the components {components}")
}

fn tenants(wall_stands: bool) -> Verdict {
    if wall_stands {
        return (Mark::Ok, "row-level security stands behind every verb of one tenant".into());
    }
    let said = "row-level security is not in force, so the second wall between tenants does not stand: \
        as an administrator, `create role punctual_tenant nologin` and grant it to this role, then \
        `punctual migrate` as the owner of the tables";
    (Mark::Warn, said.into())
}

fn judge(census: &Census) -> Vec<Finding> {
    let mut checks = vec![("relations", relations(census)), ("clock", clock(census))];
    if census.components.has(Component::Outbox) {
        checks.push(("claims", claims(census)));
        checks.push(("dead letters", dead_letters(census)));
        checks.push(("due work", due_work(census)));
    }
    checks.into_iter().map(|(what, (mark, said))| Finding { mark, what, said }).collect()
}

type Verdict = (Mark, String);

fn relations(census: &Census) -> Verdict {
    if census.missing.is_empty() {
        return (Mark::Ok, "all tables and indexes are there".into());
    }
    let names = census.missing.join(", ");
    (Mark::Bad, format!("{names} should be there; make them again with what `punctual migrate --print` says"))
}

fn clock(census: &Census) -> Verdict {
    let skew = Duration::from_micros(census.host_skew_us.unsigned_abs());
    if skew <= limits::HOST_SKEW_MAX {
        return (Mark::Ok, format!("this machine and the database are {} apart", format::length(skew)));
    }
    let how = if census.host_skew_us > 0 { "ahead of" } else { "behind" };
    let said = format!(
        "this machine is {} {how} the database, which decides; on a manual clock that is as it should be, \
         else check time synchronisation",
        format::length(skew)
    );
    (Mark::Warn, said)
}

fn claims(census: &Census) -> Verdict {
    match census.stuck_claims {
        0 => (Mark::Ok, format!("{} in flight, none stuck", format::many(census.open_claims, "claim"))),
        n => {
            let what = format::many(n, "claim");
            (
                Mark::Bad,
                format!("{what} past their lease: start a worker (`punctual serve`), it takes them back"),
            )
        }
    }
}

fn dead_letters(census: &Census) -> Verdict {
    match census.dead_letters {
        0 => (Mark::Ok, "none".into()),
        n => (Mark::Warn, format!("{n}; see `punctual dead-letters list`, then replay or purge them")),
    }
}

/// A write was tried, since a database on a full disk answers every question.
fn storage(status: &StorageStatus, room: Option<DiskSpace>) -> Verdict {
    let complaints: Vec<String> =
        status.complaints().into_iter().chain(room.and_then(DiskSpace::complaint)).collect();
    if status.write_error.is_some() {
        return (Mark::Bad, complaints.join("; "));
    }
    if !complaints.is_empty() {
        return (Mark::Warn, complaints.join("; "));
    }
    let room = room.map_or_else(String::new, |room| format!("; {} MiB are free", room.free >> 20));
    (Mark::Ok, format!("a write was tried and undone{room}"))
}

fn inbox(counts: InboxCounts) -> Verdict {
    if counts.stuck > 0 {
        let what = format::many(counts.stuck, "received message");
        let said = format!("{what} long past its lease: has the sender given up? See `punctual inbox list`");
        return (Mark::Warn, said);
    }
    match counts.dead {
        0 => (Mark::Ok, format!("{} in progress", format::many(counts.processing, "received message"))),
        n => (Mark::Warn, format!("{n} dead; see `punctual inbox list --status dead`, then replay them")),
    }
}

fn due_work(census: &Census) -> Verdict {
    match census.oldest_due() {
        Some(due) if census.now.since(due) > LATE_AFTER => {
            let said = format!(
                "the oldest has been due for {}: check its workers with `punctual status`",
                format::length(census.now.since(due))
            );
            (Mark::Warn, said)
        }
        Some(due) => (Mark::Ok, format!("the oldest became due {}", format::from_now(due, census.now))),
        None => (Mark::Ok, "nothing is due".into()),
    }
}

fn print(findings: &[Finding], as_json: bool) {
    let worst = findings.iter().map(|f| f.mark).max().unwrap_or(Mark::Ok);
    if as_json {
        let item = |f: &Finding| json!({"check": f.what, "state": f.mark.word(), "message": f.said});
        let items: Vec<_> = findings.iter().map(item).collect();
        print_json(&json!({"state": worst.word(), "checks": items}));
        return;
    }
    for f in findings {
        print_line(&format!("{:<4}  {:<12}  {}", f.mark.word(), f.what, f.said));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual::Timestamp;
    use punctual::operate::store::lag::WorkerLag;
    use punctual::queue::rules::purpose::Purpose;

    fn census() -> Census {
        Census {
            now: Timestamp::from_micros(1_000_000_000_000),
            host_skew_us: 5,
            schema_version: SCHEMA_VERSION,
            components: Components::ALL,
            missing: Vec::new(),
            open_claims: 2,
            stuck_claims: 0,
            dead_letters: 0,
            workers: Vec::new(),
            jobs: Vec::new(),
        }
    }

    fn worst(census: &Census) -> Mark {
        judge(census).iter().map(|f| f.mark).max().unwrap()
    }

    /// NTF-23: a wall that does not stand is told, with what makes it stand.
    #[test]
    fn ntf_23_a_missing_wall_is_told() {
        assert_eq!(tenants(true).0, Mark::Ok);
        let (mark, said) = tenants(false);
        assert_eq!(mark, Mark::Warn);
        assert!(said.contains("create role punctual_tenant nologin"), "{said}");
    }

    /// PLT-27: only what the components have is looked at.
    #[test]
    fn plt_27_a_database_of_leases_has_no_claims_to_look_at() {
        let components = Components::of(&[Component::Leases]);
        let checks: Vec<&str> = judge(&Census { components, ..census() }).iter().map(|f| f.what).collect();
        assert_eq!(checks, ["relations", "clock"]);
        assert!(version(components).ends_with("with only the components leases"));
    }

    /// PLT-25: a failed write is bad, a log that grows is to be looked at.
    #[test]
    fn plt_25_writes_that_fail_are_found() {
        let status = |write_error: Option<&str>, wal_bytes| StorageStatus {
            write_error: write_error.map(str::to_owned),
            wal_bytes,
        };
        for (status, mark, words) in [
            (status(None, None), Mark::Ok, "a write was tried"),
            (status(None, Some(1 << 40)), Mark::Warn, "end long reads"),
            (status(Some("database or disk is full"), Some(1 << 40)), Mark::Bad, "free space on it"),
        ] {
            let (found, said) = storage(&status, None);
            assert!(found == mark && said.contains(words), "{words}: {found:?} {said}");
        }
    }

    /// PLT-25: each thing that can be wrong is found, and says what to do.
    #[test]
    fn plt_25_each_trouble_is_found() {
        let now = census().now;
        let table = [
            (census(), Mark::Ok, "all tables"),
            (Census { missing: vec!["work".into()], ..census() }, Mark::Bad, "work should be there"),
            (Census { stuck_claims: 3, ..census() }, Mark::Bad, "start a worker"),
            (Census { dead_letters: 1, ..census() }, Mark::Warn, "replay or purge"),
            (Census { host_skew_us: -9_000_000, ..census() }, Mark::Warn, "9 s behind the database"),
            (
                Census {
                    workers: vec![WorkerLag {
                        purpose: Purpose::Dispatch,
                        oldest_due: Some(now.minus(Duration::from_secs(400))),
                    }],
                    ..census()
                },
                Mark::Warn,
                "6 min 40 s",
            ),
        ];
        for (census, mark, said) in table {
            assert_eq!(worst(&census), mark, "{said}");
            assert!(judge(&census).iter().any(|f| f.said.contains(said)), "{said}");
        }
    }
}
