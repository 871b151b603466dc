//! The store, tested on both databases: every case is one function that runs as
//! `sqlite::name` and as `postgres::name`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    missing_docs,
    reason = "test code"
)]

/// Makes a test for each database from each case of the module. A case that is not listed is
/// dead code, which the lints refuse.
macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(&crate::bench::Bench::sqlite().await).await;
            })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(&crate::bench::Bench::postgres().await).await;
            })*
        }
    };
}

mod answer;
mod bad_input;
mod bench;
mod chaos;
mod claim;
mod clock;
mod cron;
mod dead_letter;
mod dump;
mod engine;
mod enqueue;
mod fairness;
mod fault;
mod interleave;
mod key;
mod migrate;
mod model;
mod model_state;
mod outbox;
mod poison;
mod prune;
mod queue;
mod reap;
mod sequence;
mod settle;
mod stale;
mod tenant;
mod zone;
