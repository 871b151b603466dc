//! A server that answers as it is told and keeps what it was asked.

use serde_json::Value;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What the server does next.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// Answers.
    Reply { status: u16, headers: Vec<(&'static str, String)>, body: String },
    /// Takes the request and says nothing.
    Silence,
    /// Takes the request and hangs up.
    Cut,
    /// Begins its answer and hangs up.
    HalfReply { status: u16 },
}

impl Answer {
    /// Headers that go with an answer.
    pub(crate) fn with(self, name: &'static str, value: impl Into<String>) -> Self {
        match self {
            Self::Reply { status, mut headers, body } => {
                headers.push((name, value.into()));
                Self::Reply { status, headers, body }
            }
            other => other,
        }
    }
}

/// An answer of JSON.
pub(crate) fn reply(status: u16, body: Value) -> Answer {
    Answer::Reply {
        status,
        headers: vec![("content-type", "application/json".into())],
        body: body.to_string(),
    }
}

/// An answer of words.
pub(crate) fn words(status: u16, body: &str) -> Answer {
    Answer::Reply { status, headers: vec![("content-type", "text/plain".into())], body: body.into() }
}

/// A request that came.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: String,
    /// The path with its query.
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.header("content-type"), "application/json");
        serde_json::from_slice(&self.body).expect("a body of JSON")
    }

    /// The fields of a form, in order of names.
    pub(crate) fn form(&self) -> Vec<(String, String)> {
        assert_eq!(self.header("content-type"), "application/x-www-form-urlencoded");
        let mut fields: Vec<_> = form_urlencoded::parse(&self.body).into_owned().collect();
        fields.sort();
        fields
    }
}

/// The server.
pub(crate) struct Stub {
    pub(crate) url: String,
    script: Arc<Mutex<VecDeque<Answer>>>,
    asked: Arc<Mutex<Vec<Asked>>>,
    serving: tokio::task::JoinHandle<()>,
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Stub {
    pub(crate) async fn start(script: impl IntoIterator<Item = Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let script = Arc::new(Mutex::new(script.into_iter().collect::<VecDeque<_>>()));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (answers, journal) = (Arc::clone(&script), Arc::clone(&asked));
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&answers), Arc::clone(&journal)));
            }
        });
        Self { url, script, asked, serving }
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// The only request that came.
    pub(crate) fn only(&self) -> Asked {
        let asked = self.asked();
        assert_eq!(asked.len(), 1, "exactly one request must come, not {asked:?}");
        asked[0].clone()
    }

    pub(crate) fn then(&self, answer: Answer) {
        self.script.lock().unwrap().push_back(answer);
    }
}

async fn serve(mut stream: TcpStream, script: Arc<Mutex<VecDeque<Answer>>>, journal: Arc<Mutex<Vec<Asked>>>) {
    while let Some(asked) = read(&mut stream).await {
        journal.lock().unwrap().push(asked);
        let next = script.lock().unwrap().pop_front();
        match next.unwrap_or_else(|| words(500, "the script is over")) {
            Answer::Reply { status, headers, body } => {
                let mut head = format!("HTTP/1.1 {status} Said\r\ncontent-length: {}\r\n", body.len());
                headers.iter().for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
                let whole = format!("{head}\r\n{body}");
                if stream.write_all(whole.as_bytes()).await.is_err() {
                    return;
                }
            }
            Answer::HalfReply { status } => {
                let half = format!("HTTP/1.1 {status} Said\r\ncontent-length: 100\r\n\r\n{{\"");
                let _ = stream.write_all(half.as_bytes()).await;
                return;
            }
            Answer::Silence => std::future::pending().await,
            Answer::Cut => return,
        }
    }
}

async fn read(stream: &mut TcpStream) -> Option<Asked> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let mut lines = head.lines();
    let mut first = lines.next()?.split(' ');
    let (method, target) = (first.next()?.to_owned(), first.next()?.to_owned());
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length").map_or("0", |(_, length)| length);
    let length: usize = length.parse().unwrap();
    let mut body = bytes.split_off(end + 4);
    while body.len() < length {
        if stream.read_buf(&mut body).await.ok()? == 0 {
            return None;
        }
    }
    Some(Asked { method, target, headers, body })
}
