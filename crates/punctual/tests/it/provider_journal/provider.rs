//! A provider that many processes call, and that writes down every call and every effect.
//!
//! It listens on a socket of its own and lives in the test's process: whatever becomes of a worker, its call
//! is in the journal. What it makes of a call follows from the seed, the key and how often the key came.

use crate::chaos::dice;
use punctual::base::clock::{Timestamp, host_now};
use punctual::{AcceptedMessage, SendError};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};

/// Of a hundred calls so many fail for now, for good, and are taken without an answer, or with one that says
/// nothing.
const TRANSIENT: u64 = 20;
const PERMANENT: u64 = 5;
const SILENT: u64 = 2;
const MUDDLED: u64 = 3;
/// How long a caller is to wait who is told to.
pub const RETRY_AFTER: Duration = Duration::from_millis(400);
/// How long a caller waits for an answer.
const PATIENCE: Duration = Duration::from_millis(300);

/// What the provider made of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    /// It was taken: an effect.
    Effect,
    /// It was taken, and nobody was told: an effect.
    SilentEffect,
    /// It was taken, and nobody can tell from the answer: an effect.
    MuddledEffect,
    /// It had been taken before, by a provider that knows its keys.
    Known,
    /// It was not, for now.
    Transient,
    /// It was not, and the caller is to wait.
    Wait,
    /// It never will be.
    Refused,
}

/// One call.
#[derive(Clone, Debug)]
pub struct Call {
    pub key: String,
    pub made: Made,
    pub begun: Timestamp,
    pub answered: Timestamp,
}

impl Call {
    pub fn is_effect(&self) -> bool {
        matches!(self.made, Made::Effect | Made::SilentEffect | Made::MuddledEffect)
    }
}

#[derive(Default)]
struct Book {
    calls: Vec<Call>,
    by_key: HashMap<String, Vec<usize>>,
}

/// The provider. Its socket goes with it.
pub struct Provider {
    socket: PathBuf,
    seed: u64,
    /// The channel on which a key is known.
    idempotent: &'static str,
    book: Mutex<Book>,
}

impl Provider {
    pub fn open(folder: &Path, seed: u64, idempotent: &'static str) -> Arc<Self> {
        let socket = folder.join("provider");
        let listener = UnixListener::bind(&socket).unwrap();
        let provider = Arc::new(Self { socket, seed, idempotent, book: Mutex::default() });
        let serving = Arc::clone(&provider);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(Arc::clone(&serving).serve(stream));
            }
        });
        provider
    }

    pub fn socket(&self) -> &Path {
        &self.socket
    }

    pub fn calls(&self) -> Vec<Call> {
        self.book.lock().unwrap().calls.clone()
    }

    async fn serve(self: Arc<Self>, stream: UnixStream) {
        let (reading, mut writing) = stream.into_split();
        let mut line = String::new();
        BufReader::new(reading).read_line(&mut line).await.ok();
        // A caller that was killed amid its words has said nothing.
        let Some((channel, key)) = line.strip_suffix('\n').and_then(|line| line.split_once(' ')) else {
            return;
        };
        let begun = host_now();
        let (n, made) = self.take(channel, key, begun);
        if made == Made::SilentEffect {
            return tokio::time::sleep(PATIENCE * 2).await;
        }
        let word = match made {
            Made::Effect | Made::Known => format!("ok {n}\n"),
            Made::MuddledEffect => "hm\n".into(),
            Made::Transient => "busy\n".into(),
            Made::Wait => "wait\n".into(),
            Made::Refused | Made::SilentEffect => "no\n".into(),
        };
        self.book.lock().unwrap().calls[n].answered = host_now();
        writing.write_all(word.as_bytes()).await.ok();
    }

    fn take(&self, channel: &str, key: &str, begun: Timestamp) -> (usize, Made) {
        let mut book = self.book.lock().unwrap();
        let before = book.by_key.get(key).cloned().unwrap_or_default();
        let hash = key.bytes().fold(self.seed, |hash, byte| dice(hash, byte.into()));
        let drawn = dice(hash, before.len() as u64);
        let known = before.iter().any(|n| book.calls[*n].is_effect());
        let made = match drawn % 100 {
            _ if known && channel == self.idempotent => Made::Known,
            0..TRANSIENT if drawn >> 32 & 3 == 0 => Made::Wait,
            0..TRANSIENT => Made::Transient,
            n if n < TRANSIENT + PERMANENT => Made::Refused,
            n if n < TRANSIENT + PERMANENT + SILENT => Made::SilentEffect,
            n if n < TRANSIENT + PERMANENT + SILENT + MUDDLED => Made::MuddledEffect,
            _ => Made::Effect,
        };
        let n = book.calls.len();
        let key = key.to_owned();
        book.by_key.entry(key.clone()).or_default().push(n);
        book.calls.push(Call { key, made, begun, answered: begun });
        (n, made)
    }
}

/// A worker's side: one call.
pub async fn call(socket: PathBuf, line: String) -> Result<AcceptedMessage, SendError> {
    let silence = |error: &str| SendError::NoAnswer { error: error.into() };
    let asked = async {
        let mut stream = UnixStream::connect(socket).await?;
        stream.write_all(line.as_bytes()).await?;
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).await?;
        std::io::Result::Ok(answer)
    };
    let answer = match tokio::time::timeout(PATIENCE, asked).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => return Err(silence(&error.to_string())),
        Err(_) => return Err(silence("no answer in time")),
    };
    let transient = |retry_after| SendError::Transient { error: "busy".into(), retry_after };
    match answer.trim().split_once(' ') {
        Some(("ok", id)) => Ok(AcceptedMessage { message_id: Some(id.into()), answer: None }),
        _ if answer == "busy\n" => Err(transient(None)),
        _ if answer == "wait\n" => Err(transient(Some(RETRY_AFTER))),
        _ if answer == "no\n" => Err(SendError::Permanent { error: "no such number".into() }),
        _ if answer.is_empty() => Err(silence("the connection broke")),
        _ => Err(SendError::Unknown { error: format!("what is `{answer}`?") }),
    }
}
