//! A call of a server, for the few commands that need one: HTTP/1.1 without TLS, one request a
//! connection.
//!
//! Not promised: TLS, redirects, answers in chunks. Punctual's own server needs none of them.

use super::failure::{CommandFailure, CommandResult};
use crate::config::LISTEN_DEFAULT;
use serde_json::Value;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A server that is there takes a connection within this time.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);
/// A longer answer is none of ours.
const ANSWER_BYTES_MAX: u64 = 1024 * 1024;
/// The port where none is named.
const PORT: u16 = 80;

/// Where a server is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Server {
    /// Host and port, as a connection and the `Host` header want them.
    authority: String,
    /// What stands before every path.
    base: String,
}

impl Server {
    /// Reads `http://host[:port][/base]`.
    pub(super) fn parse(url: &str) -> CommandResult<Self> {
        let wrong =
            |said: &str| Err(CommandFailure::usage(format!("--url: `{}` {said}", url.escape_debug())));
        if url.starts_with("https://") {
            return wrong("is https, which this command does not speak: call the server where it runs");
        }
        let Some(rest) = url.strip_prefix("http://") else {
            return wrong("is no URL such as http://127.0.0.1:8080");
        };
        let (authority, base) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        let plain = |c: char| c.is_ascii_graphic() && !"@?#".contains(c);
        if authority.is_empty() || !rest.chars().all(plain) {
            return wrong("is no URL such as http://127.0.0.1:8080");
        }
        let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let authority = if has_port { authority.to_owned() } else { format!("{authority}:{PORT}") };
        Ok(Self { authority, base: base.trim_end_matches('/').to_owned() })
    }

    /// The server that listens at an address; one that listens everywhere is called at home.
    pub(super) fn listening(address: Option<&str>) -> CommandResult<Self> {
        let address = address.unwrap_or(LISTEN_DEFAULT);
        let home = match address.parse::<SocketAddr>() {
            Ok(at) if at.ip().is_unspecified() && at.is_ipv6() => format!("[::1]:{}", at.port()),
            Ok(at) if at.ip().is_unspecified() => format!("127.0.0.1:{}", at.port()),
            _ => address.to_owned(),
        };
        Self::parse(&format!("http://{home}"))
    }

    /// Posts JSON and answers the JSON that comes back.
    pub(super) async fn post(
        &self,
        path: &str,
        key: Option<&str>,
        body: &Value,
        patience: Duration,
    ) -> CommandResult<Value> {
        let request = self.request(path, key, &body.to_string())?;
        let away =
            |said: &str| CommandFailure::unreachable(format!("the server at {} {said}", self.authority));
        let connecting = timeout(CONNECT_PATIENCE, TcpStream::connect(&self.authority)).await;
        let stream = connecting.map_err(|_| away("does not answer"))?;
        let stream = stream.map_err(|e| away(&format!("cannot be reached: {e}")))?;
        let told = timeout(patience, exchange(stream, &request)).await;
        let told =
            told.map_err(|_| CommandFailure::failed("the server has not answered in time; it may go on"))?;
        let text = told.map_err(|e| away(&format!("broke off: {e}")))?;
        answer(&text)
    }

    fn request(&self, path: &str, key: Option<&str>, body: &str) -> CommandResult<String> {
        let Self { authority, base } = self;
        let key = match key {
            Some(key) if key.chars().all(|c| c.is_ascii_graphic()) => {
                format!("authorization: Bearer {key}\r\n")
            }
            Some(_) => return Err(CommandFailure::usage("the key has characters that no key has")),
            None => String::new(),
        };
        Ok(format!(
            "POST {base}{path} HTTP/1.1\r\nhost: {authority}\r\n{key}content-type: application/json\r\n\
             accept: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        ))
    }
}

async fn exchange(mut stream: TcpStream, request: &str) -> std::io::Result<Vec<u8>> {
    stream.write_all(request.as_bytes()).await?;
    let mut text = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut text).await?;
    Ok(text)
}

/// Reads an answer: the JSON of a good one, the sentence of another.
fn answer(text: &[u8]) -> CommandResult<Value> {
    let strange = |said: &str| CommandFailure::failed(format!("what answers is no Punctual server: {said}"));
    let text = std::str::from_utf8(text).map_err(|_| strange("it does not write UTF-8"))?;
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(|| strange("its answer has no end"))?;
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1."));
    let status = status.and_then(|rest| rest.split(' ').nth(1)).and_then(|code| code.parse::<u16>().ok());
    let status = status.ok_or_else(|| strange("it does not speak HTTP/1.1"))?;
    let header = |name: &str| {
        let mut pairs = lines.clone().filter_map(|line| line.split_once(':'));
        pairs.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    };
    if header("transfer-encoding").is_some() {
        return Err(strange("it answers in chunks"));
    }
    let length = header("content-length").and_then(|length| length.parse::<usize>().ok());
    if length.is_some_and(|length| body.len() < length) {
        return Err(CommandFailure::unreachable("the server broke off within its answer"));
    }
    let body = length.and_then(|length| body.get(..length)).unwrap_or(body);
    let json = serde_json::from_str::<Value>(body);
    match status {
        200..300 => json.map_err(|_| strange("its answer is not JSON")),
        _ => Err(refused(status, json.ok().as_ref())),
    }
}

/// A refusal in the server's own words, with every problem it names.
fn refused(status: u16, problem: Option<&Value>) -> CommandFailure {
    let text = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
    let detail = problem.map(|problem| text(problem, "detail")).filter(|detail| !detail.is_empty());
    let errors = problem.and_then(|problem| problem["errors"].as_array()).map_or(&[][..], Vec::as_slice);
    let errors = errors.iter().map(|one| format!("; {}: {}", text(one, "path"), text(one, "message")));
    let hint = if status == 401 { "; PUNCTUAL_KEY or PUNCTUAL_ROOT_KEY names a key" } else { "" };
    let detail = detail.unwrap_or_else(|| "no reason was given".into());
    let said = format!("the server refused ({status}): {detail}{}{hint}", errors.collect::<String>());
    CommandFailure::failed(super::table::one_line(&said))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn urls_are_read_or_refused() {
        let table = [
            ("http://localhost", Some(("localhost:80", ""))),
            ("http://127.0.0.1:8080/", Some(("127.0.0.1:8080", ""))),
            ("http://[::1]:9/punctual/", Some(("[::1]:9", "/punctual"))),
            ("http://[::1]", Some(("[::1]:80", ""))),
            ("https://example.org", None),
            ("example.org:80", None),
            ("http://", None),
            ("http://a b", None),
            ("http://x\r\nevil: 1", None),
            ("http://user@host", None),
        ];
        for (url, want) in table {
            let read = Server::parse(url).ok();
            let read = read.as_ref().map(|server| (server.authority.as_str(), server.base.as_str()));
            assert_eq!(read, want, "{url:?}");
        }
    }

    #[test]
    fn who_listens_everywhere_is_called_at_home() {
        let table = [
            (None, "127.0.0.1:8080"),
            (Some("0.0.0.0:9"), "127.0.0.1:9"),
            (Some("[::]:9"), "[::1]:9"),
            (Some("10.0.0.7:9"), "10.0.0.7:9"),
            (Some("localhost:9"), "localhost:9"),
        ];
        for (address, want) in table {
            assert_eq!(Server::listening(address).unwrap().authority, want, "{address:?}");
        }
    }

    #[test]
    fn answers_are_read_or_told_of() {
        let good = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n{\"a\":1}beyond";
        assert_eq!(answer(good.as_bytes()).unwrap(), json!({"a": 1}));
        let table = [
            ("HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\n{\"a\":1}", "broke off within"),
            ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", "in chunks"),
            ("HTTP/1.1 200 OK\r\n\r\n<html>", "is not JSON"),
            ("SSH-2.0-x\r\n\r\n", "does not speak HTTP"),
            ("HTTP/1.1 200", "has no end"),
            ("", "has no end"),
            ("HTTP/1.1 502 Bad Gateway\r\n\r\n", "the server refused (502): no reason was given"),
            ("HTTP/1.1 401 U\r\n\r\n{\"detail\":\"no key\"}", "(401): no key; PUNCTUAL_KEY or"),
            (
                "HTTP/1.1 422 U\r\n\r\n\
                 {\"detail\":\"wrong\",\"errors\":[{\"path\":\"a\",\"message\":\"is odd\"}]}",
                "(422): wrong; a: is odd",
            ),
        ];
        for (text, want) in table {
            let said = answer(text.as_bytes()).unwrap_err().sentence;
            assert!(said.contains(want), "{text:?}: {said}");
        }
    }

    #[test]
    fn a_key_cannot_smuggle_a_header() {
        let server = Server::listening(None).unwrap();
        assert!(server.request("/x", Some("k\r\nevil: 1"), "{}").is_err());
        assert!(server.request("/x", Some("k"), "{}").unwrap().contains("\r\nauthorization: Bearer k\r\n"));
    }
}
