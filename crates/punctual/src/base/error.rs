//! The errors of the library, by what a caller can do about them.

use crate::base::component::Component;
use crate::base::limits;
use serde::Serialize;
use std::fmt;

/// The source of an error, kept for logs.
pub type ErrorSource = Box<dyn std::error::Error + Send + Sync + 'static>;

/// One thing that is wrong with the input, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The place in the input, such as `items[3].dueAt`.
    pub path: String,
    /// The problem and its correction.
    pub message: String,
}

impl Problem {
    /// A problem at `path`.
    #[must_use]
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into() }
    }
}

/// Everything that is wrong with the input. Nothing was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    /// `Ok` when nothing is wrong.
    ///
    /// # Errors
    /// Itself as [`Error::Invalid`] when something is.
    pub fn into_result(self) -> Result<(), Error> {
        if self.0.is_empty() { Ok(()) } else { Err(Error::Invalid(self)) }
    }

    /// Adds a problem, unless there are [`limits::PROBLEMS_KEPT_MAX`] already: more do not help and take
    /// memory.
    pub fn push(&mut self, path: impl Into<String>, message: impl Into<String>) {
        if self.0.len() < limits::PROBLEMS_KEPT_MAX {
            self.0.push(Problem::new(path, message));
        }
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, p) in self.0.iter().enumerate() {
            let gap = if n == 0 { "" } else { "; " };
            match p.path.as_str() {
                "" => write!(f, "{gap}{}", p.message)?,
                path => write!(f, "{gap}{path}: {}", p.message)?,
            }
        }
        Ok(())
    }
}

/// Why a verb did not happen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The input is wrong; nothing was written.
    #[error("{0}")]
    Invalid(Problems),
    /// The named object does not exist (or is another tenant's).
    #[error("{0}")]
    NotFound(String),
    /// The object exists already, or its state forbids the request.
    #[error("{0}")]
    Conflict(String),
    /// The database cannot be reached or is too busy; the same call may work later.
    #[error("the database is not available: {}", whole(.0))]
    Unavailable(#[source] ErrorSource),
    /// A commit failed, or its answer was lost: it may or may not have happened. Ask again under the same
    /// ids.
    #[error(
        "a commit failed, so it is unknown whether it happened; repeat it with the same ids: {}",
        whole(.0)
    )]
    Unknown(#[source] ErrorSource),
    /// The schema does not fit this version.
    #[error("{0}")]
    Schema(String),
    /// The database has no tables of the component that the verb belongs to.
    #[error(
        "the database has no tables of the component `{0}`: add it to the components of an engine that \
         migrates the database, or run `punctual migrate --components {0}`"
    )]
    MissingComponent(Component),
    /// The configuration is unusable.
    #[error("{0}")]
    Config(String),
    /// The database answered with something this code does not expect.
    #[error("the database refused a statement: {}", whole(.0))]
    Database(#[source] ErrorSource),
}

impl Error {
    /// A single wrong value.
    #[must_use]
    pub fn invalid(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Invalid(Problems(vec![Problem::new(path, message)]))
    }

    /// The same error for one more caller, whose source is its text.
    pub(crate) fn replicate(&self) -> Self {
        match self {
            Self::Unknown(source) => Self::Unknown(whole(source).into()),
            Self::Database(source) => Self::Database(whole(source).into()),
            Self::Unavailable(source) => Self::Unavailable(whole(source).into()),
            Self::MissingComponent(component) => Self::MissingComponent(*component),
            other => Self::Unavailable(other.to_string().into()),
        }
    }

    /// Returns whether the same call may work later without any change.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::Unknown(_))
    }
}

/// The result of a verb.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A source with its own sources: drivers print only that something failed, and keep the cause as a source.
fn whole(source: &ErrorSource) -> String {
    with_sources(&**source)
}

/// The error with its sources, as far as a source says something new.
#[must_use]
pub fn with_sources(error: &dyn std::error::Error) -> String {
    /// More sources than this are a circle.
    const SOURCES_MAX: usize = 64;
    let mut text = error.to_string();
    let sources = std::iter::successors(error.source(), |source| source.source());
    for source in sources.take(SOURCES_MAX) {
        let words = source.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PLT-25: what a driver keeps as the source of its error is printed with it.
    #[test]
    fn plt_25_an_error_of_the_database_prints_its_causes() {
        #[derive(Debug, thiserror::Error)]
        #[error("db error")]
        struct RefusedWrite(#[source] std::io::Error);

        let source = || RefusedWrite(std::io::Error::other("relation \"shop\" does not exist")).into();
        for error in [Error::Unavailable(source()), Error::Unknown(source()), Error::Database(source())] {
            let told = [error.to_string(), error.replicate().to_string(), with_sources(&error)];
            for text in told {
                assert!(text.ends_with(": db error: relation \"shop\" does not exist"), "{text}");
            }
        }
    }
}
