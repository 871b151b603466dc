//! The request that sends a message: `[request]`.

use crate::CALL_TIMEOUT_MAX;
use crate::known::{KnownValues, Names, Text};
use crate::node::{Field, Node};
use crate::settings::Setting;
use punctual::Problems;
use punctual::base::document;
use punctual::base::document::{DocumentObject, kind, quote};
use punctual::base::suggestion::hint;
use reqwest::Method;
use reqwest::header::{HeaderName, HeaderValue};
use serde_json::Value;
use std::time::Duration;

/// How long a call may take when a file does not say.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(15);
/// Bodies to choose from, at most.
const BODIES_MAX: usize = 8;
/// The fields of `[request]`.
const KNOWN: [&str; 8] =
    ["method", "url", "timeout", "headers", "auth", "idempotency_header", "idempotency_body", "body"];
/// Methods that a file may use.
const METHODS: [&str; 3] = ["POST", "PUT", "PATCH"];

/// The request that sends a message.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) url: Text,
    pub(crate) timeout: Duration,
    pub(crate) headers: Vec<(HeaderName, Text)>,
    pub(crate) auth: Option<Auth>,
    pub(crate) idempotency: Option<(HeaderName, Text)>,
    /// Whether the provider recognises a repeated key in the body.
    pub(crate) idempotency_body: bool,
    pub(crate) bodies: Vec<Body>,
}

/// How a request says who asks.
#[derive(Clone, Debug)]
pub(crate) enum Auth {
    /// A name and a password.
    Basic { user: Text, password: Text },
    /// A token.
    Bearer { token: Text },
    /// Azure's access keys: a signature over the request.
    AzureHmac { key: Text },
}

/// One of the bodies: the first one is sent whose `when` has a value.
#[derive(Clone, Debug)]
pub(crate) struct Body {
    when: Option<String>,
    pub(crate) content: Content,
}

/// What a body is made of.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    /// Fields, form-encoded.
    Form(Vec<Field>),
    /// A tree, as JSON.
    Json(Node),
}

impl Body {
    /// Whether it is the body for a message.
    pub(crate) fn fits(&self, known: &KnownValues<'_>) -> bool {
        self.when.as_ref().is_none_or(|name| known.has(name))
    }
}

impl Request {
    pub(super) fn read(value: &Value, names: &Names<'_>, problems: &mut Problems) -> Option<Self> {
        let part = DocumentObject::read(value, "request", &KNOWN, problems)?;
        let method = read_method(&part, problems);
        let url = part
            .need_text("url", "where the request goes", problems)
            .and_then(|url| Text::parse(url, &part.at("url"), names, problems));
        let timeout = read_timeout(&part, problems);
        let headers = read_headers(&part, names, problems);
        let auth = part.get("auth").and_then(|value| read_auth(value, names, problems));
        let idempotency = part.get("idempotency_header").and_then(|v| read_idempotency(v, names, problems));
        let bodies = read_bodies(&part, names, problems);
        let idempotency_body = read_idempotency_body(&part, problems);
        Some(Self { method, url: url?, timeout, headers, auth, idempotency, idempotency_body, bodies })
    }

    /// An address begins with a scheme and a host that the file or a setting decides, never a message.
    pub(super) fn check_base(&self, settings: &[Setting], problems: &mut Problems) {
        let written = self.url.written();
        let urls =
            settings.iter().filter(|setting| setting.url).map(|url| format!("{{{{setting.{}}}}}", url.name));
        let mut begins = urls.chain(["https://".to_owned()]);
        let Some(rest) = begins.find_map(|begin| written.strip_prefix(begin.as_str())) else {
            let said = "must begin with https:// or with a setting that has `url = true`";
            problems.push("request.url", said);
            return;
        };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let mut names = authority.split("{{").skip(1).map(|name| name.trim_start());
        if let Some(name) = names.find(|name| !name.starts_with("setting.")) {
            let name = quote(name.split(['|', '}']).next().unwrap_or_default().trim());
            let said = "has `{{NAME}}` before the path: only settings may decide the host; put a / before it";
            problems.push("request.url", said.replace("NAME", &name));
        }
    }
}

fn read_method(part: &DocumentObject<'_>, problems: &mut Problems) -> Method {
    let Some(value) = part.get("method") else { return Method::POST };
    match document::text(value, &part.at("method"), problems) {
        Some("POST") | None => Method::POST,
        Some("PUT") => Method::PUT,
        Some("PATCH") => Method::PATCH,
        Some(other) => {
            let said = format!("`{}` is not a method that sends{}", quote(other), hint(other, &METHODS));
            problems.push(part.at("method"), said);
            Method::POST
        }
    }
}

fn read_timeout(part: &DocumentObject<'_>, problems: &mut Problems) -> Duration {
    let timeout = part.duration("timeout", problems).unwrap_or(TIMEOUT_DEFAULT);
    if timeout.is_zero() || timeout > CALL_TIMEOUT_MAX {
        problems.push(part.at("timeout"), format!("must be more than 0s, and at most {CALL_TIMEOUT_MAX:?}"));
    }
    timeout
}

fn read_headers(
    part: &DocumentObject<'_>,
    names: &Names<'_>,
    problems: &mut Problems,
) -> Vec<(HeaderName, Text)> {
    let Some(value) = part.get("headers") else { return Vec::new() };
    let Some(all) = value.as_object() else {
        problems.push(part.at("headers"), "must be a table of names and values");
        return Vec::new();
    };
    let read = |(name, value): (&String, &Value)| {
        let path = format!("{}.{}", part.at("headers"), quote(name));
        header(name, value, &path, names, problems)
    };
    all.iter().filter_map(read).collect()
}

fn header(
    name: &str,
    value: &Value,
    path: &str,
    names: &Names<'_>,
    problems: &mut Problems,
) -> Option<(HeaderName, Text)> {
    let read = HeaderName::from_bytes(name.as_bytes()).ok();
    let owned = ["host", "content-length", "transfer-encoding", "connection", "content-type"];
    match &read {
        None => problems.push(path, "is not a header's name"),
        Some(name) if owned.contains(&name.as_str()) => {
            problems.push(path, "is a header that is set for you")
        }
        Some(_) => {}
    }
    let text = document::text(value, path, problems)?;
    let text = Text::parse(text, path, names, problems)?;
    if HeaderValue::from_str(&text.fixed()).is_err() {
        problems.push(path, "has characters that a header cannot carry");
    }
    Some((read?, text))
}

fn read_auth(value: &Value, names: &Names<'_>, problems: &mut Problems) -> Option<Auth> {
    let path = "request.auth";
    let part = DocumentObject::read(value, path, &["type", "user", "password", "token", "key"], problems)?;
    let known = ["basic", "bearer", "azure-hmac"];
    let word = part.need_text("type", "basic, bearer or azure-hmac", problems)?;
    let mut text = |field: &str| {
        let text = part.need_text(field, "this kind of auth asks for it", problems)?;
        Text::parse(text, &part.at(field), names, problems)
    };
    match word {
        "basic" => Some(Auth::Basic { user: text("user")?, password: text("password")? }),
        "bearer" => Some(Auth::Bearer { token: text("token")? }),
        "azure-hmac" => Some(Auth::AzureHmac { key: text("key")? }),
        other => {
            let said = format!("`{}` is not a kind of auth{}", quote(other), hint(other, &known));
            problems.push(part.at("type"), said);
            None
        }
    }
}

/// Reads whether the provider recognises a key in the body. Most bodies have the key only as a reference that
/// the provider repeats in its callbacks, so a file must say so.
fn read_idempotency_body(part: &DocumentObject<'_>, problems: &mut Problems) -> bool {
    let says_so = part.flag("idempotency_body", false, problems);
    let body = part.get("body").map(Value::to_string).unwrap_or_default();
    if says_so && !["{{idempotencyKey", "{{idempotencyUuid"].iter().any(|name| body.contains(name)) {
        let said =
            "is true, but no body has the key: write {{idempotencyKey}} or {{idempotencyUuid}} into it";
        problems.push(part.at("idempotency_body"), said);
    }
    says_so
}

/// Reads a header's name, which then carries the message's key; or a name and a value.
fn read_idempotency(value: &Value, names: &Names<'_>, problems: &mut Problems) -> Option<(HeaderName, Text)> {
    let path = "request.idempotency_header";
    if let Some(name) = value.as_str() {
        return header(name, &Value::from("{{idempotencyKey}}"), path, names, problems);
    }
    let part = DocumentObject::read(value, path, &["name", "value"], problems)?;
    let name = part.need_text("name", "the header's name", problems)?;
    let value = part.need("value", "such as {{idempotencyUuid}}", problems)?;
    header(name, value, path, names, problems)
}

fn read_bodies(part: &DocumentObject<'_>, names: &Names<'_>, problems: &mut Problems) -> Vec<Body> {
    let path = part.at("body");
    let bodies = match part.need("body", "what is sent: a table with `form` or `json`", problems) {
        None => return Vec::new(),
        Some(one @ Value::Object(_)) => read_body(one, &path, names, problems).into_iter().collect(),
        Some(_) => {
            let list = part.list("body", BODIES_MAX, problems).unwrap_or_default();
            list.iter().filter_map(|(one, path)| read_body(one, path, names, problems)).collect::<Vec<_>>()
        }
    };
    if let Some(n) =
        bodies.iter().position(|body: &Body| body.when.is_none()).filter(|n| n + 1 < bodies.len())
    {
        problems.push(format!("{path}[{}]", n + 1), "is never sent: the one before it has no `when`");
    }
    bodies
}

fn read_body(value: &Value, path: &str, names: &Names<'_>, problems: &mut Problems) -> Option<Body> {
    let part = DocumentObject::read(value, path, &["when", "form", "json"], problems)?;
    let when = part.get("when").and_then(|value| document::text(value, &part.at("when"), problems));
    if let Some(name) = when {
        names.check(name, &part.at("when"), problems);
    }
    let content = match (part.get("form"), part.get("json")) {
        (Some(form), None) => match Node::read(form, &part.at("form"), names, problems) {
            Node::Object(object) => Content::Form(object.fields),
            _ => {
                problems.push(part.at("form"), format!("must be a table of fields, not {}", kind(form)));
                return None;
            }
        },
        (None, Some(json)) => Content::Json(Node::read(json, &part.at("json"), names, problems)),
        _ => {
            problems.push(path, "must have either `form` or `json`");
            return None;
        }
    };
    Some(Body { when: when.map(str::to_owned), content })
}
