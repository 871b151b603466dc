//! Deliveries as they are claimed, sent and settled.

use crate::base::clock::Timestamp;
use crate::base::error::{Error, Result};
use crate::base::id::{DeliveryId, EntryId, LaneId, TemplateId, Token};
use crate::base::tenant::Tenant;
use crate::database::value::Row;
use crate::delivery::rules::delivery::{DeliveryStatus, PlannedDelivery};
use crate::delivery::store::entries::step::EntryContext;
use crate::flow::rules::entry::EntryKind;
use crate::queue::rules::claim::ClaimItem;
use std::collections::HashMap;
use std::time::Duration;

/// A delivery that is to be made.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// Its number.
    pub id: DeliveryId,
    /// The tenant that owns it.
    pub tenant: Tenant,
    /// The entry that it is part of.
    pub entry: EntryId,
    /// The kind of that entry.
    pub kind: EntryKind,
    /// Its idempotency key.
    pub key: String,
    /// The key of its channel.
    pub channel: String,
    /// The address, as it was given.
    pub address: String,
    /// The number of the send: 1 is the first, n + 1 the nth reminder.
    pub send: u32,
    /// Which of the event's recipients it is for.
    pub part: usize,
    /// The template; 0 is a text of our own.
    pub template: TemplateId,
    /// The version of the template, fixed when the delivery was written.
    pub template_version: u32,
    /// Tries that do not count, or no longer.
    pub tried_before: u32,
    /// When it was due.
    pub due_at: Option<Timestamp>,
}

/// The columns that [`read_delivery`] reads, from a table called `d`.
macro_rules! delivery_columns {
    () => {
        "
        d.id, d.tenant_id, d.entry_id, d.idempotency_key, d.channel, d.address, d.part, d.template_id,
        d.tried_before, d.due_at, d.send, d.template_version
        "
    };
}
pub(crate) use delivery_columns;

pub(crate) fn read_delivery(row: &Row, kind: EntryKind) -> Result<Delivery> {
    Ok(Delivery {
        id: DeliveryId(row.int(0)?),
        tenant: Tenant::from_row(row.int(1)?),
        entry: EntryId(row.int(2)?),
        kind,
        key: row.text(3)?,
        channel: row.text(4)?,
        address: row.text(5)?,
        part: usize::try_from(row.int(6)?).unwrap_or_default(),
        template: TemplateId(row.int(7)?),
        tried_before: row.count(8)?,
        due_at: row.maybe_time(9)?,
        send: row.count(10)?,
        template_version: row.count(11)?,
    })
}

/// The status that a row's number stands for.
pub(crate) fn read_status(code: i64) -> Result<DeliveryStatus> {
    let corrupt = || Error::Database(format!("corrupt delivery row: {code} is no status").into());
    DeliveryStatus::from_code(code).ok_or_else(corrupt)
}

/// A claimed delivery.
#[derive(Clone, Debug)]
pub struct DueDelivery {
    /// The item as the claim row has it.
    pub item: ClaimItem,
    /// The delivery.
    pub delivery: Delivery,
    /// Whether the try before this one was lost, so that it may have gone out.
    pub lost: bool,
    /// How many tries before this one had an unknown outcome, since it was last put back.
    pub unknown: u32,
    /// Whether one of them may have gone out, because it had an unknown outcome or no answer.
    pub unsure: bool,
    /// Whether its provider recognises a repeated idempotency key, as the process that claimed it knows it.
    pub takes_key: bool,
    /// Placeholders without a value, and other doubts about its text.
    pub warnings: Vec<String>,
    /// The name of the provider that this try was handed to; none before that.
    pub provider: Option<String>,
}

impl DueDelivery {
    /// A delivery that was claimed as this item.
    pub(crate) const fn new(item: ClaimItem, delivery: Delivery) -> Self {
        Self {
            item,
            delivery,
            lost: false,
            unknown: 0,
            unsure: false,
            takes_key: false,
            warnings: Vec::new(),
            provider: None,
        }
    }

    /// The number of this try among all that were made of its delivery, from 1.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.delivery.tried_before.saturating_add(self.item.attempt())
    }
}

/// The deliveries that a claim took.
#[derive(Debug, Default)]
pub struct ClaimedDeliveries {
    /// The token that every settlement of these must carry; none when nothing is to be sent.
    pub token: Option<Token>,
    /// The deliveries, in the order of the claim.
    pub due: Vec<DueDelivery>,
    /// How many of them may be begun before the mark is moved; all if `None`.
    pub mark: Option<usize>,
    /// How many work rows each lane gave, those that were dropped included.
    pub taken: HashMap<LaneId, usize>,
    /// The database's time of the claim.
    pub now: Option<Timestamp>,
}

impl DueDelivery {
    /// Returns the outcome of a delivery that may have gone out and is not sent again. It is uncertain only
    /// where its provider does not take our key: otherwise a replay is safe, and it has failed.
    #[must_use]
    pub fn given_up_in_doubt(&self, outcome: Option<&'static str>, error: String) -> DeliveryOutcome {
        match self.takes_key {
            true => DeliveryOutcome::Failed { outcome, error, fallback: None },
            false => DeliveryOutcome::Uncertain { outcome, error },
        }
    }
}

/// The outcome of a try to send a delivery, or the reason why there was none.
#[derive(Clone, Debug, PartialEq)]
pub enum DeliveryOutcome {
    /// A provider took it.
    Sent {
        /// The provider's id of the message.
        provider_id: Option<String>,
        /// The provider's answer.
        answer: Option<String>,
    },
    /// The try failed, and another one follows after a while.
    Retry {
        /// The word for the try.
        outcome: &'static str,
        /// The error.
        error: String,
        /// How long after.
        wait: Duration,
        /// Whether the try counts against its limit of tries.
        counted: bool,
    },
    /// The delivery is given up; another channel may take its place.
    Failed {
        /// The word for the last try; none if there was none.
        outcome: Option<&'static str>,
        /// The error.
        error: String,
        /// The delivery that is sent in its place.
        fallback: Option<PlannedDelivery>,
    },
    /// The message may have gone out, and is not sent again.
    Uncertain {
        /// The word for this try; none if there was none.
        outcome: Option<&'static str>,
        /// The error, as far as it is known.
        error: String,
    },
    /// The delivery is not to be sent.
    Skipped {
        /// The word for why, in lists.
        reason: String,
        /// The sentence.
        said: String,
    },
    /// The send was not begun; the delivery is due again at this time.
    NotBegun(Timestamp),
    /// The delivery waits until a later time, and no try is counted.
    Delayed {
        /// When it comes again.
        until: Timestamp,
        /// The word for why, and the sentence.
        said: String,
    },
    /// The delivery goes by another channel.
    Redirected {
        /// The key of the channel.
        channel: String,
        /// The address there.
        address: String,
    },
}

/// A delivery with its outcome.
#[derive(Clone, Debug)]
pub struct SettledDelivery {
    /// The delivery.
    pub due: DueDelivery,
    /// The outcome.
    pub outcome: DeliveryOutcome,
    /// The context that its entry needs to go on, where it has a timetable.
    pub entry: Option<EntryContext>,
}

/// The result of a settlement of deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliverySettlement {
    /// The claim was lost; nothing was written.
    LostClaim,
    /// The outcomes are written.
    Done,
}
