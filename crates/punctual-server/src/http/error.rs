//! One mapping from what went wrong to what a client reads: RFC 9457 problem details.
//!
//! Not promised to a client: the words of the database. Those go to the log, once, here.

use super::openapi::values::ProblemAt;
use axum::http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use punctual::base::storage_fault::StorageFault;
use punctual::{Error, Problem, Problems};
use schemars::JsonSchema;
use serde::Serialize;

/// The media type of every error.
pub const PROBLEM_JSON: &str = "application/problem+json";
/// Places in the input that an answer names; beyond them it says how many there are.
pub const ERRORS_SHOWN_MAX: usize = 100;
/// After a passing trouble, a client may come back after this long.
const RETRY_SECONDS: u32 = 1;

/// A request that was not carried out, and why.
#[derive(Debug)]
pub struct ApiFailure {
    status: StatusCode,
    slug: &'static str,
    detail: String,
    errors: Vec<Problem>,
    retry_after: Option<u32>,
}

/// What handlers answer.
pub type Answer<T> = Result<T, ApiFailure>;

/// RFC 9457.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub struct Body<'a> {
    r#type: String,
    title: &'a str,
    #[schemars(range(min = 400, max = 599))]
    status: u16,
    detail: &'a str,
    #[schemars(with = "Vec<ProblemAt>", length(max = 100))]
    errors: &'a [Problem],
    /// Where errors has only the first 100: how many were found, which is at least 101. Reading may end
    /// before the last one is found, and 1000 are counted at most.
    #[schemars(with = "usize")]
    #[serde(rename = "errorCount", skip_serializing_if = "Option::is_none")]
    error_count: Option<usize>,
}

impl ApiFailure {
    /// What is wrong, in one line.
    #[must_use]
    pub(crate) fn sentence(&self) -> String {
        let said = self.errors.iter().map(|problem| format!("{}: {}", problem.path, problem.message));
        let said: Vec<String> = said.collect();
        if said.is_empty() { self.detail.clone() } else { said.join("; ") }
    }

    /// A problem of a kind, told in a sentence.
    pub fn new(status: StatusCode, slug: &'static str, detail: impl Into<String>) -> Self {
        Self { status, slug, detail: detail.into(), errors: Vec::new(), retry_after: None }
    }

    /// 400: the body is not what its type says.
    pub fn malformed(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "malformed", detail)
    }

    /// 401: no key, or one that does not work.
    pub fn unauthenticated(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthenticated", detail)
    }

    /// 403: a key that may not do this.
    pub fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", detail)
    }

    /// 404: not there, or not this tenant's.
    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not-found", detail)
    }

    /// 409: not in this state.
    pub fn conflict(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "conflict", detail)
    }

    /// 410: it was there, and is over.
    pub fn gone(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, "gone", detail)
    }

    /// 413: more than is taken in one go.
    pub fn too_large(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", detail)
    }

    /// 422: JSON with wrong types or values, all of them.
    pub fn invalid(problems: Problems) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid-content", summary(&problems.0)).with(problems)
    }

    /// 500: our own mistake. The log knows more.
    pub fn internal() -> Self {
        let said = "something went wrong on our side; the log has it under this answer's x-request-id";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", said)
    }

    /// Its status.
    #[must_use]
    pub const fn status(&self) -> StatusCode {
        self.status
    }

    /// 415: a body that is not read.
    pub fn unsupported(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported-media-type", detail)
    }

    /// The problem details as JSON.
    pub fn to_json(&self) -> String {
        let body = Body {
            r#type: format!("urn:punctual:problem:{}", self.slug),
            title: self.status.canonical_reason().unwrap_or("Error"),
            status: self.status.as_u16(),
            detail: &self.detail,
            errors: &self.errors[..self.errors.len().min(ERRORS_SHOWN_MAX)],
            error_count: (self.errors.len() > ERRORS_SHOWN_MAX).then_some(self.errors.len()),
        };
        serde_json::to_string(&body).unwrap_or_default()
    }

    /// With the places in the input that are wrong.
    #[must_use]
    pub fn with(mut self, problems: Problems) -> Self {
        self.errors = problems.0;
        self
    }

    /// With a hint when to come back.
    #[must_use]
    pub const fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }
}

/// The first problem in words; the list has them all. Where there are many, reading may have ended before the
/// last one was found.
fn summary(problems: &[Problem]) -> String {
    let first = Problems(problems.iter().take(1).cloned().collect());
    match problems.len() {
        0 | 1 => first.to_string(),
        n if n > ERRORS_SHOWN_MAX => {
            format!("{first} (and at least {} more; errors has the first {ERRORS_SHOWN_MAX})", n - 1)
        }
        n => format!("{first} (and {} more, see errors)", n - 1),
    }
}

impl From<Problems> for ApiFailure {
    fn from(problems: Problems) -> Self {
        Self::invalid(problems)
    }
}

impl From<Error> for ApiFailure {
    fn from(error: Error) -> Self {
        match error {
            Error::Invalid(problems) => Self::invalid(problems),
            Error::NotFound(said) => Self::not_found(said),
            Error::Conflict(said) => Self::conflict(said),
            Error::Unavailable(_) | Error::Unknown(_) => unavailable(&error),
            other => {
                tracing::error!(error = %other, "a request failed");
                Self::internal()
            }
        }
    }
}

fn unavailable(error: &Error) -> ApiFailure {
    tracing::warn!(%error, "a request met a database that is not available");
    let fault = StorageFault::find(&error.to_string());
    let (slug, said) = match error {
        Error::Unknown(_) => (OUTCOME_UNKNOWN, unknown_cause(fault)),
        _ => ("unavailable", unavailable_cause(fault)),
    };
    ApiFailure::new(StatusCode::SERVICE_UNAVAILABLE, slug, said).retry_after(RETRY_SECONDS)
}

/// Names the cause of a commit that failed. A full disk shows there as a rule, since SQLite writes its log
/// then.
fn unknown_cause(fault: Option<StorageFault>) -> String {
    let (cause, advice) = match fault {
        Some(fault) => (format!(" ({})", fault.finding()), format!("{}; ", fault.advice())),
        None => (String::new(), String::new()),
    };
    format!(
        "the database failed while the change was being committed{cause}, so it is unknown whether it \
         happened; {advice}repeat events and timers with the same Idempotency-Key or ids, and look up \
         anything else first"
    )
}

/// Names the cause that an operator must remove.
fn unavailable_cause(fault: Option<StorageFault>) -> String {
    match fault {
        Some(fault) => format!("{}; nothing was changed, {}", fault.finding(), fault.advice()),
        None => {
            "the database cannot be reached or is too busy right now; nothing was changed, try again soon"
                .into()
        }
    }
}

/// The problem of a change that may or may not have happened.
const OUTCOME_UNKNOWN: &str = "outcome-unknown";

/// Marks a response whose change may or may not have happened.
#[derive(Clone, Copy, Debug)]
pub struct OutcomeUnknown;

impl IntoResponse for ApiFailure {
    fn into_response(self) -> Response {
        let text = self.to_json();
        let kind = HeaderValue::from_static(PROBLEM_JSON);
        let mut response = (self.status, [(CONTENT_TYPE, kind)], text).into_response();
        if self.slug == OUTCOME_UNKNOWN {
            response.extensions_mut().insert(OutcomeUnknown);
        }
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// 405 with the methods that would do.
pub fn method_not_allowed(allowed: &str) -> Response {
    let said = format!("this path answers only {allowed}");
    let failure = ApiFailure::new(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", said);
    let mut response = failure.into_response();
    if let Ok(value) = HeaderValue::from_str(allowed) {
        response.headers_mut().insert(ALLOW, value);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PRD-14: an operator reads what to mend, and nothing of the database's own words.
    #[test]
    fn prd_14_an_error_names_the_disk() {
        let detail = |words: &str| ApiFailure::from(Error::Unavailable(words.to_owned().into())).detail;
        let unknown = |words: &str| ApiFailure::from(Error::Unknown(words.to_owned().into())).detail;
        for told in [detail("database or disk is full"), unknown("database or disk is full")] {
            assert!(told.contains("the disk of the database is full"), "{told}");
        }
        assert!(unknown("database or disk is full").contains("repeat events"), "it may have happened");
        assert!(detail("database or disk is full").contains("the disk of the database is full"));
        let extend = "could not extend file \"base/5/16384\": No space left on device";
        assert!(detail(extend).contains("free space") && !detail(extend).contains("16384"));
        assert!(detail("attempt to write a readonly database").contains("is read-only"));
        assert!(detail("cannot execute INSERT in a read-only transaction").contains("is read-only"));
        assert!(detail("disk I/O error").contains("look at the disk"));
        assert!(detail("FEHLER: konnte nicht schreiben (SQLSTATE 58030)").contains("look at the disk"));
        assert!(detail("connection refused").contains("too busy"));
    }

    #[test]
    fn every_error_of_the_engine_has_its_status() {
        let source = || std::io::Error::other("secret words of the database").into();
        let cases: [(Error, u16, bool); 7] = [
            (Error::invalid("topic", "must not be empty"), 422, false),
            (Error::NotFound("x".into()), 404, false),
            (Error::Conflict("x".into()), 409, false),
            (Error::Unavailable(source()), 503, true),
            (Error::Unknown(source()), 503, true),
            (Error::Database(source()), 500, false),
            (Error::Schema("x".into()), 500, false),
        ];
        for (error, status, retry) in cases {
            let name = error.to_string();
            let failure = ApiFailure::from(error);
            assert!(!failure.detail.contains("secret"), "{name}");
            let response = failure.into_response();
            assert_eq!(response.status().as_u16(), status, "{name}");
            assert_eq!(response.headers().contains_key(RETRY_AFTER), retry, "{name}");
            assert_eq!(response.headers()[CONTENT_TYPE], PROBLEM_JSON, "{name}");
        }
    }
}
