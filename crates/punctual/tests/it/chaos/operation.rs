//! What a publisher does, and what must become of it.
//!
//! This is where a new noun joins the chaos. A variant says by what topic it goes and how it must
//! end; `publisher.rs` does it, `worker.rs` handles its topic, and what else must hold of it is a
//! promise in `checker.rs`.

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
    const ALL: [Self; 10] = [
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
            0..55 => Self::Plain,
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
            Self::Tick => "tick",
            Self::DoomedTick => "doomed-tick",
        }
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
