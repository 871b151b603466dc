//! One answer: from what a form or a program handed in to its canonical form.

use crate::base::document::quote;
use crate::base::limits;
use crate::base::number;
use crate::survey::rules::answers::AnswerProblem;
use crate::survey::rules::survey::{Choice, NPS, Question, QuestionKind, day, label};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::fmt::Display;
use std::ops::RangeInclusive;

/// The submitted values of one question.
pub(crate) struct SubmittedAnswer<'a> {
    question: &'a Question,
    value: Option<&'a Value>,
    words: Option<&'a Value>,
}

/// The accepted answer, and the dropped parts.
#[derive(Default)]
pub(crate) struct AcceptedAnswer {
    pub kept: Vec<(String, Value)>,
    pub dropped: Vec<String>,
}

impl<'a> SubmittedAnswer<'a> {
    pub fn of(question: &'a Question, given: &'a Map<String, Value>) -> Self {
        let there = |id: &str| given.get(id).filter(|value| !is_empty(value));
        let words = question.other().and_then(|_| there(&question.other_id()));
        Self { question, value: there(&question.id), words }
    }

    /// The ids under which something was handed in.
    pub fn ids(&self) -> Vec<String> {
        let value = self.value.map(|_| self.question.id.clone());
        let words = self.words.map(|_| self.question.other_id());
        value.into_iter().chain(words).collect()
    }

    /// The canonical answer; nothing if there is none.
    pub fn read(&self) -> Result<AcceptedAnswer, AnswerProblem> {
        match &self.question.kind {
            QuestionKind::SingleChoice(choices) => self.choice(choices, None),
            QuestionKind::MultiChoice(choices, range) => self.choice(choices, Some(range)),
            kind => {
                let value = self.value.map(|value| plain(kind, value)).transpose()?.flatten();
                let kept = value.map(|value| (self.question.id.clone(), value));
                Ok(AcceptedAnswer { kept: kept.into_iter().collect(), dropped: Vec::new() })
            }
        }
    }

    /// A choice: of one if there is no range, else of as many as the range says.
    fn choice(
        &self,
        choices: &[Choice],
        range: Option<&RangeInclusive<usize>>,
    ) -> Result<AcceptedAnswer, AnswerProblem> {
        let picked = self.pick(choices, range.is_none())?;
        let mut values = picked.options.iter().map(|at| choices[*at].value.clone());
        let answer = match range {
            Some(range) if !picked.options.is_empty() => {
                within_count(picked.options.len(), range)?;
                Some(values.collect())
            }
            _ => values.next(),
        };
        let answer = answer.map(|answer| (self.question.id.clone(), answer));
        let unused = self.words.filter(|_| !picked.field_used).map(|_| self.question.other_id());
        let words = picked.words.map(|words| (self.question.other_id(), words));
        Ok(AcceptedAnswer {
            kept: answer.into_iter().chain(words).collect(),
            dropped: unused.into_iter().collect(),
        })
    }

    fn pick(&self, choices: &[Choice], single: bool) -> Result<ChosenOptions, AnswerProblem> {
        let mut picked = ChosenOptions::default();
        let other = choices.iter().position(|choice| choice.other);
        for value in values(self.value, single)? {
            let name = label(value);
            match (choices.iter().position(|choice| choice.label() == name.trim()), other) {
                (Some(at), _) => {
                    picked.options.insert(at);
                }
                // Own words may stand where an option's value would, once.
                (None, Some(at)) if value.is_string() && picked.words.is_none() => {
                    picked.words = own_words(value)?;
                    picked.options.insert(at);
                }
                _ => return Err(not_an_option(&name, choices)),
            }
        }
        // A respondent who wrote words, but did not tick the box in front of them, meant that option.
        if let (Some(at), Some(written), None) = (other, self.words, &picked.words)
            && (picked.options.is_empty() || picked.options.contains(&at))
        {
            picked.words = own_words(written)?;
            picked.options.insert(at);
            picked.field_used = true;
        }
        Ok(picked)
    }
}

/// The chosen options, by their places.
#[derive(Default)]
struct ChosenOptions {
    options: BTreeSet<usize>,
    words: Option<Value>,
    /// Whether the words came from the field for them.
    field_used: bool,
}

fn within_count(count: usize, range: &RangeInclusive<usize>) -> Result<(), AnswerProblem> {
    if count < *range.start() {
        return Err(AnswerProblem::TooFew(*range.start()));
    }
    if count > *range.end() {
        return Err(AnswerProblem::TooMany(*range.end()));
    }
    Ok(())
}

fn own_words(value: &Value) -> Result<Option<Value>, AnswerProblem> {
    text(value, &(0..=limits::SHORT_ANSWER_CHARS_MAX), one_line)
}

/// The values that were chosen: a list, or one alone.
fn values(value: Option<&Value>, single: bool) -> Result<Vec<&Value>, AnswerProblem> {
    let wanted = if single { "one of the options" } else { "a list of options" };
    let list = match value {
        None => return Ok(Vec::new()),
        Some(Value::Array(_)) if single => return Err(AnswerProblem::Type { wanted }),
        Some(Value::Array(list)) => list.iter().filter(|value| !is_empty(value)).collect(),
        Some(one) => vec![one],
    };
    let scalar = |value: &&Value| value.is_string() || value.is_number();
    if list.iter().all(scalar) { Ok(list) } else { Err(AnswerProblem::Type { wanted }) }
}

fn not_an_option(given: &str, choices: &[Choice]) -> AnswerProblem {
    AnswerProblem::NotAnOption { given: quote(given), options: choices.iter().map(Choice::label).collect() }
}

/// An answer that is no choice. None if nothing is left of it.
fn plain(kind: &QuestionKind, value: &Value) -> Result<Option<Value>, AnswerProblem> {
    match kind {
        QuestionKind::Rating(range) => step(value, range).map(Some),
        QuestionKind::Nps => step(value, &NPS).map(Some),
        QuestionKind::YesNo => yes_or_no(value).map(Some),
        QuestionKind::ShortText(range) => text(value, range, one_line),
        QuestionKind::LongText(range) => text(value, range, lines),
        QuestionKind::Number(range) => decimal(value, range).map(Some),
        QuestionKind::Date(range) => date(value, range).map(Some),
        QuestionKind::SingleChoice(_) | QuestionKind::MultiChoice(..) => Ok(None),
    }
}

fn step(value: &Value, range: &RangeInclusive<i64>) -> Result<Value, AnswerProblem> {
    let step = number::whole(value).ok_or(AnswerProblem::Type { wanted: "a whole number" })?;
    within(&step, range)?;
    Ok(Value::from(step))
}

fn decimal(value: &Value, range: &RangeInclusive<f64>) -> Result<Value, AnswerProblem> {
    let wrong = AnswerProblem::Type { wanted: "a number, such as 12 or 2.5" };
    let Some(number) = number::read(value) else { return Err(wrong) };
    let size = number.as_f64().filter(|size| size.is_finite()).ok_or(wrong)?;
    within(&size, range)?;
    Ok(Value::Number(number))
}

fn date(value: &Value, range: &RangeInclusive<jiff::civil::Date>) -> Result<Value, AnswerProblem> {
    let wrong = AnswerProblem::Type { wanted: "a date, such as 2026-05-14" };
    let date = value.as_str().and_then(|text| day(text.trim())).ok_or(wrong)?;
    within(&date, range)?;
    Ok(Value::from(date.to_string()))
}

fn within<T: PartialOrd + Display>(value: &T, range: &RangeInclusive<T>) -> Result<(), AnswerProblem> {
    if value < range.start() {
        return Err(AnswerProblem::TooSmall(range.start().to_string()));
    }
    if value > range.end() {
        return Err(AnswerProblem::TooLarge(range.end().to_string()));
    }
    Ok(())
}

fn yes_or_no(value: &Value) -> Result<Value, AnswerProblem> {
    match value {
        Value::Bool(yes) => Ok(Value::from(if *yes { "Yes" } else { "No" })),
        Value::String(word) if word == "Yes" || word == "No" => Ok(value.clone()),
        _ => Err(AnswerProblem::Type { wanted: "`Yes` or `No`" }),
    }
}

fn text(
    value: &Value,
    range: &RangeInclusive<usize>,
    clean: fn(&str) -> String,
) -> Result<Option<Value>, AnswerProblem> {
    let text = clean(value.as_str().ok_or(AnswerProblem::Type { wanted: "a text" })?);
    match text.chars().count() {
        0 => Ok(None),
        chars if chars < *range.start() => Err(AnswerProblem::TooShort(*range.start())),
        chars if chars > *range.end() => Err(AnswerProblem::TooLong(*range.end())),
        _ => Ok(Some(Value::from(text))),
    }
}

/// Control characters do nothing in an answer but harm where it is shown later.
fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ").trim().to_owned()
}

/// A form sends line ends as CR LF.
fn lines(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    text.replace(|c: char| c.is_control() && c != '\n' && c != '\t', " ").trim().to_owned()
}

/// Whether a value is one that a form sends for a question that was left out.
fn is_empty(value: &Value) -> bool {
    let blank = |value: &Value| value.is_null() || value.as_str().is_some_and(|text| text.trim().is_empty());
    blank(value) || value.as_array().is_some_and(|list| list.iter().all(blank))
}
