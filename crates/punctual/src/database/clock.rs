//! The clock that decides: the database server's, the host's (SQLite), or a manual one
//! kept in the database, shared by every process that serves it.

use crate::base::clock::{Timestamp, host_now};
use crate::base::component::Component;
use crate::base::error::Error;
use crate::database::statement::statements;
use crate::database::store::{Backend, Store};
use crate::database::tx::VerbFuture;
use crate::database::value::{Value, params};
use std::time::Duration;

/// The clock source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClockMode {
    /// Time passes by itself.
    #[default]
    System,
    /// Time stands still until it is moved.
    Manual,
}

/// How long a process holds the clock without a renewal before another may take over: longer than a busy
/// machine stalls, and shorter than a caller waits after a crash.
const CLOCK_HOLD: Duration = Duration::from_secs(30);

impl Store {
    /// The authority's time.
    pub fn now(&self) -> VerbFuture<'_, Timestamp> {
        self.read((), |tx, ()| Box::pin(async move { tx.now().await }))
    }

    /// Begins to run on a clock. A database that ran on a manual clock refuses the system
    /// clock unless `leave_manual` says so: its times may lie far in the future.
    ///
    /// # Errors
    /// [`Error::Config`] on such a refusal.
    pub fn use_clock(&self, mode: ClockMode, leave_manual: bool) -> VerbFuture<'_, ()> {
        VerbFuture::new(async move {
            let request = (mode, leave_manual, host_now());
            let manual = self
                .write(request, |tx, (mode, leave, host)| {
                    Box::pin(async move {
                        let row = tx.first(IS_MANUAL, &[]).await?;
                        let was = row.map_or(Ok(false), |row| row.flag(0))?;
                        match (was, mode) {
                            (true, ClockMode::System) if !leave => return Err(refused()),
                            (true, ClockMode::System) => {
                                tx.execute(LEAVE_MANUAL, &[]).await?;
                            }
                            (false, ClockMode::Manual) => {
                                tx.execute(START_MANUAL, params![*host]).await?;
                            }
                            _ => {}
                        }
                        Ok(*mode == ClockMode::Manual)
                    })
                })
                .await?;
            self.manual_here(manual);
            Ok(())
        })
    }

    fn manual_here(&self, manual: bool) {
        match &self.backend {
            #[cfg(feature = "sqlite")]
            Backend::Sqlite(db) => db.use_manual_clock(manual),
            // The server's own function knows.
            #[cfg(feature = "postgres")]
            Backend::Postgres(_) => {
                let _ = manual;
            }
            // Its link knows.
            #[cfg(all(feature = "testing", feature = "sqlite"))]
            Backend::Simulated(_) => {}
        }
    }

    /// Moves the manual clock, forwards or back; fires nothing by itself.
    pub fn set_clock(&self, to: Timestamp) -> VerbFuture<'_, ()> {
        self.write(to, |tx, to| {
            Box::pin(async move {
                let moved = tx.execute(SET, params![*to]).await?;
                if moved == 1 {
                    Ok(())
                } else {
                    Err(Error::Conflict("this database is on the system clock".into()))
                }
            })
        })
    }

    /// Takes the right to move the clock, and to do what is due on it, for 30 seconds; returns whether it was
    /// free.
    pub fn hold_clock(&self, holder: &str) -> VerbFuture<'_, bool> {
        self.change_hold(holder, HOLD_POSTGRES, HOLD_SQLITE)
    }

    /// Holds the clock for 30 seconds from now; returns `false` if another holder has taken it over.
    pub fn renew_clock(&self, holder: &str) -> VerbFuture<'_, bool> {
        self.change_hold(holder, RENEW_POSTGRES, RENEW_SQLITE)
    }

    fn change_hold(
        &self,
        holder: &str,
        postgres: &'static str,
        sqlite: &'static str,
    ) -> VerbFuture<'_, bool> {
        self.write((holder.to_owned(), postgres, sqlite), |tx, (holder, postgres, sqlite)| {
            Box::pin(async move {
                let sql = tx.dialect().pick(postgres, sqlite);
                let hold = i64::try_from(CLOCK_HOLD.as_micros()).unwrap_or(i64::MAX);
                Ok(tx.execute(sql, params![holder, hold]).await? == 1)
            })
        })
    }

    /// Gives that right back.
    pub fn release_clock(&self, holder: &str) -> VerbFuture<'_, ()> {
        self.write(holder.to_owned(), |tx, holder| {
            Box::pin(async move {
                tx.execute(FREE, params![holder]).await?;
                Ok(())
            })
        })
    }

    /// The next moment after now at which something becomes due in the own queue of these topics
    /// or in a subscription of these handlers, a lease ends, or a job is due.
    pub fn next_moment(
        &self,
        topics: Vec<String>,
        subscribers: Vec<String>,
    ) -> VerbFuture<'_, Option<Timestamp>> {
        self.read((topics, subscribers), |tx, (topics, subscribers)| {
            Box::pin(async move {
                let now = tx.now().await?;
                let topics: Vec<Option<&str>> = topics.iter().map(|t| Some(t.as_str())).collect();
                let subscribers: Vec<Option<&str>> = subscribers.iter().map(|s| Some(s.as_str())).collect();
                let lists = [Value::Texts(&topics), Value::Texts(&subscribers)];
                let there = tx.components().await?;
                let mut times = Vec::new();
                for (component, sql, values) in [
                    (Component::Outbox, NEXT_WORK, &[now.into(), lists[0], lists[1]][..]),
                    (Component::Outbox, NEXT_LEASE, &[now.into()]),
                    (Component::Jobs, NEXT_JOB, &[now.into()]),
                    (Component::Flows, NEXT_RECEIPT, &[now.into()]),
                ] {
                    if there.has(component) {
                        let row = tx.first(sql, values).await?;
                        times.extend(row.map_or(Ok(None), |row| row.maybe_time(0))?);
                    }
                }
                Ok(times.into_iter().min())
            })
        })
    }
}

fn refused() -> Error {
    Error::Config(
        "this database was run on a manual clock, so its times may lie in the future or the past; \
         serve it with --clock manual, or say --leave-manual-clock to go on with the system clock"
            .into(),
    )
}

statements! {
    const IS_MANUAL = "
        select manual
        from punctual.clock
        where id = 1
    ";

    const LEAVE_MANUAL = "
        update punctual.clock
        set manual = 0
        where id = 1
    ";

    const FREE = "
        update punctual.clock
        set holder = null, held_until = null
        where id = 1 and holder = $1
    ";

    const START_MANUAL = "
        update punctual.clock
        set manual = 1, now_us = $1
        where id = 1
    ";

    const SET = "
        update punctual.clock
        set now_us = $1
        where id = 1 and manual = 1
    ";
}

/// The real time of the database's host, while its own clock stands still.
macro_rules! real_time {
    (postgres) => {
        "(extract(epoch from clock_timestamp()) * 1000000)::bigint"
    };
    (sqlite) => {
        "cast((julianday('now') - 2440587.5) * 86400000000 as integer)"
    };
}
macro_rules! hold {
    ($database:tt) => {
        concat! {"
            update punctual.clock
            set holder = $1, held_until = ", real_time!($database), " + $2
            where id = 1 and (holder is null or held_until < ", real_time!($database), ")
        "}
    };
}
macro_rules! renew {
    ($database:tt) => {
        concat! {"
            update punctual.clock
            set held_until = ", real_time!($database), " + $2
            where id = 1 and holder = $1
        "}
    };
}

statements! {
    const HOLD_POSTGRES for Postgres = hold!(postgres);

    const HOLD_SQLITE for Sqlite = hold!(sqlite);

    const RENEW_POSTGRES for Postgres = renew!(postgres);

    const RENEW_SQLITE for Sqlite = renew!(sqlite);

    const NEXT_WORK = "
        select min((select min(w.due_at) from punctual.work w where w.lane_id = l.id and w.due_at > $1))
        from punctual.lane l
        where l.paused = 0
            and (
                l.purpose <> 'dispatch'
                    or l.subscription = '/flows'
                    or (l.subscription = '' and l.topic = any($2::text[]))
                    or exists (
                        select 1
                        from punctual.subscription s
                        where s.lane_id = l.id and s.handler = any($3::text[])
                    )
            )
    ";

    const NEXT_LEASE = "
        select min(c.lease_until)
        from punctual.claim c
        where c.finished_at is null and c.lease_until > $1
    ";

    const NEXT_JOB = "
        select min(j.next_due)
        from punctual.job j
        where j.next_due > $1
    ";

    const NEXT_RECEIPT = "
        select min(r.look_at)
        from punctual.early_receipt r
        where r.look_at > $1
    ";
}
