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

/// Runs a verb again and again, with the first, the second, … statement failing, until it
/// succeeds: every error is transient, and changes nothing.
macro_rules! shake {
    ($t:expr, $what:literal, |$store:ident| $verb:expr) => {{
        let before = $t.dump().await;
        let mut n = 1;
        loop {
            assert!(n < 100, "{} should succeed in the end", $what);
            let $store: punctual::database::store::Store = $t.store().failing_at(n);
            match $verb.await {
                Ok(_) => break,
                Err(e) => assert!(e.is_transient(), "{}, statement {n}: {e}", $what),
            }
            before.assert_equals(&$t.dump().await, &format!("{} whose statement {n} failed", $what));
            n += 1;
        }
        assert!(n > 1, "{} should have a statement that can fail", $what);
    }};
}

mod answer;
mod bad_input;
mod bench;
mod channel_share;
mod chaos;
mod claim;
mod clock;
mod comment;
mod commit;
mod components;
mod condition;
mod consent;
mod cron;
mod dead_letter;
mod dump;
mod engine;
mod engine_claims;
mod enqueue;
mod entity;
mod entry;
mod entry_causes;
mod entry_keys;
mod event_kind;
mod every_kind;
mod explain;
mod failed_attempt;
mod fairness;
mod fault;
mod guard_model;
mod inbox;
mod inbox_crowd;
mod instance_pages;
mod interleave;
mod invitation;
mod invitation_consent;
mod invitation_crowd;
mod invitation_facts;
mod invitation_model;
mod invitation_told;
mod job;
mod key;
mod kit;
mod lease;
mod migrate;
mod model;
mod model_state;
mod mutated;
mod mutation;
mod notification;
mod notification_begun;
mod notification_doubt;
mod notification_each;
mod notification_faults;
mod notification_log;
mod outage;
mod outbox;
mod outbox_status;
mod poison;
mod provider_journal;
mod prune;
mod public_table;
mod queue;
mod reap;
mod receipt;
mod sandbox;
mod sealing;
mod sequence;
mod server_error;
mod settle;
mod simulation;
mod sql_function;
mod stale;
mod storage;
mod subscription;
mod survey;
mod template;
mod tenant;
mod timer;
mod timer_firing;
mod told_flows;
mod wall;
mod zone;
