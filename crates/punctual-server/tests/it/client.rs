//! A very small HTTP/1.1 client: one connection per request, closed by the server.

use serde_json::Value;
use std::collections::HashMap;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Somebody who calls the server.
#[derive(Clone, Debug)]
pub struct Client {
    address: SocketAddr,
    headers: Vec<(String, String)>,
}

/// What the server answered.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: HashMap<String, String>,
    pub text: String,
}

impl Client {
    pub const fn new(address: SocketAddr) -> Self {
        Self { address, headers: Vec::new() }
    }

    /// The same client with a header on every request.
    pub fn with(&self, name: &str, value: &str) -> Self {
        let mut headers = self.headers.clone();
        headers.retain(|(n, _)| !n.eq_ignore_ascii_case(name));
        headers.push((name.into(), value.into()));
        Self { address: self.address, headers }
    }

    pub fn key(&self, key: &str) -> Self {
        self.with("authorization", &format!("Bearer {key}"))
    }

    pub fn tenant(&self, slug: &str) -> Self {
        self.with("punctual-tenant", slug)
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.send("GET", path, "").await
    }

    pub async fn delete(&self, path: &str) -> Reply {
        self.send("DELETE", path, "").await
    }

    pub async fn post(&self, path: &str, body: Value) -> Reply {
        self.send("POST", path, &body.to_string()).await
    }

    pub async fn put(&self, path: &str, body: Value) -> Reply {
        self.send("PUT", path, &body.to_string()).await
    }

    /// Posts, and expects the status.
    pub async fn does(&self, path: &str, body: Value, status: u16) -> Value {
        let reply = self.post(path, body).await;
        assert_eq!(reply.status, status, "POST {path}: {}", reply.text);
        reply.json()
    }

    /// Gets, and expects 200.
    pub async fn sees(&self, path: &str) -> Value {
        let reply = self.get(path).await;
        assert_eq!(reply.status, 200, "GET {path}: {}", reply.text);
        reply.json()
    }

    pub async fn send(&self, method: &str, path: &str, body: impl AsRef<[u8]>) -> Reply {
        let mut stream = self.begin(method, path, body).await;
        let mut answer = Vec::new();
        // A server that refuses early may close before everything was sent.
        stream.read_to_end(&mut answer).await.ok();
        let reply = Reply::parse(&answer);
        if reply.status != 0 {
            crate::documented::check(method, path, reply.status, &reply.text);
        }
        reply
    }

    /// Sends a text as it is.
    pub async fn raw(&self, text: &str) -> Reply {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(text.as_bytes()).await.ok();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.ok();
        Reply::parse(&answer)
    }

    /// Sends a request and leaves its answer to the caller.
    pub async fn begin(&self, method: &str, path: &str, body: impl AsRef<[u8]>) -> TcpStream {
        let body = body.as_ref();
        let mut head = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
        if !self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            head.push_str(&format!("host: {}\r\n", self.address));
        }
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(body).await.ok();
        stream
    }
}

impl Reply {
    fn parse(answer: &[u8]) -> Self {
        let text = String::from_utf8_lossy(answer);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|s| s.parse().ok());
        let headers = lines.filter_map(|line| line.split_once(": "));
        Self {
            status: status.unwrap_or(0),
            headers: headers.map(|(n, v)| (n.to_ascii_lowercase(), v.to_owned())).collect(),
            text: body.to_owned(),
        }
    }

    pub fn json(&self) -> Value {
        if self.text.is_empty() {
            return Value::Null;
        }
        serde_json::from_str(&self.text).unwrap_or_else(|e| panic!("{e}: {}", self.text))
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// Expects a problem of this status, in its form; answers the paths it names.
    pub fn problem(&self, status: u16) -> Vec<String> {
        assert_eq!(self.status, status, "{}", self.text);
        assert_eq!(self.header("content-type"), "application/problem+json");
        let body = self.json();
        assert_eq!(body["status"], status);
        for name in ["type", "title", "detail"] {
            assert!(body[name].as_str().is_some_and(|t| !t.is_empty()), "{name} in {body}");
        }
        let errors = body["errors"].as_array().unwrap();
        errors.iter().map(|e| e["path"].as_str().unwrap().to_owned()).collect()
    }
}
