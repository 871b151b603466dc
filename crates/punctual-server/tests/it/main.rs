//! Black-box tests of the server: one binary, real sockets, both databases.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "test code")]

/// Runs each case on a SQLite and on a PostgreSQL database.
macro_rules! on_each {
    ($($name:ident),* $(,)?) => {
        mod sqlite {
            $(#[tokio::test]
            async fn $name() {
                super::$name($crate::world::Base::Sqlite).await;
            })*
        }
        mod postgres {
            $(#[tokio::test]
            async fn $name() {
                super::$name($crate::world::Base::Postgres).await;
            })*
        }
    };
}

mod client;
mod documented;
#[path = "../../../punctual/tests/it/mutation.rs"]
#[allow(dead_code, reason = "the engine's tests use the rest")]
mod mutation;
mod providers;
mod world;

mod bad_input;
mod bookings;
mod browser;
mod cli;
mod clock;
mod cloud_events;
mod comments;
mod communication_log;
mod connections;
mod consent;
mod dead_ends;
mod dead_letters;
mod entities;
mod event_kinds;
mod events;
mod exports;
mod fuzz;
mod idempotency;
mod inbox;
mod instances;
mod isolation;
mod jobs;
mod keys;
mod large_lists;
mod leases;
mod load;
mod locales;
mod mutated;
mod notifications;
mod openapi;
mod operations;
mod outbox;
mod results;
mod roles;
mod sandbox;
mod subscriptions;
mod surveys;
mod templates;
mod tenants;
mod timers;
mod trouble;
mod unknown_names;
mod viewers;
mod visit;
mod waiting;
mod webhooks;
mod work;
