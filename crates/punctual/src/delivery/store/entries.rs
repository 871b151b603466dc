//! Entries and their deliveries together: verbs that change both in one transaction.
//!
//! A transaction that needs both locks takes the entry's first.
//!
//! | file | verb |
//! |---|---|
//! | [`advance`] | due entries get the deliveries of their next send |
//! | [`step`] | the outcome of a delivery moves its entry |
//! | `counts` | the outcomes of deliveries are counted, and end entries without a timetable |
//! | `end` | an entry ends, and its waiting deliveries are skipped |
//! | [`expire`] | entries that were quiet for too long end |
//! | [`actions`] | a person holds, releases, retries or cancels an entry |
//! | [`replay`], [`preview`], [`replan`] | failed entries are sent once more |
//! | `hooks` | a kind is notified of changes of its entries |

pub mod actions;
pub mod advance;
pub(crate) mod counts;
pub(crate) mod end;
pub mod expire;
pub(crate) mod hooks;
pub mod preview;
pub mod replan;
pub mod replay;
pub mod step;
