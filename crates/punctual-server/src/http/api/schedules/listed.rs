//! The list of schedules: notifications and survey instances in one order, the newest first.
//!
//! A survey instance is known by its public id; its key is the hash that its event is known by.

use super::{Counts, Shown, Step, Wanted, shown};
use crate::app::App;
use crate::auth::Caller;
use crate::http::error::Answer;
use crate::http::page::{List, Page};
use punctual::rules::entry::Status;
use punctual::rules::entry::log::{DeliveryLine, Outcome};
use punctual::rules::public_id::PublicId;
use punctual::rules::template::choose::word_of;
use punctual::store::entries::Entry;
use punctual::store::entries::queries::EntryFilter;
use punctual::{EntryId, Error};

/// Who triggered an entry by hand, in its own words.
const BY_HAND: &str = "user:";

/// What a cursor of this list begins with.
const ENTRY: &str = "entry-";

/// The id that the next page is below.
fn below(page: &Page) -> Answer<EntryId> {
    let Some(text) = page.after() else { return Ok(EntryId(i64::MAX)) };
    let id = text.strip_prefix(ENTRY).and_then(|id| id.parse().ok()).map(EntryId);
    let wrong = || Error::invalid("cursor", "is not a cursor that this list handed out");
    id.ok_or_else(|| wrong().into())
}

/// A page of schedules. Entries of every kind have numbers of one sequence, so each kind is read below
/// the same one.
pub(super) async fn page_of(app: &App, caller: &Caller, page: &Page, wanted: Wanted) -> Answer<List<Shown>> {
    let below = below(page)?;
    let store = app.engine.store();
    let mut all: Vec<(EntryId, Shown)> = Vec::new();
    if let Some(filter) = wanted.notifications {
        let found = store.notifications(caller.tenant, filter, below, page.limit + 1).await?;
        all.extend(found.into_iter().map(|one| (one.id, shown(caller, one))));
    }
    let found = entries(app, caller, wanted.instances, below, page.limit + 1).await?;
    let logs = store.delivery_logs(caller.tenant, found.iter().map(|one| one.id).collect()).await?;
    let log = |entry: &Entry| logs.get(&entry.id).map(Vec::as_slice).unwrap_or_default();
    all.extend(found.iter().map(|one| (one.id, shown_entry(caller, one, log(one)))));
    all.sort_by_key(|(id, _)| std::cmp::Reverse(*id));
    let more = all.len() > page.limit;
    all.truncate(page.limit);
    let last = all.last().map(|(id, _)| format!("{ENTRY}{id}")).filter(|_| more);
    Ok(page.list_up_to(all.into_iter().map(|(_, shown)| shown).collect(), last))
}

/// Which survey instances a list is about.
pub(super) struct Instances {
    /// That stand so.
    pub(super) status: Option<Status>,
    /// Only those that are on hold, or only those that are not.
    pub(super) held: Option<bool>,
    /// Only the one of this public id, or of this dedup key.
    pub(super) key: Option<String>,
}

async fn entries(
    app: &App,
    caller: &Caller,
    wanted: Option<Instances>,
    below: EntryId,
    limit: usize,
) -> Answer<Vec<Entry>> {
    let Some(wanted) = wanted else { return Ok(Vec::new()) };
    let store = app.engine.store();
    if let Some(key) = wanted.key {
        let one = match PublicId::parse(&key) {
            Some(id) => store.entry(caller.tenant, id).await?,
            None => store.entry_of_hash(caller.tenant, &key).await?,
        };
        let one = one.filter(|one| one.id < below);
        let fits = |one: &Entry| {
            let held = wanted.held.is_none_or(|held| held == one.held);
            held && wanted.status.is_none_or(|status| status == one.standing.status)
        };
        return Ok(one.into_iter().filter(|one| fits(one)).collect());
    }
    let filter = EntryFilter { status: wanted.status, held: wanted.held, ..EntryFilter::default() };
    Ok(store.entries(caller.tenant, filter, below, limit).await?)
}

/// A survey instance with what was tried for it. Why it stands as it does is what its last try came to.
pub(super) fn shown_entry(caller: &Caller, entry: &Entry, log: &[DeliveryLine]) -> Shown {
    let standing = &entry.standing;
    let first = standing.next_send_at.or(standing.last_sent_at).unwrap_or(standing.triggered_at);
    let by_hand = entry.triggered_by.starts_with(BY_HAND);
    let sent = log.iter().filter(|line| line.status == Outcome::Delivered).count();
    let last = log.last();
    Shown {
        id: entry.public_id.to_string(),
        key: entry.unique_hash.clone(),
        kind: "survey",
        trigger_type: if by_hand { "Manual" } else { "Event" },
        status: standing.status.word(),
        scheduled_on: first,
        scheduled_local_date: None,
        time_zone: None,
        attempt_count: log.len(),
        next_retry_on: standing.next_send_at,
        on_hold: entry.held,
        reason_code: last.and_then(reason),
        last_error: last.and_then(|line| error_for(caller, entry, line)),
        input_hash: Some(entry.unique_hash.clone()),
        version: Some(entry.number),
        dispatch_result: Counts {
            open: u32::from(standing.next_send_at.is_some()),
            sent: u32::try_from(sent).unwrap_or(u32::MAX),
            failed: u32::from(standing.status == Status::Failed),
        },
        history: log.iter().map(|line| step(caller, entry, line)).collect(),
    }
}

/// What went wrong, as a caller may see it.
pub(super) fn error_for(caller: &Caller, entry: &Entry, line: &DeliveryLine) -> Option<String> {
    line.error.as_ref().map(|error| caller.words(error, &entry.address))
}

fn reason(line: &DeliveryLine) -> Option<String> {
    let no_channel = || (line.status == Outcome::NoChannel).then(|| line.status.word().to_owned());
    line.reason.clone().or_else(no_channel)
}

fn step(caller: &Caller, entry: &Entry, line: &DeliveryLine) -> Step {
    Step {
        at: line.sent_at,
        delivery_id: Some(format!("{}:{}", entry.public_id, line.attempt)),
        channel: Some(word_of(&entry.channel).to_owned()),
        outcome: outcome(line.status).to_owned(),
        actor: None,
        reason: None,
        error: error_for(caller, entry, line),
        provider_message_id: line.message_id.clone(),
    }
}

/// The word for what became of a try, as messages of notifications have it.
pub(super) fn outcome(of: Outcome) -> &'static str {
    match of {
        Outcome::Delivered => "sent",
        other => other.word(),
    }
}
