//! Compiles the Rust blocks of the README and the guides.
//!
//! Those of the test kit and of time travel run; the others need a service around them.

#[doc = include_str!("../../../../README.md")]
struct Readme;

#[doc = include_str!("../../../../docs/guide/index.md")]
struct Index;

#[doc = include_str!("../../../../docs/guide/inbox.md")]
struct Inbox;

#[doc = include_str!("../../../../docs/guide/jobs.md")]
struct Jobs;

#[doc = include_str!("../../../../docs/guide/leases.md")]
struct Leases;

#[doc = include_str!("../../../../docs/guide/outbox.md")]
struct Outbox;

#[doc = include_str!("../../../../docs/guide/queues.md")]
struct Queues;

#[doc = include_str!("../../../../docs/guide/subscriptions.md")]
struct Subscriptions;

#[doc = include_str!("../../../../docs/guide/testing.md")]
struct Testing;

#[doc = include_str!("../../../../docs/guide/time-travel.md")]
struct TimeTravel;

#[doc = include_str!("../../../../docs/guide/timers.md")]
struct Timers;
