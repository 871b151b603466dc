//! What comes in: a bounded body, read as JSON, and a reader that finds every problem.
//!
//! 400 is for what is not JSON, 413 for what is too large; wrong types and values are 422,
//! all of them at once, each with its path.

use super::api::requests::fields_of;
use super::body_limit::{BodyLimit, ValueCounter};
use super::body_room::{BodyRoom, SMALL_BYTES_MAX, TakenRoom, chew};
use super::error::ApiFailure;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{FromRequest, Request};
use axum::http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE};
use axum::http::{Extensions, HeaderMap, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use punctual::base::duration;
use punctual::base::name::check_name;
use punctual::base::suggestion::hint;
use punctual::{Problems, Timestamp};
use schemars::JsonSchema;
use serde_json::{Map, Value};
use std::future::poll_fn;
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::time::Duration;

/// A body that has not arrived after this long is given up.
const BODY_PATIENCE: Duration = Duration::from_secs(30);

/// What is wrong with a text that PostgreSQL cannot keep and SQLite can: it is refused on both.
pub const HAS_NUL: &str = "must not contain the character U+0000";

/// A body with its media type, not yet understood: ids are checked first. A large one has its room as long as
/// this lives.
#[derive(Debug)]
pub struct Input {
    /// The text.
    pub bytes: Bytes,
    /// The media type in lower case, without parameters.
    pub media_type: String,
    _room: TakenRoom,
}

/// A body that was read before the handler was called, and is not read twice.
#[derive(Clone, Debug)]
pub struct ReadBody {
    /// The text.
    pub bytes: Bytes,
    room: TakenRoom,
}

impl<S: Send + Sync> FromRequest<S> for Input {
    type Rejection = ApiFailure;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiFailure> {
        let media_type = media_type(request.headers());
        let limit = limit_of(request.extensions());
        let (mut parts, body) = request.into_parts();
        let read = match parts.extensions.remove::<ReadBody>() {
            Some(read) => read,
            None => read(body, limit, &room_of(&parts.extensions)).await?,
        };
        Ok(Self { bytes: read.bytes, media_type, _room: read.room })
    }
}

/// Refuses a body in a content encoding: a few bytes of it can stand for gigabytes.
///
/// # Errors
/// 415, with the one encoding that is read.
pub async fn refuse_encoded(request: Request, next: Next) -> Response {
    let mut encodings = request.headers().get_all(CONTENT_ENCODING).iter();
    if encodings.all(|name| name.as_bytes().trim_ascii().eq_ignore_ascii_case(b"identity")) {
        return next.run(request).await;
    }
    let said = "bodies are read without a content encoding only; send this one uncompressed";
    let mut refused = ApiFailure::unsupported(said).into_response();
    refused.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    refused
}

/// The bounds of the route that a request is for.
pub fn limit_of(extensions: &Extensions) -> BodyLimit {
    extensions.get().copied().unwrap_or_default()
}

/// The room for large bodies of the server that a request is for.
fn room_of(extensions: &Extensions) -> BodyRoom {
    extensions.get().cloned().unwrap_or_default()
}

/// Reads a body of at most `bytes_max`, no more than small bodies have, and within its limit of time.
pub async fn read_within(body: Body, bytes_max: usize) -> Result<Bytes, ApiFailure> {
    let collect = collect(body, (bytes_max, usize::MAX), None);
    Ok(in_time(collect).await?.bytes)
}

/// Reads the body of a request, with room for a large one.
pub async fn read_of(extensions: &Extensions, body: Body) -> Result<ReadBody, ApiFailure> {
    read(body, limit_of(extensions), &room_of(extensions)).await
}

/// A body that says how large it is waits for its room first. Another gets it on its way, and has the whole
/// time for bodies for both.
async fn read(body: Body, limit: BodyLimit, room: &BodyRoom) -> Result<ReadBody, ApiFailure> {
    let most = (limit.bytes_max, limit.values_max());
    match body.size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok()) {
        Some(bytes) if bytes > limit.bytes_max => Err(too_long(limit.bytes_max)),
        Some(bytes) => {
            let room = room.take(bytes).await?;
            Ok(ReadBody { room, ..in_time(collect(body, most, None)).await? })
        }
        None => in_time(collect(body, most, Some(room))).await,
    }
}

async fn in_time(
    collect: impl Future<Output = Result<ReadBody, ApiFailure>>,
) -> Result<ReadBody, ApiFailure> {
    let late = || {
        let said = "the body did not arrive within 30 seconds";
        ApiFailure::new(StatusCode::REQUEST_TIMEOUT, "timeout", said)
    };
    tokio::time::timeout(BODY_PATIENCE, collect).await.unwrap_or_else(|_| Err(late()))
}

/// Appends each piece to one buffer, so that a large body is in memory once, and refuses it at the first
/// piece too much. A body of unknown length takes its room where it becomes large.
async fn collect(
    mut body: Body,
    (bytes_max, values_max): (usize, usize),
    room: Option<&BodyRoom>,
) -> Result<ReadBody, ApiFailure> {
    if body.size_hint().lower() > bytes_max as u64 {
        return Err(too_long(bytes_max));
    }
    let expected = usize::try_from(body.size_hint().lower()).unwrap_or_default();
    let (mut text, mut counter) = (Vec::with_capacity(expected), ValueCounter::default());
    let (mut to_take, mut taken) = (room, TakenRoom::default());
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let frame = frame.map_err(|_| ApiFailure::malformed("the body broke off before its end"))?;
        let Ok(piece) = frame.into_data() else { continue };
        if text.len() + piece.len() > bytes_max {
            return Err(too_long(bytes_max));
        }
        if text.len() + piece.len() > SMALL_BYTES_MAX
            && let Some(room) = to_take.take()
        {
            taken = room.take(bytes_max).await?;
            text.reserve_exact(bytes_max - text.len());
        }
        text.extend_from_slice(&piece);
        if values_max < usize::MAX {
            counter.add(&piece);
        }
        if counter.values > values_max {
            let said = format!("a body of this route may have at most {values_max} JSON values");
            return Err(ApiFailure::too_large(said));
        }
    }
    Ok(ReadBody { bytes: Bytes::from(text), room: taken })
}

fn too_long(bytes_max: usize) -> ApiFailure {
    ApiFailure::too_large(format!("a request may have at most {} MiB", bytes_max / (1024 * 1024)))
}

fn media_type(headers: &HeaderMap) -> String {
    let text = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

impl Input {
    /// The body as a JSON object.
    ///
    /// # Errors
    /// 400 when it is not JSON, 422 when it is not an object.
    pub fn object(&self) -> Result<Map<String, Value>, ApiFailure> {
        chew(self.bytes.len(), || object(&self.bytes))
    }

    /// Lets go of the text, once what is needed of it has been copied. Its room stays taken, for the copies.
    pub fn forget_text(&mut self) {
        self.bytes = Bytes::new();
    }

    /// The body as a JSON object; nothing at all stands for an empty one.
    ///
    /// # Errors
    /// As [`Input::object`].
    pub fn object_or_nothing(&self) -> Result<Map<String, Value>, ApiFailure> {
        if self.bytes.trim_ascii().is_empty() { Ok(Map::new()) } else { self.object() }
    }
}

/// A body as a JSON object.
///
/// # Errors
/// 400 when it is not JSON, 422 when it is not an object.
pub fn object(body: &[u8]) -> Result<Map<String, Value>, ApiFailure> {
    match serde_json::from_slice(body).map_err(|e| not_json(&e))? {
        Value::Object(map) => Ok(map),
        other => Err(punctual::Error::invalid("", format!("must be an object, not {}", name(&other))).into()),
    }
}

/// 400, with the place.
pub fn not_json(error: &serde_json::Error) -> ApiFailure {
    ApiFailure::malformed(format!("the body is not JSON: {error}"))
}

/// What a value is, with its article.
pub const fn name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// A number without a fraction; `51.0` is one, as JSON Schema sees it.
fn whole_number(value: &Value) -> Option<u64> {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within its range")]
    let rounded = |n: f64| (n.fract() == 0.0 && (0.0..1e15).contains(&n)).then_some(n as u64);
    value.as_u64().or_else(|| value.as_f64().and_then(rounded))
}

/// Reads the fields of an object and gathers what is wrong with them. A field that is null
/// is a field left out.
#[derive(Debug)]
pub struct Fields<'a, 'p> {
    map: &'a Map<String, Value>,
    at: String,
    problems: &'p mut Problems,
}

impl<'a, 'p> Fields<'a, 'p> {
    /// A reader of `map`, which stands at the path `at`.
    pub fn new(map: &'a Map<String, Value>, at: impl Into<String>, problems: &'p mut Problems) -> Self {
        Self { map, at: at.into(), problems }
    }

    /// The path of a field.
    pub fn path(&self, name: &str) -> String {
        if self.at.is_empty() { name.to_owned() } else { format!("{}.{name}", self.at) }
    }

    /// Notes a problem with a field.
    pub fn wrong(&mut self, name: &str, message: impl Into<String>) {
        let path = self.path(name);
        self.problems.push(path, message);
    }

    /// Notes what a check of a field found.
    pub fn fine(&mut self, name: &str, checked: punctual::Result<()>) {
        if let Err(punctual::Error::Invalid(found)) = checked {
            found.0.into_iter().for_each(|problem| self.wrong(name, problem.message));
        }
    }

    /// The value of a field, if it is there.
    pub fn value(&self, name: &str) -> Option<&'a Value> {
        self.map.get(name).filter(|v| !v.is_null())
    }

    fn read<T>(&mut self, field: &str, form: &str, read: impl FnOnce(&'a Value) -> Option<T>) -> Option<T> {
        let value = self.value(field)?;
        let found = read(value);
        if found.is_none() {
            self.wrong(field, format!("must be {form}, not {}", name(value)));
        }
        found
    }

    /// A string, without the one character that not every database can keep.
    pub fn text(&mut self, field: &str) -> Option<String> {
        let text = self.read(field, "a string", Value::as_str)?;
        self.without_nul(field, text)
    }

    fn without_nul(&mut self, field: &str, text: &str) -> Option<String> {
        if text.contains('\0') {
            self.wrong(field, HAS_NUL);
            return None;
        }
        Some(text.to_owned())
    }

    /// A string that must be there.
    pub fn need_text(&mut self, field: &str) -> String {
        self.need(field);
        self.text(field).unwrap_or_default()
    }

    /// A name that must be there: not empty, not long, nothing invisible in it.
    pub fn need_name(&mut self, field: &str) -> String {
        self.need(field);
        let Some(text) = self.text(field) else { return String::new() };
        let path = self.path(field);
        check_name(&text, &path, self.problems);
        text
    }

    /// A string, or a whole number as its digits: ids are written either way.
    pub fn id_text(&mut self, field: &str) -> Option<String> {
        let text = self.read(field, "a string or a whole number", |v| match v {
            Value::String(text) => Some(text.clone()),
            Value::Number(n) if n.is_i64() => Some(n.to_string()),
            _ => whole_number(v).map(|n| n.to_string()),
        })?;
        self.without_nul(field, &text)
    }

    /// Notes when a field is not there.
    pub fn need(&mut self, field: &str) {
        if self.value(field).is_none() {
            self.wrong(field, "is missing");
        }
    }

    /// True or false.
    pub fn flag(&mut self, field: &str) -> Option<bool> {
        self.read(field, "true or false", Value::as_bool)
    }

    /// An object.
    pub fn object(&mut self, field: &str) -> Option<&'a Map<String, Value>> {
        self.read(field, "an object", Value::as_object)
    }

    /// A list.
    pub fn list(&mut self, field: &str) -> Option<&'a Vec<Value>> {
        self.read(field, "a list", Value::as_array)
    }

    /// A whole number within a range.
    pub fn whole(&mut self, field: &str, range: RangeInclusive<u64>) -> Option<u64> {
        let value = self.value(field)?;
        let found = whole_number(value).filter(|n| range.contains(n));
        if found.is_none() {
            let (least, most) = (range.start(), range.end());
            self.wrong(field, format!("must be a whole number from {least} to {most}"));
        }
        found
    }

    /// A moment.
    pub fn time(&mut self, field: &str) -> Option<Timestamp> {
        let text = self.text(field)?;
        Timestamp::parse(&text).map_err(|said| self.wrong(field, said)).ok()
    }

    /// A length of time.
    pub fn duration(&mut self, field: &str) -> Option<Duration> {
        let text = self.read(field, "a duration such as \"30s\"", Value::as_str)?;
        duration::parse(text).map_err(|said| self.wrong(field, said)).ok()
    }

    /// Names that are there and should not be.
    pub fn unknown(&self, known: &[&str]) -> Vec<String> {
        self.map.keys().filter(|name| !known.contains(&name.as_str())).cloned().collect()
    }

    /// Notes every field that the type of the body lacks.
    pub fn only_of<T: JsonSchema + 'static>(&mut self) {
        self.only(fields_of::<T>());
    }

    /// Notes every field that nobody knows: it may be a slip in one that matters.
    pub fn only(&mut self, known: &[&str]) {
        for name in self.unknown(known) {
            self.wrong(&name, format!("is not a field here{}", hint(&name, known)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body::Frame;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll};

    /// A body without an end, which counts its pieces of eight values.
    struct Endless(Arc<AtomicUsize>);

    impl HttpBody for Endless {
        type Data = Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"0,0,0,0,0,0,0,0,")))))
        }
    }

    /// PRD-14: nothing of a body is read behind the value, or the byte, that is too much.
    #[tokio::test]
    async fn prd_14_a_body_is_refused_at_the_first_piece_too_much() {
        let room = BodyRoom::default();
        for (values_max, pieces) in [(80, 10), (usize::MAX, 65_537)] {
            let read_pieces = Arc::new(AtomicUsize::new(0));
            let body = Body::new(Endless(Arc::clone(&read_pieces)));
            let read = collect(body, (1024 * 1024, values_max), Some(&room));
            let refused = read.await.expect_err("it is too large");
            assert_eq!(refused.status(), StatusCode::PAYLOAD_TOO_LARGE);
            assert_eq!(read_pieces.load(Ordering::Relaxed), pieces, "at most {values_max} values");
        }
    }

    use serde_json::json;

    #[test]
    fn every_wrong_field_is_named_with_its_path() {
        let body = json!({"a": 1, "b": "soon", "c": -1, "d": "x", "e": [], "f": "12", "z": 0});
        let mut problems = Problems::default();
        let mut fields = Fields::new(body.as_object().unwrap(), "items[2]", &mut problems);
        assert_eq!(fields.text("a"), None);
        assert_eq!(fields.time("b"), None);
        assert_eq!(fields.whole("c", 1..=9), None);
        assert_eq!(fields.flag("d"), None);
        assert_eq!(fields.object("e"), None);
        assert_eq!(fields.duration("f"), None);
        assert_eq!(fields.need_text("g"), "");
        fields.only(&["a", "b", "c", "d", "e", "f", "g"]);
        let paths: Vec<&str> = problems.0.iter().map(|p| p.path.as_str()).collect();
        assert_eq!(paths, ["a", "b", "c", "d", "e", "f", "g", "z"].map(|n| format!("items[2].{n}")));
    }

    #[test]
    fn null_is_a_field_left_out() {
        let body = json!({"a": null});
        let mut problems = Problems::default();
        let mut fields = Fields::new(body.as_object().unwrap(), "", &mut problems);
        assert_eq!((fields.text("a"), fields.flag("a")), (None, None));
        assert_eq!(problems, Problems::default());
    }
}
