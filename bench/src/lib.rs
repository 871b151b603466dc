//! Punctual measured beside hand-written SQL and beside its peers, in one run.
//!
//! What is compared is compared side by side: every contender has its turn in every round, the order
//! rotates, and medians are set against medians. Single runs of one statement differ by up to a
//! factor of two on a shared machine, so a figure without its spread says little, and a figure from
//! another day or another machine says nothing.
//!
//! Measured: the queue (enqueue, drain, WAL, growth, repeated drains), latency, fairness, the cost of
//! being idle; how late timers are; surveys and notifications, each beside hand-written SQL; the
//! evaluation of triggers alone. Not measured: networks (server and client share a machine), disks that flush
//! slowly (whatever disk the temporary folder is on), handlers that do something.
//!
//! [`bounds`] has what is required of timers, fairness, rendering and evaluations; [`check`] asks all of it
//! in a short run.
//!
//! `cluster` starts a database server, `database` makes databases in it; a [`contender`] is what has
//! turns in [`rounds`]; [`queue`] puts everything together into a [`report`].

#![allow(clippy::disallowed_methods, reason = "measuring is reading the clock")]

pub use ::punctual::testing::cluster;

pub mod bounds;
pub mod check;
pub mod contender;
pub mod database;
pub mod evaluations;
pub mod fairness;
pub mod growth;
pub mod idle;
pub mod latency;
pub mod machine;
pub mod notifications;
pub mod ours;
pub mod peers;
pub mod punctual;
pub mod queue;
pub mod raw_entries;
pub mod raw_notifications;
pub mod raw_postgres;
pub mod raw_sqlite;
pub mod report;
pub mod rounds;
pub mod series;
pub mod surveys;
pub mod timers;
