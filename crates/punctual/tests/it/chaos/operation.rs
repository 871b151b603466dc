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
/// Operations of one round, at most.
pub const ROUND: u64 = 10_000;

impl Operation {
    const ALL: [Self; 9] = [
        Self::Plain,
        Self::Keyed,
        Self::Later,
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
            68..78 => Self::Later,
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
            Self::Plain | Self::Later | Self::Named | Self::Host | Self::RolledBack => "plain",
            Self::Keyed => "keyed",
            Self::Shaky => "shaky",
            Self::Doomed => "doomed",
            Self::Raw => "raw",
        }
    }

    pub const fn end(self) -> End {
        match self {
            Self::RolledBack => End::Never,
            Self::Doomed => End::Dead,
            _ => End::Done,
        }
    }

    /// The key of the `n`-th operation, if it has one: operations of a key have one publisher.
    pub fn key(self, n: u64) -> Option<String> {
        (self == Self::Keyed).then(|| format!("{}-{}", n / ROUND, n % PUBLISHERS))
    }
}
