//! Histories: what each process did, written by itself, a line per event, only ever appended to.

use super::customers::Act;
use super::operation::Operation;
use super::provider::Answer;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Something a process did or was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A publisher is about to.
    Asked { op: u64, what: Operation },
    /// It was acknowledged: this is the message.
    Answered { op: u64, message: i64 },
    /// It was told that nothing came of it.
    Refused { op: u64, why: String },
    /// It was told that nobody knows.
    Unsure { op: u64 },
    /// It was told whether it cancelled a timer in time.
    Cancelled { op: u64, in_time: bool },
    /// All of a round's operations were asked: its first.
    Published { first: u64 },
    /// A handler was given a message.
    Began { op: u64, message: i64, attempt: u32 },
    /// It is through with it, and is about to say so.
    Ended { op: u64, message: i64, attempt: u32 },
    /// A claim by hand was granted at this time of the database.
    Claimed { token: String, message: i64, attempt: u32, now: i64 },
    /// What a settlement by hand was told.
    Settled { token: String, message: i64, outcome: String },
    /// A lease was surely held from then until then, by the machine's clock, in microseconds.
    Held { name: String, token: i64, from: i64, until: i64 },
    /// What was told about an effect under a lease.
    Fenced { name: String, token: i64, effect: String, told: String },
    /// What a delivery was told, and what its transaction was.
    Received { message: u64, token: String, told: String },
    /// An event that was handed in began this instance of a survey.
    Begun { op: u64, instance: String },
    /// A provider was given a message, and is about to answer so.
    Offered { op: u64, key: String, instance: Option<String>, send: u32, answer: Answer },
    /// A customer is about to.
    Acting { op: u64, act: Act },
    /// The customer was told whether it counts, at this time of the machine's clock, in microseconds.
    Acted { op: u64, act: Act, done: bool, at: i64 },
    /// A verb by hand failed.
    Trouble { why: String },
    /// The process hears.
    Synced { n: u64 },
}

impl Event {
    fn line(&self) -> String {
        let flat = |text: &str| text.replace(['\n', '\r'], " ");
        match self {
            Self::Asked { op, what } => format!("asked {op} {}", what.name()),
            Self::Answered { op, message } => format!("answered {op} {message}"),
            Self::Refused { op, why } => format!("refused {op} {}", flat(why)),
            Self::Unsure { op } => format!("unsure {op}"),
            Self::Cancelled { op, in_time } => format!("cancelled {op} {in_time}"),
            Self::Published { first } => format!("published {first}"),
            Self::Began { op, message, attempt } => format!("began {op} {message} {attempt}"),
            Self::Ended { op, message, attempt } => format!("ended {op} {message} {attempt}"),
            Self::Claimed { token, message, attempt, now } => {
                format!("claimed {token} {message} {attempt} {now}")
            }
            Self::Settled { token, message, outcome } => format!("settled {token} {message} {outcome}"),
            Self::Held { name, token, from, until } => format!("held {name} {token} {from} {until}"),
            Self::Fenced { name, token, effect, told } => format!("fenced {name} {token} {effect} {told}"),
            Self::Received { message, token, told } => format!("received {message} {token} {told}"),
            Self::Begun { op, instance } => format!("begun {op} {instance}"),
            Self::Offered { op, key, instance, send, answer } => {
                let instance = instance.as_deref().unwrap_or("-");
                format!("offered {op} {key} {instance} {send} {}", answer.name())
            }
            Self::Acting { op, act } => format!("acting {op} {}", act.name()),
            Self::Acted { op, act, done, at } => format!("acted {op} {} {done} {at}", act.name()),
            Self::Trouble { why } => format!("trouble {}", flat(why)),
            Self::Synced { n } => format!("synced {n}"),
        }
    }

    fn read(line: &str) -> Option<Self> {
        let (word, rest) = line.split_once(' ')?;
        let parts: Vec<&str> = rest.split(' ').collect();
        let number = |n: usize| parts.get(n)?.parse::<u64>().ok();
        let message = |n: usize| parts.get(n)?.parse::<i64>().ok();
        let attempt = |n: usize| parts.get(n)?.parse::<u32>().ok();
        let text = |n: usize| Some((*parts.get(n)?).to_owned());
        Some(match word {
            "asked" => Self::Asked { op: number(0)?, what: Operation::named(parts.get(1)?)? },
            "answered" => Self::Answered { op: number(0)?, message: message(1)? },
            "refused" => Self::Refused { op: number(0)?, why: rest.split_once(' ')?.1.to_owned() },
            "unsure" => Self::Unsure { op: number(0)? },
            "cancelled" => Self::Cancelled { op: number(0)?, in_time: *parts.get(1)? == "true" },
            "published" => Self::Published { first: number(0)? },
            "began" => Self::Began { op: number(0)?, message: message(1)?, attempt: attempt(2)? },
            "ended" => Self::Ended { op: number(0)?, message: message(1)?, attempt: attempt(2)? },
            "claimed" => Self::Claimed {
                token: text(0)?,
                message: message(1)?,
                attempt: attempt(2)?,
                now: message(3)?,
            },
            "settled" => Self::Settled { token: text(0)?, message: message(1)?, outcome: text(2)? },
            "held" => {
                Self::Held { name: text(0)?, token: message(1)?, from: message(2)?, until: message(3)? }
            }
            "fenced" => Self::Fenced { name: text(0)?, token: message(1)?, effect: text(2)?, told: text(3)? },
            "received" => Self::Received { message: number(0)?, token: text(1)?, told: text(2)? },
            "begun" => Self::Begun { op: number(0)?, instance: text(1)? },
            "offered" => Self::Offered {
                op: number(0)?,
                key: text(1)?,
                instance: text(2).filter(|instance| instance != "-"),
                send: attempt(3)?,
                answer: Answer::named(parts.get(4)?)?,
            },
            "acting" => Self::Acting { op: number(0)?, act: Act::named(parts.get(1)?)? },
            "acted" => Self::Acted {
                op: number(0)?,
                act: Act::named(parts.get(1)?)?,
                done: *parts.get(2)? == "true",
                at: message(3)?,
            },
            "trouble" => Self::Trouble { why: rest.to_owned() },
            "synced" => Self::Synced { n: number(0)? },
            _ => return None,
        })
    }
}

/// What an error says, with all that caused it.
pub fn whole(error: &dyn std::error::Error) -> String {
    let mut said = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        said = format!("{said}: {error}");
        cause = error.source();
    }
    said
}

/// One process's own history: a line is there as soon as it is written, whatever becomes of
/// the process.
pub struct Pen(File);

const SUFFIX: &str = "history";

impl Pen {
    pub fn new(folder: &Path) -> Self {
        let path = folder.join(format!("{}.{SUFFIX}", std::process::id()));
        Self(OpenOptions::new().create(true).append(true).open(path).unwrap())
    }

    pub fn note(&self, event: &Event) {
        // One write for the whole line, so that no process leaves half of one.
        (&self.0).write_all(format!("{}\n", event.line()).as_bytes()).unwrap();
    }
}

/// All histories of a world, read as they grow.
#[derive(Default)]
pub struct Reader {
    read: HashMap<PathBuf, u64>,
}

impl Reader {
    /// What was written since the last time.
    pub fn news(&mut self, folder: &Path) -> Vec<Event> {
        let mut all = Vec::new();
        for file in std::fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|e| e == SUFFIX) {
                let from = self.read.entry(path.clone()).or_default();
                let mut file = File::open(&path).unwrap();
                file.seek(SeekFrom::Start(*from)).unwrap();
                let mut text = String::new();
                file.read_to_string(&mut text).unwrap();
                let whole = text.rfind('\n').map_or(0, |at| at + 1);
                *from += whole as u64;
                let event = |line| Event::read(line).unwrap_or_else(|| panic!("a history says `{line}`"));
                all.extend(text[..whole].lines().map(event));
            }
        }
        all
    }
}

#[test]
fn a_history_reads_what_it_writes() {
    let token = "t".to_owned();
    for event in [
        Event::Asked { op: 7, what: Operation::RolledBack },
        Event::Answered { op: 7, message: 9 },
        Event::Refused { op: 7, why: "no room".into() },
        Event::Unsure { op: 7 },
        Event::Published { first: 0 },
        Event::Began { op: 7, message: 9, attempt: 1 },
        Event::Ended { op: 7, message: 9, attempt: 1 },
        Event::Claimed { token: token.clone(), message: 9, attempt: 1, now: -5 },
        Event::Settled { token: token.clone(), message: 9, outcome: "Done".into() },
        Event::Cancelled { op: 7, in_time: true },
        Event::Held { name: "left".into(), token: 3, from: 1, until: 2 },
        Event::Fenced { name: "left".into(), token: 3, effect: "77-1".into(), told: "accepted".into() },
        Event::Received { message: 7, token, told: "completed".into() },
        Event::Begun { op: 7, instance: "abc".into() },
        Event::Offered { op: 7, key: "7:k".into(), instance: None, send: 1, answer: Answer::Taken },
        Event::Offered {
            op: 7,
            key: "abc:k".into(),
            instance: Some("abc".into()),
            send: 2,
            answer: Answer::Refused,
        },
        Event::Acting { op: 7, act: Act::Answer },
        Event::Acted { op: 7, act: Act::Withdraw, done: true, at: -5 },
        Event::Trouble { why: "the disk is full".into() },
        Event::Synced { n: 3 },
    ] {
        assert_eq!(Event::read(&event.line()), Some(event));
    }
}
