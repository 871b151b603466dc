//! Entries: the table of moves, the reminder arithmetic and expiry, without a database.

use proptest::prelude::*;
use punctual::Timestamp;
use punctual::base::limits::EXPIRY_GRACE_DEFAULT;
use punctual::base::random;
use punctual::flow::rules::entry::log::DeliveryLine;
use punctual::flow::rules::entry::schedule::{NextSend, SendSchedule};
use punctual::flow::rules::entry::state::EntryState;
use punctual::flow::rules::entry::{EntryStatus, Transition};
use punctual::flow::rules::public_id::PublicId;
use std::collections::BTreeSet;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

/// Every status (the columns) after every transition (the rows). A dash: refused.
const MOVES: &str = "
            Pending   Sent      Opened    Completed Expired   Cancelled Failed
  Sending   Pending   Sent      Opened    -         -         -         -
  Sent      Sent      Sent      Opened    -         -         -         -
  NotSent   Pending   Sent      Opened    -         -         -         -
  GaveUp    Failed    Sent      Opened    -         -         -         -
  Opened    Opened    Opened    Opened    Completed Expired   Cancelled Failed
  Submitted Completed Completed Completed -         -         -         Completed
  Expired   Expired   Expired   Expired   -         -         -         -
  Cancelled Cancelled Cancelled Cancelled -         -         Cancelled Cancelled
  Deleted   Cancelled Cancelled Cancelled Completed Expired   Cancelled Cancelled
  Replayed  -         -         -         -         -         -         Pending
";

/// TRG-13, TRG-16: only the legal moves, for every status and every transition.
#[test]
fn trg_13_every_deed_does_to_every_status_what_the_table_says() {
    let mut lines = MOVES.lines().filter(|line| !line.is_empty());
    let columns: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
    let statuses = EntryStatus::ALL.map(EntryStatus::word);
    assert_eq!(columns, statuses, "the table has a column for every status");
    let mut met = 0;
    for (transition, line) in Transition::ALL.into_iter().zip(lines.by_ref()) {
        let mut words = line.split_whitespace();
        assert_eq!(
            words.next().unwrap(),
            format!("{transition:?}"),
            "the table has a row for every transition"
        );
        for status in EntryStatus::ALL {
            let wanted = words.next().unwrap();
            let became = status.after(transition).map_or("-", EntryStatus::word);
            assert_eq!(became, wanted, "{status} after {transition:?}");
            met += 1;
        }
    }
    assert_eq!((met, lines.next()), (EntryStatus::ALL.len() * Transition::ALL.len(), None));
}

/// The columns of a row that the scheduler looks at.
fn columns(row: &EntryState) -> (EntryStatus, Option<String>, Option<String>, i64) {
    let text = |at: Option<Timestamp>| at.map(|at| at.to_string());
    (row.status, text(row.next_send_at), text(row.last_sent_at), row.remaining)
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

/// TRG-12, TRG-13, TRG-14: one service visit from its event to its expiry, column by column.
#[test]
fn trg_12_one_event_goes_through_the_columns_of_the_worked_example() {
    let schedule = SendSchedule { initial_delay: Duration::ZERO, reminders: vec![DAY] };
    let grace = EXPIRY_GRACE_DEFAULT;
    let mut log = Vec::new();
    let mut send = |row: &EntryState, now: Timestamp, id: &str| {
        assert!(row.is_due(now), "due at {now}: {row:?}");
        row.status.after(Transition::Sending).unwrap();
        log.push(DeliveryLine::delivered(schedule.attempt(row.remaining), now, Some(id.into())));
        row.sent(&schedule, now).unwrap()
    };

    let made = EntryState::new(&schedule, None, at("2026-05-14T05:12:34Z"));
    assert_eq!(made.triggered_at, at("2026-05-14T05:12:34Z"));
    assert_eq!(columns(&made), (EntryStatus::Pending, some("2026-05-14T05:12:34Z"), None, 1));

    let sent = send(&made, at("2026-05-14T05:13:00Z"), "mem-abc123");
    let (tomorrow, today) = (some("2026-05-15T05:13:00Z"), some("2026-05-14T05:13:00Z"));
    assert_eq!(columns(&sent), (EntryStatus::Sent, tomorrow.clone(), today, 0));

    assert!(!sent.is_due(at("2026-05-14T05:18:00Z")), "five minutes later nothing is due");
    assert!(!sent.is_due(at("2026-05-15T05:12:59.999999Z")));

    let reminded = send(&sent, at("2026-05-15T05:13:00Z"), "mem-def456");
    assert_eq!(columns(&reminded), (EntryStatus::Sent, None, tomorrow, 0));
    assert!(!reminded.is_due(Timestamp::MAX), "no tick ever takes it again");

    assert!(!reminded.is_quiet(at("2026-06-14T05:13:00Z"), grace), "30 days are not longer than 30 days");
    assert_eq!(reminded.expires_at(grace), Some(at("2026-06-14T05:13:00.000001Z")));
    assert!(reminded.is_quiet(at("2026-06-14T05:13:00.000001Z"), grace));
    let expired = reminded.after(Transition::Expired).unwrap();
    assert_eq!(columns(&expired), (EntryStatus::Expired, None, some("2026-05-15T05:13:00Z"), 0));
    assert!(expired.after(Transition::Submitted).unwrap_err().is_gone());

    assert_eq!(
        serde_json::to_value(&log).unwrap(),
        serde_json::json!([
            {"attempt": 1, "sentAt": "2026-05-14T05:13:00Z", "status": "delivered",
                "messageId": "mem-abc123"},
            {"attempt": 2, "sentAt": "2026-05-15T05:13:00Z", "status": "delivered",
                "messageId": "mem-def456"},
        ])
    );
}

/// TRG-16: an answer between two sends, between the last look and the result, and before the
/// first send: nothing is due afterwards, and no result undoes it.
#[test]
fn trg_16_an_answer_ends_the_sends_whenever_it_comes() {
    let schedule = SendSchedule { initial_delay: DAY * 60, reminders: vec![DAY * 5, DAY * 10, DAY * 15] };
    let event = at("2026-01-01T09:00:00Z");
    let made = EntryState::new(&schedule, Some(event), event.plus(DAY));
    let invited = made.sent(&schedule, event.plus(DAY * 60)).unwrap();
    let reminded = invited.sent(&schedule, event.plus(DAY * 65)).unwrap();
    for row in [made, invited, reminded, reminded.after(Transition::Opened).unwrap()] {
        row.status.after(Transition::Sending).unwrap();
        let answered = row.after(Transition::Submitted).unwrap();
        assert_eq!((answered.status, answered.next_send_at), (EntryStatus::Completed, None));
        assert!(!answered.is_due(Timestamp::MAX) && !answered.is_quiet(Timestamp::MAX, Duration::ZERO));
        let now = event.plus(DAY * 66);
        let late = [answered.sent(&schedule, now), answered.gave_up(&schedule, now), answered.halted()];
        assert!(late.iter().all(Result::is_err), "a result that comes late changes nothing: {late:?}");
        let again = answered.after(Transition::Submitted).unwrap_err();
        assert!(!again.is_gone(), "a second answer is a conflict");
    }
}

/// Sends an entry whenever it is due, each time as late as it is told, until nothing follows.
fn walk(schedule: &SendSchedule, event: Timestamp, late: impl Fn(usize) -> Duration) -> Vec<Timestamp> {
    let mut row = EntryState::new(schedule, Some(event), event);
    let mut sends = Vec::new();
    while let Some(due) = row.next_send_at {
        let now = due.plus(late(sends.len()));
        assert_eq!(schedule.attempt(row.remaining) as usize, sends.len() + 1);
        sends.push(now);
        row = row.sent(schedule, now).unwrap();
    }
    sends
}

fn wait() -> impl Strategy<Value = Duration> {
    // From none to four years, to the microsecond.
    (0_u64..126_230_400_000_000).prop_map(Duration::from_micros)
}

fn schedule() -> impl Strategy<Value = SendSchedule> {
    (wait(), prop::collection::vec(wait(), 0..=20))
        .prop_map(|(initial_delay, reminders)| SendSchedule { initial_delay, reminders })
}

fn moment() -> impl Strategy<Value = Timestamp> {
    (0_i64..4_102_444_800_000_000).prop_map(Timestamp::from_micros)
}

proptest! {
    /// TRG-12: for lists of 0 to 20 reminders there is one send more than reminders, each to the
    /// microsecond where the sum of the waits says, however late the ones before it were.
    #[test]
    fn trg_12_sends_are_one_more_than_reminders_and_to_the_microsecond(
        schedule in schedule(), event in moment(), late in prop::collection::vec(wait(), 21),
    ) {
        let on_time = walk(&schedule, event, |_| Duration::ZERO);
        prop_assert_eq!(&on_time, &schedule.plan(event));
        prop_assert_eq!(on_time.len(), 1 + schedule.reminders.len());
        prop_assert!(on_time.windows(2).all(|two| two[0] <= two[1]));

        let mut sum = event.as_micros() + i64::try_from(schedule.initial_delay.as_micros()).unwrap();
        for (n, sent) in walk(&schedule, event, |n| late[n]).iter().enumerate() {
            sum += i64::try_from(late[n].as_micros()).unwrap();
            prop_assert_eq!(sent.as_micros(), sum, "send {}", n + 1);
            sum += schedule.reminders.get(n).map_or(0, |wait| i64::try_from(wait.as_micros()).unwrap());
        }
    }

    /// TRG-12: whatever stands in a row, the index is `total - remaining` where that is one, and
    /// otherwise nothing follows.
    #[test]
    fn trg_12_any_number_remaining_is_answered(
        schedule in schedule(), sent_at in moment(),
        remaining in prop_oneof![-3_i64..25, any::<i64>()],
    ) {
        let total = i64::try_from(schedule.reminders.len()).unwrap();
        let wanted = if (1..=total).contains(&remaining) {
            let wait = schedule.reminders[usize::try_from(total - remaining).unwrap()];
            NextSend { next_send_at: Some(sent_at.plus(wait)), remaining: remaining - 1 }
        } else {
            NextSend { next_send_at: None, remaining: 0 }
        };
        prop_assert_eq!(schedule.after_send(remaining, sent_at), wanted);
        let given_up = schedule.after_giving_up(remaining, sent_at, sent_at.plus(DAY));
        prop_assert_eq!(given_up.remaining, wanted.remaining);
        prop_assert!(given_up.next_send_at.is_none_or(|at| at >= wanted.next_send_at.unwrap()));
        prop_assert_eq!(given_up.next_send_at.is_some(), wanted.next_send_at.is_some());
    }

    /// TRG-14: an entry is quiet from the moment it is said to expire at, and not before.
    #[test]
    fn trg_14_an_entry_expires_when_it_was_said_to(
        made in moment(), sent in prop::option::of(moment()), grace in wait(), now in moment(),
    ) {
        let status = if sent.is_some() { EntryStatus::Sent } else { EntryStatus::Pending };
        let (triggered_at, last_sent_at) = (made, sent);
        let row = EntryState { status, triggered_at, next_send_at: None, last_sent_at, remaining: 0 };
        let since = sent.unwrap_or(made);
        let longer = i128::from(now.as_micros()) - i128::from(since.as_micros()) > grace.as_micros() as i128;
        prop_assert_eq!(row.is_quiet(now, grace), longer);
        let end = row.expires_at(grace).unwrap();
        prop_assert!(row.is_quiet(end, grace) && !row.is_quiet(end.minus(Duration::from_micros(1)), grace));
    }

    /// TRG-13, TRG-16: through any row of transitions: after its end nothing is due or expires, and a
    /// status that has ended stays.
    #[test]
    fn trg_13_no_row_of_deeds_leaves_the_table(
        schedule in schedule(), transitions in prop::collection::vec(0_usize..9, 0..40),
    ) {
        let mut now = at("2026-01-01T00:00:00Z");
        let mut row = EntryState::new(&schedule, None, now);
        for pick in transitions {
            now = row.next_send_at.unwrap_or(now).max(now);
            let next = match Transition::ALL[pick] {
                Transition::Sent => row.sent(&schedule, now),
                Transition::GaveUp => row.gave_up(&schedule, now),
                Transition::NotSent => row.halted(),
                other => row.after(other),
            };
            let became = next.unwrap_or(row);
            prop_assert!(!row.status.is_terminal() || became == row, "{row:?} became {became:?}");
            prop_assert!(became.status.is_active() || became.next_send_at.is_none());
            prop_assert!(became.status.is_active() || !became.is_quiet(Timestamp::MAX, Duration::ZERO));
            prop_assert!((0..=schedule.total()).contains(&became.remaining));
            row = became;
        }
    }

    /// TRG-23: ids are read back from their one text, which is as long as any other, and a text
    /// that differs in one place is another id or none.
    #[test]
    fn trg_23_a_public_id_has_one_text(bytes: [u8; 16], place in 0_usize..36, byte in 0x20_u8..0x7f) {
        let id = PublicId::from_random(bytes);
        let text = id.to_string();
        prop_assert_eq!(text.len(), 36);
        prop_assert_eq!(PublicId::parse(&text), Some(id));
        prop_assert_eq!(PublicId::from_halves(id.to_halves()), Some(id));
        let mut other = text.clone().into_bytes();
        other[place] = byte;
        let other = String::from_utf8(other).unwrap();
        let read = PublicId::parse(&other);
        prop_assert!(read.is_none_or(|read| read.to_string() == other && (read == id) == (other == text)));
    }

    /// TRG-23: no text is an id by accident, and none makes the reader panic.
    #[test]
    fn trg_23_any_text_is_read(text in ".{0,48}", halves: (i64, i64)) {
        prop_assert!(PublicId::parse(&text).is_none_or(|id| id.to_string() == text));
        prop_assert!(PublicId::from_halves(halves).is_none_or(|id| id.to_halves() == halves));
    }
}

/// TRG-23: ids of random bytes do not repeat, and no place but those of the form is the same in all.
#[test]
fn trg_23_public_ids_differ_in_every_place() {
    let ids: BTreeSet<String> =
        (0..2_000).map(|_| PublicId::from_random(random::bytes()).to_string()).collect();
    assert_eq!(ids.len(), 2_000);
    for place in 0..36 {
        let seen: BTreeSet<u8> = ids.iter().map(|id| id.as_bytes()[place]).collect();
        let wanted = match place {
            8 | 13 | 18 | 23 | 14 => 1,
            19 => 4,
            _ => 16,
        };
        assert_eq!(seen.len(), wanted, "place {place}");
    }
}
