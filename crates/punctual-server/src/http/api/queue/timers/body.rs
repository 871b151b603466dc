//! What comes in about timers.

use crate::http::api::queue::events::{Draft, Reading, draft, one_or_many, plain};
use crate::http::api::requests::{self, TimersCancel, TimersMove};
use crate::http::error::Answer;
use crate::http::input::{Fields, Input};
use punctual::engine::TimerMove;
use punctual::queue::rules::timer::{KIND, check_when};
use punctual::queue::store::timers::TimerFilter;
use punctual::{DueTime, MessageId, NewTimer, Problems};
use serde_json::{Map, Value};

/// A timer is an event with `dueAt` or `delay`, whose kind may be left out; answers whether
/// it was a list.
pub fn read_timers(input: &Input, publisher: &str) -> Answer<(Vec<NewTimer>, bool)> {
    let (items, is_list) = one_or_many(input, "timers")?;
    let mut reading = Reading::default();
    let mut when = Vec::with_capacity(items.len());
    for (n, item) in items.iter().enumerate() {
        let at = if items.len() == 1 { String::new() } else { format!("[{n}]") };
        if let Some(mut draft) = draft(item, at, publisher, &mut reading) {
            when.push(take_when(&mut draft, &mut reading));
            let (message, at) = plain::read(draft, &mut reading);
            reading.add(message, &at, |name| name);
        }
    }
    for (n, _) in &reading.states {
        let at = if items.len() == 1 { String::new() } else { format!("[{n}].") };
        let said = "is not told by a timer: publish an event, or PUT /api/entities/{type}/{id}";
        reading.problems.push(format!("{at}entity.state"), said);
    }
    let (messages, _) = reading.finish()?;
    let timers = messages.into_iter().zip(when.into_iter().flatten());
    Ok((timers.map(|(message, when)| NewTimer { message, when }).collect(), is_list))
}

fn take_when(draft: &mut Draft<'_>, reading: &mut Reading) -> Option<DueTime> {
    let when = read_when(&mut Fields::new(&draft.fields, draft.at.as_str(), &mut reading.problems));
    for name in ["dueAt", "delay"] {
        draft.fields.remove(name);
    }
    if draft.fields.get("kind").is_none_or(Value::is_null) {
        draft.fields.insert("kind".into(), KIND.into());
    }
    when
}

/// `dueAt` or `delay`, one of the two.
pub fn read_when(read: &mut Fields<'_, '_>) -> Option<DueTime> {
    let (due_at, delay) = (read.value("dueAt").is_some(), read.value("delay").is_some());
    let when = match (due_at, delay) {
        (true, false) => read.time("dueAt").map(DueTime::At),
        (false, true) => read.duration("delay").map(DueTime::In),
        (true, true) => {
            read.wrong("delay", "stands beside `dueAt`: say only one of them");
            None
        }
        (false, false) => {
            read.wrong("dueAt", "is missing: say when, by `dueAt` or `delay`");
            None
        }
    };
    if let Some(problem) = when.and_then(check_when) {
        read.wrong(&problem.path, problem.message);
    }
    when
}

/// A request to cancel or move many timers.
#[derive(Debug)]
pub struct TimersChangeRequest {
    /// The timers.
    pub filter: TimerFilter,
    /// Whether the request names each timer.
    pub by_id: bool,
    /// The new due time, for a move.
    pub to: Option<TimerMove>,
    /// Whether nothing is changed.
    pub dry_run: bool,
}

/// Reads either `ids` or a `filter`, and the new due time of a move.
pub fn read_change(input: &Input, moves: bool) -> Answer<TimersChangeRequest> {
    let body = input.object()?;
    let mut problems = Problems::default();
    let mut read = Fields::new(&body, "", &mut problems);
    if moves {
        read.only_of::<TimersMove>();
    } else {
        read.only_of::<TimersCancel>();
    }
    let dry_run = read.flag("dryRun").unwrap_or(false);
    let to = if moves {
        let spread = read.duration("spread");
        read_when(&mut read).map(|when| TimerMove { when, spread })
    } else {
        None
    };
    let (ids, filter) = (read.list("ids"), read.object("filter"));
    if read.value("ids").is_some() == read.value("filter").is_some() {
        read.wrong("ids", "say which: either `ids`, or a `filter` ({} for all)");
    }
    let chosen = TimerFilter {
        ids: ids.map(|ids| read_ids(ids, &mut problems)),
        ..filter.map(|filter| read_filter(filter, &mut problems)).unwrap_or_default()
    };
    chosen.check("filter.", &mut problems);
    problems.into_result()?;
    Ok(TimersChangeRequest { by_id: chosen.ids.is_some(), filter: chosen, to, dry_run })
}

fn read_filter(filter: &Map<String, Value>, problems: &mut Problems) -> TimerFilter {
    let mut read = Fields::new(filter, "filter", problems);
    read.only_of::<requests::TimerFilter>();
    TimerFilter {
        ids: None,
        topic: read.text("topic"),
        key: read.id_text("key"),
        correlation_id: read.id_text("correlationId"),
        due_from: read.time("dueFrom"),
        due_before: read.time("dueBefore"),
    }
}

fn read_ids(ids: &[Value], problems: &mut Problems) -> Vec<MessageId> {
    let mut read = Vec::with_capacity(ids.len());
    for (n, value) in ids.iter().enumerate() {
        let number = value.as_i64().or_else(|| value.as_str().and_then(|text| text.parse().ok()));
        match number {
            Some(id) => read.push(MessageId(id)),
            None => problems.push(format!("ids[{n}]"), "is not the id of a timer"),
        }
    }
    read
}
