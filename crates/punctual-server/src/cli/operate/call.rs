//! A call of a running server, for the few commands that need one.

use crate::cli::failure::{CommandFailure, Outcome};
use crate::config::LISTEN_DEFAULT;
use crate::http_client;
use crate::http_client::RequestFailure;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Response, StatusCode, Url};
use serde_json::Value;
use std::net::SocketAddr;
use std::time::Duration;

/// A running server accepts a connection within this time.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The server's answers are shorter.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;

const NO_URL: &str = "is no URL such as http://127.0.0.1:8080";

/// The address of a server.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::cli) struct ServerUrl(Url);

impl ServerUrl {
    /// Reads `http[s]://host[:port][/base]`.
    pub(in crate::cli) fn parse(url: &str) -> Outcome<Self> {
        let wrong = || CommandFailure::usage(format!("--url: `{}` {NO_URL}", url.escape_debug()));
        // The parser would drop spaces and line ends.
        let is_plain = url.chars().all(|c| c.is_ascii_graphic() && !"@?#".contains(c));
        let read = Url::parse(url).ok().filter(|_| is_plain && url.contains("://"));
        let read = read.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        read.map(Self).ok_or_else(wrong)
    }

    /// The server that listens on an address; one that listens on all addresses is called on this machine.
    pub(in crate::cli) fn listening(address: Option<&str>) -> Outcome<Self> {
        let address = address.unwrap_or(LISTEN_DEFAULT);
        let local = match address.parse::<SocketAddr>() {
            Ok(at) if at.ip().is_unspecified() && at.is_ipv6() => format!("[::1]:{}", at.port()),
            Ok(at) if at.ip().is_unspecified() => format!("127.0.0.1:{}", at.port()),
            _ => address.to_owned(),
        };
        Self::parse(&format!("http://{local}"))
    }

    /// Posts JSON and returns the JSON of the answer.
    pub(in crate::cli) async fn post(
        &self,
        path: &str,
        key: Option<&str>,
        body: &Value,
        timeout: Duration,
    ) -> Outcome<Value> {
        let mut request = client(timeout)?.post(self.endpoint(path)).timeout(timeout).body(body.to_string());
        request = request.header(CONTENT_TYPE, "application/json").header(ACCEPT, "application/json");
        if let Some(key) = key {
            if !key.chars().all(|c| c.is_ascii_graphic()) {
                return Err(CommandFailure::usage("the key has characters that no key has"));
            }
            request = request.bearer_auth(key);
        }
        let response = request.send().await.map_err(|error| self.failure(&error))?;
        let status = response.status();
        let text = self.read(response).await?;
        let json = serde_json::from_slice::<Value>(&text);
        if status.is_success() {
            return json.map_err(|_| not_punctual("its answer is not JSON"));
        }
        Err(refused(status, json.ok().as_ref()))
    }

    fn endpoint(&self, path: &str) -> Url {
        let mut url = self.0.clone();
        url.set_path(&format!("{}{path}", self.0.path().trim_end_matches('/')));
        url
    }

    /// Host and port.
    fn authority(&self) -> String {
        let port = self.0.port_or_known_default().unwrap_or_default();
        format!("{}:{port}", self.0.host_str().unwrap_or_default())
    }

    async fn read(&self, mut response: Response) -> Outcome<Vec<u8>> {
        let mut text = Vec::new();
        while let Some(part) = response.chunk().await.map_err(|error| self.failure(&error))? {
            text.extend_from_slice(&part);
            if text.len() > ANSWER_BYTES_MAX {
                return Err(not_punctual("its answer is longer than 1 MiB"));
            }
        }
        Ok(text)
    }

    fn failure(&self, error: &reqwest::Error) -> CommandFailure {
        let cause = http_client::root_cause(error);
        let server = format!("the server at {}", self.authority());
        let start = "start it, or name another with --url";
        match RequestFailure::of(error) {
            RequestFailure::ConnectTimeout => {
                CommandFailure::unreachable(format!("{server} does not answer: {start}"))
            }
            RequestFailure::Connect => {
                CommandFailure::unreachable(format!("{server} cannot be reached: {cause}; {start}"))
            }
            RequestFailure::Tls => CommandFailure::unreachable(format!(
                "{server} has no certificate that this command accepts: {cause}; call it by http \
                 on its own machine, or give it a certificate of a public authority"
            )),
            RequestFailure::Timeout => CommandFailure::failed(format!(
                "{server} has not answered in time and may go on: see its log, or set a longer --timeout"
            )),
            RequestFailure::NotHttp => not_punctual("it does not speak HTTP"),
            RequestFailure::Broken => CommandFailure::unreachable(format!(
                "{server} broke off: {cause}; look at its log, then try again"
            )),
        }
    }
}

/// A connection that is not made is reported as such, also with a short `timeout`.
fn client(timeout: Duration) -> Outcome<reqwest::Client> {
    http_client::build(CONNECT_TIMEOUT.min(timeout / 2))
        .map_err(|error| CommandFailure::failed(format!("no TLS on this machine: {error}")))
}

fn not_punctual(cause: &str) -> CommandFailure {
    CommandFailure::failed(format!("what answers is no Punctual server: {cause}"))
}

/// Returns a refusal in the server's words, with every problem that it names.
fn refused(status: StatusCode, problem: Option<&Value>) -> CommandFailure {
    let text = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
    let detail = problem.map(|problem| text(problem, "detail")).filter(|detail| !detail.is_empty());
    let errors = problem.and_then(|problem| problem["errors"].as_array()).map_or(&[][..], Vec::as_slice);
    let errors = errors.iter().map(|one| format!("; {}: {}", text(one, "path"), text(one, "message")));
    let is_unauthorized = status == StatusCode::UNAUTHORIZED;
    let hint = if is_unauthorized { "; PUNCTUAL_KEY or PUNCTUAL_ROOT_KEY names a key" } else { "" };
    let detail = detail.unwrap_or_else(|| "no reason was given".into());
    let status = status.as_u16();
    let said = format!("the server refused ({status}): {detail}{}{hint}", errors.collect::<String>());
    CommandFailure::failed(crate::cli::table::one_line(&said))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    const PATIENCE: Duration = Duration::from_secs(30);

    #[test]
    fn urls_are_read_or_refused() {
        let table = [
            ("http://localhost", Some(("localhost:80", "http://localhost/x"))),
            ("http://127.0.0.1:8080/", Some(("127.0.0.1:8080", "http://127.0.0.1:8080/x"))),
            ("http://[::1]:9/punctual/", Some(("[::1]:9", "http://[::1]:9/punctual/x"))),
            ("http://[::1]", Some(("[::1]:80", "http://[::1]/x"))),
            ("https://example.org", Some(("example.org:443", "https://example.org/x"))),
            ("example.org:80", None),
            ("ftp://example.org", None),
            ("http://", None),
            ("http://a b", None),
            ("http://x\r\nevil: 1", None),
            ("http://user@host", None),
            ("http:host", None),
        ];
        for (url, want) in table {
            let read =
                ServerUrl::parse(url).ok().map(|url| (url.authority(), url.endpoint("/x").to_string()));
            let read = read.as_ref().map(|(authority, endpoint)| (authority.as_str(), endpoint.as_str()));
            assert_eq!(read, want, "{url:?}");
        }
    }

    #[test]
    fn a_server_on_all_addresses_is_called_on_this_machine() {
        let table = [
            (None, "127.0.0.1:8080"),
            (Some("0.0.0.0:9"), "127.0.0.1:9"),
            (Some("[::]:9"), "[::1]:9"),
            (Some("10.0.0.7:9"), "10.0.0.7:9"),
            (Some("localhost:9"), "localhost:9"),
        ];
        for (address, want) in table {
            assert_eq!(ServerUrl::listening(address).unwrap().authority(), want, "{address:?}");
        }
    }

    /// Posts to a server that sends these bytes and closes. Returns the outcome and the request.
    async fn post_to(answer: &'static str, key: Option<&str>) -> (Outcome<Value>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = ServerUrl::listening(Some(&listener.local_addr().unwrap().to_string())).unwrap();
        let serving = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"{}") {
                stream.read_buf(&mut request).await.unwrap();
            }
            stream.write_all(answer.as_bytes()).await.unwrap();
            String::from_utf8(request).unwrap()
        });
        let outcome = server.post("/api/x", key, &json!({}), PATIENCE).await;
        (outcome, serving.await.unwrap())
    }

    #[tokio::test]
    async fn a_call_sends_json_and_the_key() {
        let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n7\r\n{\"a\":1}\r\n0\r\n\r\n";
        for answer in ["HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n{\"a\":1}beyond", chunked] {
            let (outcome, request) = post_to(answer, Some("k")).await;
            assert_eq!(outcome.unwrap(), json!({"a": 1}), "{answer}");
            assert!(request.starts_with("POST /api/x HTTP/1.1\r\n"), "{request}");
            assert!(request.contains("\r\nauthorization: Bearer k\r\n"), "{request}");
        }
    }

    #[tokio::test]
    async fn a_failed_call_names_its_cause() {
        let table = [
            ("HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\n{\"a\":1}", "broke off: "),
            ("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n<html>", "is not JSON"),
            ("HTTP/1.1 302 Found\r\nlocation: /y\r\ncontent-length: 0\r\n\r\n", "the server refused (302)"),
            ("SSH-2.0-x\r\n\r\n", "is no Punctual server: it does not speak HTTP"),
            ("HTTP/1.1 200", "broke off: "),
            ("", "broke off: "),
            ("HTTP/1.1 502 Bad Gateway\r\n\r\n", "the server refused (502): no reason was given"),
            ("HTTP/1.1 401 U\r\n\r\n{\"detail\":\"no key\"}", "(401): no key; PUNCTUAL_KEY or"),
            (
                "HTTP/1.1 422 U\r\n\r\n\
                 {\"detail\":\"wrong\",\"errors\":[{\"path\":\"a\",\"message\":\"is odd\"}]}",
                "(422): wrong; a: is odd",
            ),
        ];
        for (answer, want) in table {
            let sentence = post_to(answer, None).await.0.unwrap_err().sentence;
            assert!(sentence.contains(want), "{answer:?}: {sentence}");
        }
    }

    #[tokio::test]
    async fn a_server_that_is_silent_or_away_is_named() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = ServerUrl::listening(Some(&address)).unwrap();
        let post = |timeout| server.post("/x", None, &Value::Null, timeout);
        let silent = post(Duration::from_millis(50)).await.unwrap_err().sentence;
        assert_eq!(
            silent,
            format!(
                "the server at {address} has not answered in time and may go on: see its log, or set a \
                 longer --timeout"
            )
        );
        drop(listener);
        let away = post(PATIENCE).await.unwrap_err().sentence;
        let want = format!("the server at {address} cannot be reached: Connection refused");
        assert!(away.starts_with(&want) && away.ends_with("name another with --url"), "{away}");
    }

    #[tokio::test]
    async fn a_key_cannot_smuggle_a_header() {
        let server = ServerUrl::listening(None).unwrap();
        let refused = server.post("/x", Some("k\r\nevil: 1"), &Value::Null, PATIENCE).await;
        assert_eq!(refused.unwrap_err().sentence, "the key has characters that no key has");
    }
}
