//! Failures of commands: one sentence, and a code for scripts.

use punctual::Error;
use punctual::base::error::with_sources;
use serde_json::json;
use std::fmt;
use std::process::ExitCode;

/// The exit codes, for `--help`.
pub const CODES: &str = "\
Exit codes:
  0  it is done
  1  it failed; the sentence on stderr says why
  2  the command line, the configuration or a value in it is wrong
  3  the database, or the server for `tick`, cannot be reached
  4  the database's schema does not fit this version";

/// The kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The command failed.
    Failed,
    /// The request is wrong.
    Usage,
    /// The database, or the server of `tick`, cannot be reached.
    Unreachable,
    /// The schema does not fit.
    Schema,
}

impl FailureKind {
    /// Returns the exit code.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Unreachable => 3,
            Self::Schema => 4,
        }
    }

    /// Returns the word for JSON.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::Unreachable => "unreachable",
            Self::Schema => "schema",
        }
    }
}

/// The failure of a command.
#[derive(Debug)]
pub struct CommandFailure {
    /// Its kind.
    pub kind: FailureKind,
    /// One sentence.
    pub sentence: String,
}

/// The result of a command.
pub type Outcome<T = ()> = Result<T, CommandFailure>;

impl CommandFailure {
    /// Returns a failure of the command.
    #[must_use]
    pub fn failed(sentence: impl Into<String>) -> Self {
        Self { kind: FailureKind::Failed, sentence: sentence.into() }
    }

    /// Returns a failure of the request.
    #[must_use]
    pub fn usage(sentence: impl Into<String>) -> Self {
        Self { kind: FailureKind::Usage, sentence: sentence.into() }
    }

    /// Returns a failure to reach the database or the server.
    #[must_use]
    pub fn unreachable(sentence: impl Into<String>) -> Self {
        Self { kind: FailureKind::Unreachable, sentence: sentence.into() }
    }

    /// Prints the failure on stderr and returns its exit code.
    pub fn report(&self, as_json: bool) -> ExitCode {
        if as_json {
            let code = self.kind.code();
            eprintln!(
                "{}",
                json!({"error": {"kind": self.kind.word(), "code": code, "message": self.sentence}})
            );
        } else {
            eprintln!("punctual: {self}");
        }
        ExitCode::from(self.kind.code())
    }
}

impl fmt::Display for CommandFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl From<Error> for CommandFailure {
    fn from(error: Error) -> Self {
        let kind = match &error {
            Error::Invalid(_) | Error::Config(_) => FailureKind::Usage,
            Error::Unavailable(_) | Error::Unknown(_) => FailureKind::Unreachable,
            Error::Schema(_) | Error::MissingComponent(_) => FailureKind::Schema,
            _ => FailureKind::Failed,
        };
        Self { kind, sentence: with_causes(&error) }
    }
}

/// Returns the error with its sources, in one line.
fn with_causes(error: &dyn std::error::Error) -> String {
    with_sources(error).replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_error_has_its_code() {
        let table = [
            (Error::invalid("topic", "must not be empty"), 2),
            (Error::Config("no".into()), 2),
            (Error::NotFound("no".into()), 1),
            (Error::Conflict("no".into()), 1),
            (Error::Unavailable("gone".into()), 3),
            (Error::Schema("old".into()), 4),
            (Error::MissingComponent(punctual::Component::Leases), 4),
        ];
        for (error, code) in table {
            let said = format!("{error:?}");
            assert_eq!(CommandFailure::from(error).kind.code(), code, "{said}");
        }
    }

    #[test]
    fn a_cause_is_said_once_and_on_one_line() {
        let failure = CommandFailure::from(Error::Unavailable("connection\nrefused".into()));
        assert_eq!(failure.sentence, "the database is not available: connection refused");
    }
}
