//! One answer: from what a form or a program handed in to its canonical form.

use super::Wrong;
use crate::base::limits;
use crate::rules::document::quote;
use crate::rules::number;
use crate::rules::survey::{Choice, Kind, NPS, Question, day, label};
use serde_json::{Map, Value};
use std::fmt::Display;
use std::ops::RangeInclusive;

/// What was handed in for one question.
pub(super) struct Handed<'a> {
    question: &'a Question,
    value: Option<&'a Value>,
    words: Option<&'a Value>,
}

/// What is kept of it, and what is not.
#[derive(Default)]
pub(super) struct Read {
    pub kept: Vec<(String, Value)>,
    pub dropped: Vec<String>,
}

impl<'a> Handed<'a> {
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
    pub fn read(&self) -> Result<Read, Wrong> {
        match &self.question.kind {
            Kind::SingleChoice(choices) => self.chosen(choices, 0..=1).map(|read| self.single(read)),
            Kind::MultiChoice(choices, range) => self.chosen(choices, range.clone()),
            kind => {
                let value = self.value.map(|value| plain(kind, value)).transpose()?.flatten();
                let kept = value.map(|value| (self.question.id.clone(), value));
                Ok(Read { kept: kept.into_iter().collect(), dropped: Vec::new() })
            }
        }
    }

    /// A single choice is the one value, not a list of it.
    fn single(&self, mut read: Read) -> Read {
        for (id, value) in &mut read.kept {
            if let (true, Value::Array(values)) = (*id == self.question.id, &mut *value) {
                *value = values.pop().unwrap_or_default();
            }
        }
        read
    }

    fn chosen(&self, choices: &[Choice], range: RangeInclusive<usize>) -> Result<Read, Wrong> {
        let mut picked = vec![false; choices.len()];
        let mut words = None;
        let other = choices.iter().position(|choice| choice.other);
        for value in values(self.value, self.is_single())? {
            let name = label(value);
            match (choices.iter().position(|choice| choice.label() == name.trim()), other, value) {
                (Some(at), ..) => picked[at] = true,
                // Own words may stand where an option's value would, once.
                (None, Some(at), Value::String(_)) if words.is_none() => {
                    words = self.own_words(value)?;
                    picked[at] = true;
                }
                _ => return Err(not_an_option(&name, choices)),
            }
        }
        // Who wrote words, but forgot to tick the box in front of them, meant it.
        if let (Some(at), Some(_), false) = (other, self.words, picked.contains(&true)) {
            picked[at] = true;
        }
        self.kept(choices, &picked, words, range)
    }

    fn kept(
        &self,
        choices: &[Choice],
        picked: &[bool],
        words: Option<Value>,
        range: RangeInclusive<usize>,
    ) -> Result<Read, Wrong> {
        let count = picked.iter().filter(|picked| **picked).count();
        let mut read = Read::default();
        if count == 0 {
            return Ok(read);
        }
        if count < *range.start() {
            return Err(Wrong::TooFew(*range.start()));
        }
        if count > *range.end() {
            return Err(Wrong::TooMany(*range.end()));
        }
        let chosen = || choices.iter().zip(picked).filter(|(_, picked)| **picked).map(|(choice, _)| choice);
        let list = chosen().map(|choice| choice.value.clone()).collect();
        read.kept.push((self.question.id.clone(), Value::Array(list)));
        if words.is_some() || !chosen().any(|choice| choice.other) {
            read.dropped.extend(self.words.map(|_| self.question.other_id()));
        }
        let words = match (words, self.words) {
            (None, Some(written)) if chosen().any(|choice| choice.other) => self.own_words(written)?,
            (words, _) => words,
        };
        read.kept.extend(words.map(|words| (self.question.other_id(), words)));
        Ok(read)
    }

    fn own_words(&self, value: &Value) -> Result<Option<Value>, Wrong> {
        text(value, &(0..=limits::SHORT_ANSWER_CHARS_MAX), one_line)
    }

    const fn is_single(&self) -> bool {
        matches!(self.question.kind, Kind::SingleChoice(_))
    }
}

/// The values that were chosen: a list, or one alone.
fn values(value: Option<&Value>, single: bool) -> Result<Vec<&Value>, Wrong> {
    let wanted = if single { "one of the options" } else { "a list of options" };
    let list = match value {
        None => return Ok(Vec::new()),
        Some(Value::Array(_)) if single => return Err(Wrong::Type { wanted }),
        Some(Value::Array(list)) => list.iter().filter(|value| !is_empty(value)).collect(),
        Some(one) => vec![one],
    };
    let scalar = |value: &&Value| value.is_string() || value.is_number();
    if list.iter().all(scalar) { Ok(list) } else { Err(Wrong::Type { wanted }) }
}

fn not_an_option(given: &str, choices: &[Choice]) -> Wrong {
    Wrong::NotAnOption { given: quote(given), options: choices.iter().map(Choice::label).collect() }
}

/// An answer that is no choice. None if nothing is left of it.
fn plain(kind: &Kind, value: &Value) -> Result<Option<Value>, Wrong> {
    match kind {
        Kind::Rating(range) => step(value, range).map(Some),
        Kind::Nps => step(value, &NPS).map(Some),
        Kind::YesNo => yes_or_no(value).map(Some),
        Kind::ShortText(range) => text(value, range, one_line),
        Kind::LongText(range) => text(value, range, lines),
        Kind::Number(range) => decimal(value, range).map(Some),
        Kind::Date(range) => date(value, range).map(Some),
        Kind::SingleChoice(_) | Kind::MultiChoice(..) => Ok(None),
    }
}

fn step(value: &Value, range: &RangeInclusive<i64>) -> Result<Value, Wrong> {
    let step = number::whole(value).ok_or(Wrong::Type { wanted: "a whole number" })?;
    within(&step, range)?;
    Ok(Value::from(step))
}

fn decimal(value: &Value, range: &RangeInclusive<f64>) -> Result<Value, Wrong> {
    let wrong = Wrong::Type { wanted: "a number, such as 12 or 2.5" };
    let Some(number) = number::read(value) else { return Err(wrong) };
    let size = number.as_f64().filter(|size| size.is_finite()).ok_or(wrong)?;
    within(&size, range)?;
    Ok(Value::Number(number))
}

fn date(value: &Value, range: &RangeInclusive<jiff::civil::Date>) -> Result<Value, Wrong> {
    let wrong = Wrong::Type { wanted: "a date, such as 2026-05-14" };
    let date = value.as_str().and_then(|text| day(text.trim())).ok_or(wrong)?;
    within(&date, range)?;
    Ok(Value::from(date.to_string()))
}

fn within<T: PartialOrd + Display>(value: &T, range: &RangeInclusive<T>) -> Result<(), Wrong> {
    if value < range.start() {
        return Err(Wrong::TooSmall(range.start().to_string()));
    }
    if value > range.end() {
        return Err(Wrong::TooLarge(range.end().to_string()));
    }
    Ok(())
}

fn yes_or_no(value: &Value) -> Result<Value, Wrong> {
    match value {
        Value::Bool(yes) => Ok(Value::from(if *yes { "Yes" } else { "No" })),
        Value::String(word) if word == "Yes" || word == "No" => Ok(value.clone()),
        _ => Err(Wrong::Type { wanted: "`Yes` or `No`" }),
    }
}

fn text(
    value: &Value,
    range: &RangeInclusive<usize>,
    clean: fn(&str) -> String,
) -> Result<Option<Value>, Wrong> {
    let text = clean(value.as_str().ok_or(Wrong::Type { wanted: "a text" })?);
    match text.chars().count() {
        0 => Ok(None),
        chars if chars < *range.start() => Err(Wrong::TooShort(*range.start())),
        chars if chars > *range.end() => Err(Wrong::TooLong(*range.end())),
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

/// What a form sends for a question that somebody left out.
fn is_empty(value: &Value) -> bool {
    let blank = |value: &Value| value.is_null() || value.as_str().is_some_and(|text| text.trim().is_empty());
    blank(value) || value.as_array().is_some_and(|list| list.iter().all(blank))
}
