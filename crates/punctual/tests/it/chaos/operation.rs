//! What a publisher does, and what must become of it.
//!
//! This is where a new noun joins the chaos. A variant says by what topic it goes and how it must
//! end; `publisher.rs` does it, `worker.rs` handles its topic, and what else must hold of it is a
//! promise in `checker.rs`. Operations that lead to sends are checked in `sends.rs`.

use super::definitions::{INGESTED, NOTIFIED, SURVEYED};

/// One thing a publisher does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// A message, nothing more.
    Plain,
    /// A message of a key: after its elders, and alone.
    Keyed,
    /// A timer: a message that is due later, by the database's clock.
    Later,
    /// A timer that is cancelled about when it is due.
    Cancelled,
    /// A message with an id, asked again until it is acknowledged.
    Named,
    /// A message in a transaction of the host's own, which wakes nobody.
    Host,
    /// The same, rolled back.
    RolledBack,
    /// Its handler fails at first.
    Shaky,
    /// Its handler always fails.
    Doomed,
    /// For workers that claim and settle by themselves.
    Raw,
    /// An event that customers are notified of.
    Notified,
    /// An event of a topic that begins a survey.
    Surveyed,
    /// An event that is handed in and begins a survey, asked again until it is acknowledged.
    Ingested,
    /// A run of a job: nobody publishes it.
    Tick,
    /// The same, of a job that never works.
    DoomedTick,
}

/// How it must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Settled well, once.
    Done,
    /// A dead letter.
    Dead,
    /// It never was.
    Never,
}

/// Attempts that a doomed message has.
pub const DOOMED_ATTEMPTS: usize = 3;
/// Publishers at once; each does its own operations one after the other.
pub const PUBLISHERS: u64 = 8;
/// No publisher gets this far: payloads from here on are those of jobs.
const OF_JOBS: u64 = 1 << 50;
/// Operations of one round, at most.
pub const ROUND: u64 = 10_000;

impl Operation {
    const ALL: [Self; 13] = [
        Self::Plain,
        Self::Keyed,
        Self::Later,
        Self::Cancelled,
        Self::Named,
        Self::Host,
        Self::RolledBack,
        Self::Shaky,
        Self::Doomed,
        Self::Raw,
        Self::Notified,
        Self::Surveyed,
        Self::Ingested,
    ];

    pub fn name(self) -> String {
        format!("{self:?}")
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|o| o.name() == name)
    }

    /// Which operation is the `n`-th.
    pub fn of(n: u64, seed: u64) -> Self {
        match super::dice(seed, n) % 100 {
            0..43 => Self::Plain,
            43..48 => Self::Notified,
            48..51 => Self::Surveyed,
            51..55 => Self::Ingested,
            55..68 => Self::Keyed,
            68..75 => Self::Later,
            75..78 => Self::Cancelled,
            78..85 => Self::Named,
            85..89 => Self::Host,
            89..92 => Self::RolledBack,
            92..95 => Self::Shaky,
            95 => Self::Doomed,
            _ => Self::Raw,
        }
    }

    pub const fn topic(self) -> &'static str {
        match self {
            Self::Plain | Self::Later | Self::Cancelled | Self::Named | Self::Host | Self::RolledBack => {
                "plain"
            }
            Self::Keyed => "keyed",
            Self::Shaky => "shaky",
            Self::Doomed => "doomed",
            Self::Raw => "raw",
            Self::Notified => NOTIFIED,
            Self::Surveyed => SURVEYED,
            Self::Ingested => INGESTED,
            Self::Tick => "tick",
            Self::DoomedTick => "doomed-tick",
        }
    }

    /// Whether it leads to sends, and to no work of a handler.
    pub const fn is_sent(self) -> bool {
        matches!(self, Self::Notified | Self::Surveyed | Self::Ingested)
    }

    /// Whether it is asked again until it is acknowledged: the engine knows it the second time.
    pub const fn is_repeated(self) -> bool {
        matches!(self, Self::Named | Self::Ingested)
    }

    pub const fn end(self) -> End {
        match self {
            Self::RolledBack => End::Never,
            Self::Doomed | Self::DoomedTick => End::Dead,
            _ => End::Done,
        }
    }

    /// The payload of a job's runs.
    pub const fn payload(self) -> u64 {
        match self {
            Self::DoomedTick => OF_JOBS + 1,
            _ => OF_JOBS,
        }
    }

    /// What a payload is, if it is a job's.
    pub fn of_job(payload: u64) -> Option<Self> {
        [Self::Tick, Self::DoomedTick].into_iter().find(|tick| tick.payload() == payload)
    }

    /// The key of the `n`-th operation, if it has one: operations of a key have one publisher.
    pub fn key(self, n: u64) -> Option<String> {
        (self == Self::Keyed).then(|| format!("{}-{}", n / ROUND, n % PUBLISHERS))
    }
}
