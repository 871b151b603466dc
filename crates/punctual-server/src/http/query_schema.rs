//! The query parameters of a route, from its OpenAPI operation, and the layer that holds requests to them.
//!
//! A parameter that nobody reads is refused with the nearest name: a misspelt filter would return
//! everything. A word that is none of a parameter's is refused, too: it would return nothing.

use super::error::ApiFailure;
use super::input::HAS_NUL;
use super::openapi::OPERATIONS;
use axum::body::to_bytes;
use axum::extract::{FromRequestParts, Query, Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use punctual::Problems;
use punctual::base::suggestion::hint;
use serde_json::Value;
use std::sync::Arc;

/// A problem of ours is smaller.
const PROBLEM_BYTES_MAX: usize = 1024 * 1024;

/// The parameters of one route.
#[derive(Clone, Debug, Default)]
pub struct QuerySchema(Arc<Vec<Parameter>>);

/// One parameter.
#[derive(Clone, Debug)]
struct Parameter {
    name: &'static str,
    /// The words that it may be; any text if there are none.
    words: Vec<String>,
}

impl QuerySchema {
    /// The parameters of a route of the table.
    #[must_use]
    pub fn of(route: &str) -> Self {
        let operation = OPERATIONS.iter().find(|operation| operation.route == route);
        let known = operation.into_iter().flat_map(|operation| operation.query);
        let known = known.map(|one| Parameter { name: one.name, words: one.words() });
        Self(Arc::new(known.collect()))
    }

    /// Whether the route has a parameter of this name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|known| known.name == name)
    }

    /// Notes what is wrong, and writes words as the operation does: `sent` is `Sent`.
    fn check(&self, pairs: &mut [(String, String)]) -> Problems {
        let mut problems = Problems::default();
        for (name, value) in pairs {
            match self.0.iter().find(|known| known.name == *name) {
                None => problems.push(&*name, self.unknown(name)),
                Some(_) if value.contains('\0') => problems.push(&*name, HAS_NUL),
                Some(known) => known.check(value, &mut problems),
            }
        }
        problems
    }

    fn unknown(&self, name: &str) -> String {
        let known: Vec<&str> = self.0.iter().map(|known| known.name).collect();
        if known.is_empty() {
            return "is not a parameter here: this route takes none".to_owned();
        }
        format!("is not a parameter here{}", hint(name, &known))
    }
}

impl Parameter {
    /// An empty value is a parameter left out.
    fn check(&self, value: &mut String, problems: &mut Problems) {
        if self.words.is_empty() || value.is_empty() {
            return;
        }
        match self.words.iter().find(|word| word.eq_ignore_ascii_case(value)) {
            Some(word) => word.clone_into(value),
            None => {
                let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
                problems.push(self.name, format!("is not one of its words{}", hint(value, &words)));
            }
        }
    }
}

/// The parameters of a request whose words are written as its operation writes them.
#[derive(Clone, Debug)]
pub struct CheckedQuery {
    /// Names and values.
    pub pairs: Vec<(String, String)>,
    /// What the operation lists.
    pub schema: QuerySchema,
}

/// Lets a request pass whose query its route knows.
///
/// # Errors
/// 400 for a query that cannot be read, 422 with every parameter that is unknown or has an unknown word.
pub async fn check(
    State(schema): State<QuerySchema>,
    request: Request,
    next: Next,
) -> Result<Response, ApiFailure> {
    let (mut parts, body) = request.into_parts();
    let query = Query::<Vec<(String, String)>>::from_request_parts(&mut parts, &()).await;
    let Query(mut pairs) = query.map_err(|_| ApiFailure::malformed("the query string cannot be read"))?;
    let problems = schema.check(&mut pairs);
    parts.extensions.insert(CheckedQuery { pairs, schema });
    let is_read = parts.method == Method::GET;
    if !problems.0.is_empty() && !is_read {
        return Err(problems.into());
    }
    let response = next.run(Request::from_parts(parts, body)).await;
    if problems.0.is_empty() { Ok(response) } else { Err(with_others(problems, response).await.into()) }
}

/// The problems that the handler found, in its order, and ours; where both found one, ours says more. Only a
/// handler that reads was run.
async fn with_others(ours: Problems, response: Response) -> Problems {
    if response.status() != StatusCode::UNPROCESSABLE_ENTITY {
        return ours;
    }
    let bytes = to_bytes(response.into_body(), PROBLEM_BYTES_MAX).await.unwrap_or_default();
    let body: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let mut all = Problems::default();
    for one in body["errors"].as_array().into_iter().flatten() {
        let text = |name: &str| one[name].as_str().unwrap_or_default();
        let better = ours.0.iter().find(|known| known.path == text("path"));
        all.push(text("path"), better.map_or_else(|| text("message"), |known| &known.message));
    }
    for one in ours.0 {
        if !all.0.iter().any(|known| known.path == one.path) {
            all.push(one.path, one.message);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_words_are_held_to_the_operation() {
        let schema = QuerySchema::of("GET /api/automation-schedules");
        let said = |name: &str, value: &str| schema.check(&mut [(name.into(), value.into())]).to_string();
        assert_eq!(said("bookingId", "7"), "");
        assert_eq!(said("status", ""), "");
        assert_eq!(said("status", "Sent"), "");
        assert_eq!(said("status", "snt"), "status: is not one of its words; did you mean `Sent`?");
        let mut pairs = [("status".to_owned(), "sent".to_owned())];
        assert_eq!((schema.check(&mut pairs), pairs[0].1.as_str()), (Problems::default(), "Sent"));
        assert_eq!(said("bokingId", "7"), "bokingId: is not a parameter here; did you mean `bookingId`?");
        assert!(said("booking", "1").contains("did you mean `bookingId`?"), "{}", said("booking", "1"));
        assert!(said("colour", "1").contains("known are bookingId"), "{}", said("colour", "1"));
        let none = QuerySchema::of("GET /api/jobs/{name}").check(&mut [("x".into(), "1".into())]);
        assert!(none.to_string().contains("takes none"), "{none}");
    }
}
