//! Problems of answers, as types, so that a page can report them in its reader's language.

use crate::base::error::Problems;
use std::fmt;

/// The problem of one answer.
#[derive(Clone, Debug, PartialEq)]
pub enum AnswerProblem {
    /// There is no such question.
    Unknown {
        /// The id that was probably meant.
        nearest: Option<String>,
    },
    /// The question must be answered.
    Missing,
    /// The answer is of another type than the question asks for.
    Type {
        /// The expected type.
        wanted: &'static str,
    },
    /// The answer is none of the options.
    NotAnOption {
        /// The submitted value.
        given: String,
        /// The options.
        options: Vec<String>,
    },
    /// Fewer choices than asked for.
    TooFew(usize),
    /// More choices than asked for.
    TooMany(usize),
    /// Fewer characters than asked for.
    TooShort(usize),
    /// More characters than allowed.
    TooLong(usize),
    /// A number or date below the least.
    TooSmall(String),
    /// A number or date above the greatest.
    TooLarge(String),
}

/// Options that are listed in an error.
const OPTIONS_TOLD_MAX: usize = 10;

impl fmt::Display for AnswerProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { nearest: None } => write!(f, "is not a question of this survey"),
            Self::Unknown { nearest: Some(id) } => {
                write!(f, "is not a question of this survey; did you mean `{id}`?")
            }
            Self::Missing => write!(f, "needs an answer"),
            Self::Type { wanted } => write!(f, "must be {wanted}"),
            Self::NotAnOption { given, options } => {
                let more = if options.len() > OPTIONS_TOLD_MAX { ", …" } else { "" };
                let told = options.iter().take(OPTIONS_TOLD_MAX).map(String::as_str).collect::<Vec<_>>();
                write!(f, "`{given}` is not an option; there are {}{more}", told.join(", "))
            }
            Self::TooFew(least) => write!(f, "needs at least {}", counted(*least, "choice")),
            Self::TooMany(most) => write!(f, "takes at most {}", counted(*most, "choice")),
            Self::TooShort(least) => write!(f, "needs at least {}", counted(*least, "character")),
            Self::TooLong(most) => write!(f, "takes at most {}", counted(*most, "character")),
            Self::TooSmall(least) => write!(f, "must be {least} or more"),
            Self::TooLarge(most) => write!(f, "must be {most} or less"),
        }
    }
}

fn counted(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// Why answers were not taken: by question, in the order of the questions.
#[derive(Clone, Debug, PartialEq)]
pub struct AnswersError(pub Vec<(String, AnswerProblem)>);

impl AnswersError {
    /// As sentences, each under its question's id.
    #[must_use]
    pub fn problems(&self) -> Problems {
        let mut problems = Problems::default();
        for (id, wrong) in &self.0 {
            problems.push(id, wrong.to_string());
        }
        problems
    }
}
