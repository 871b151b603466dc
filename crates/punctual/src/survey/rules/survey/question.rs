//! Questions: their kinds, and the bounds of an answer.
//!
//! `min` and `max` bound the quantity of the type: the steps of a rating, the choices of a multiple choice,
//! the characters of a text, the value of a number, the days of a date. Where they mean nothing they are
//! refused, and so are options.

use crate::base::condition::Condition;
use crate::base::document::{DocumentObject, kind, quote};
use crate::base::limits;
use crate::base::locale::LocalizedText;
use crate::base::name::check_name;
use crate::base::suggestion::hint;
use crate::base::{canonical, number};
use crate::survey::rules::survey::reading::{SurveyReader, comparisons, meant, question_of};
use jiff::civil::Date;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::ops::RangeInclusive;

const FIELDS: [&str; 9] = ["id", "type", "text", "help", "required", "options", "min", "max", "showIf"];

/// One question.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// The name in answers and conditions.
    pub id: String,
    /// The kind of answer.
    pub kind: QuestionKind,
    /// The question itself.
    pub text: LocalizedText,
    /// A word of help below it.
    pub help: Option<LocalizedText>,
    /// Whether an answer is required when the question is asked.
    pub required: bool,
    /// The question is asked if this condition holds over the answers before it.
    pub show_if: Option<Condition>,
}

/// One option of a choice.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The value in an answer: a text or a number.
    pub value: Value,
    /// The text that a reader sees.
    pub text: LocalizedText,
    /// Whether words of one's own may stand beside it. At most one option of a question.
    pub other: bool,
}

impl Choice {
    /// Its value as text, which no two options of a question share.
    #[must_use]
    pub fn label(&self) -> String {
        label(&self.value)
    }
}

/// Returns the text of a value, by which options are distinguished: a form sends `1` as text.
#[must_use]
pub fn label(value: &Value) -> String {
    let mut text = String::new();
    match value {
        Value::String(word) => text.push_str(word),
        other => canonical::write(other, &mut text),
    }
    text
}

/// The kind of answer to a question, with its bounds.
#[derive(Clone, Debug, PartialEq)]
pub enum QuestionKind {
    /// One of the options.
    SingleChoice(Vec<Choice>),
    /// Some of the options, as many as the range says.
    MultiChoice(Vec<Choice>, RangeInclusive<usize>),
    /// A step of a scale, such as stars.
    Rating(RangeInclusive<i64>),
    /// How likely the respondent is to recommend this, 0 to 10.
    Nps,
    /// `Yes` or `No`.
    YesNo,
    /// One line of text, with its length in characters.
    ShortText(RangeInclusive<usize>),
    /// Several lines of text, with their length in characters.
    LongText(RangeInclusive<usize>),
    /// A number.
    Number(RangeInclusive<f64>),
    /// A day of the calendar.
    Date(RangeInclusive<Date>),
}

impl QuestionKind {
    /// The words for the kinds.
    pub const WORDS: [&'static str; 9] =
        ["singleChoice", "multiChoice", "rating", "nps", "yesNo", "shortText", "longText", "number", "date"];

    /// The word for it.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::SingleChoice(_) => "singleChoice",
            Self::MultiChoice(..) => "multiChoice",
            Self::Rating(_) => "rating",
            Self::Nps => "nps",
            Self::YesNo => "yesNo",
            Self::ShortText(_) => "shortText",
            Self::LongText(_) => "longText",
            Self::Number(_) => "number",
            Self::Date(_) => "date",
        }
    }

    /// Whether the answer is free text.
    #[must_use]
    pub const fn is_free_text(&self) -> bool {
        matches!(self, Self::ShortText(_) | Self::LongText(_))
    }

    /// The options, if it has any.
    #[must_use]
    pub fn choices(&self) -> &[Choice] {
        match self {
            Self::SingleChoice(choices) | Self::MultiChoice(choices, _) => choices,
            _ => &[],
        }
    }
}

/// The range of an NPS answer.
pub const NPS: RangeInclusive<i64> = 0..=10;
const RATING_DEFAULT: RangeInclusive<i64> = 1..=5;

/// The days a calendar with four digits for a year has.
fn calendar() -> RangeInclusive<Date> {
    Date::ZERO..=Date::MAX
}

/// A day as `YYYY-MM-DD`, and nothing else.
#[must_use]
pub fn day(text: &str) -> Option<Date> {
    let shape = text.len() == 10
        && text.bytes().enumerate().all(|(at, b)| match at {
            4 | 7 => b == b'-',
            _ => b.is_ascii_digit(),
        });
    if shape { text.parse().ok() } else { None }
}

impl Question {
    /// Reads one question; `ids` are those of the questions before it, and of itself and those
    /// behind.
    pub(crate) fn read(
        value: &Value,
        path: &str,
        ids: (&[&str], &[&str]),
        to: &mut SurveyReader<'_>,
    ) -> Option<Self> {
        let part = DocumentObject::read(value, path, &FIELDS, to.problems)?;
        let id = part.need_text("id", "a name for answers and conditions, such as \"rate\"", to.problems);
        if let Some(id) = id {
            check_id(id, &part.at("id"), to);
        }
        let text = part.need("text", "the question, for each locale", to.problems);
        let text = text.map(|value| to.texts(value, &part.at("text")));
        let help = part.get("help").map(|value| to.texts(value, &part.at("help")));
        let required = part.flag("required", false, to.problems);
        let show_if = part.get("showIf").and_then(|value| show_if(value, &part.at("showIf"), ids, to));
        let kind = read_kind(&part, to)?;
        Some(Self { id: id?.to_owned(), kind, text: text?, help, required, show_if })
    }

    /// Its option for words of one's own.
    #[must_use]
    pub fn other(&self) -> Option<&Choice> {
        self.kind.choices().iter().find(|choice| choice.other)
    }

    /// Returns the name of the words of one's own in answers and conditions.
    #[must_use]
    pub fn other_id(&self) -> String {
        format!("{}.other", self.id)
    }
}

fn check_id(id: &str, path: &str, to: &mut SurveyReader<'_>) {
    check_name(id, path, to.problems);
    let most = limits::QUESTION_ID_CHARS_MAX;
    if (most + 1..=limits::NAME_CHARS_MAX).contains(&id.chars().count()) {
        to.problems.push(path, format!("has more than {most} characters"));
    }
    if !id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_') {
        let said = "may have letters from a to z, digits, `-` and `_`, such as `has-a-complaint`";
        to.problems.push(path, format!("`{}` {said}", quote(id)));
    }
}

/// Navigation only looks back: a question rests on answers that are there when it is asked.
fn show_if(
    value: &Value,
    path: &str,
    (before, rest): (&[&str], &[&str]),
    to: &mut SurveyReader<'_>,
) -> Option<Condition> {
    let condition = Condition::read(value, path, to.problems)?;
    for (fact, at, compared) in comparisons(value, path.to_owned()) {
        to.check_yes_no(fact, compared, &at);
        let id = question_of(fact);
        if before.contains(&id) {
            continue;
        }
        let shown = quote(id);
        let said = match rest.iter().position(|later| *later == id) {
            Some(0) => format!("`{shown}` is this question itself; name one before it"),
            Some(_) => format!("`{shown}` is asked later; name a question before this one"),
            None => {
                let meant = meant(id, before.iter().copied(), "");
                format!("`{shown}` is not a question of this survey{meant}")
            }
        };
        to.problems.push(at, said);
    }
    Some(condition)
}

fn read_kind(part: &DocumentObject<'_>, to: &mut SurveyReader<'_>) -> Option<QuestionKind> {
    let known = QuestionKind::WORDS.join(", ");
    let word = part.need_text("type", &format!("one of {known}"), to.problems)?;
    if !QuestionKind::WORDS.contains(&word) {
        let hint = hint(word, &QuestionKind::WORDS);
        to.problems.push(part.at("type"), format!("`{}` is not a type of question{hint}", quote(word)));
        return None;
    }
    let choices = read_choices(part, word, to);
    Some(match word {
        "singleChoice" => {
            no_bounds(part, word, to);
            QuestionKind::SingleChoice(choices)
        }
        "multiChoice" => {
            // Without options there is a problem already, and no number to compare with.
            let most = if choices.is_empty() { limits::OPTIONS_MAX } else { choices.len() };
            let bounds = lengths(part, most, "choices", to);
            QuestionKind::MultiChoice(choices, bounds)
        }
        "rating" => QuestionKind::Rating(rating(part, to)),
        "nps" => {
            nps(part, to);
            QuestionKind::Nps
        }
        "yesNo" => {
            no_bounds(part, word, to);
            QuestionKind::YesNo
        }
        "shortText" => {
            QuestionKind::ShortText(lengths(part, limits::SHORT_ANSWER_CHARS_MAX, "characters", to))
        }
        "longText" => QuestionKind::LongText(lengths(part, limits::LONG_ANSWER_CHARS_MAX, "characters", to)),
        "number" => {
            let what = "a number";
            QuestionKind::Number(bounds(part, f64::MIN..=f64::MAX, what, Value::as_f64, to))
        }
        _ => {
            let what = "a date such as \"2026-05-14\"";
            QuestionKind::Date(bounds(part, calendar(), what, |value| value.as_str().and_then(day), to))
        }
    })
}

fn no_bounds(part: &DocumentObject<'_>, word: &str, to: &mut SurveyReader<'_>) {
    for end in ["min", "max"].into_iter().filter(|end| part.get(end).is_some()) {
        to.problems.push(part.at(end), format!("makes no sense for a question of type {word}: leave it out"));
    }
}

fn nps(part: &DocumentObject<'_>, to: &mut SurveyReader<'_>) {
    for (end, value) in [("min", NPS.start()), ("max", NPS.end())] {
        if part.get(end).is_some_and(|given| number::whole(given) != Some(*value)) {
            let said = format!("is always {value} for nps: leave it out, or use type rating");
            to.problems.push(part.at(end), said);
        }
    }
}

fn rating(part: &DocumentObject<'_>, to: &mut SurveyReader<'_>) -> RangeInclusive<i64> {
    let most = limits::RATING_MAX;
    let what = format!("a whole number from 0 to {most}");
    let whole = |value: &Value| value.as_number().and_then(|_| number::whole(value));
    let asked = bounds(part, 0..=most, &what, whole, to);
    let start = part.get("min").map_or(*RATING_DEFAULT.start(), |_| *asked.start());
    let end = part.get("max").map_or(*RATING_DEFAULT.end(), |_| *asked.end());
    if start == end {
        to.problems.push(part.at("max"), "must be greater than min: a rating needs two steps or more");
    } else if start > end && asked.start() <= asked.end() {
        let said = format!("the steps go from {start} to {end}, which leaves none: give min and max");
        to.problems.push(part.at("min"), said);
    }
    start..=end
}

fn lengths(
    part: &DocumentObject<'_>,
    most: usize,
    what: &str,
    to: &mut SurveyReader<'_>,
) -> RangeInclusive<usize> {
    let what = format!("a whole number of {what} from 0 to {most}");
    let whole = |value: &Value| value.as_number().and_then(|_| number::whole(value));
    let range = bounds(part, 0..=most, &what, |value| usize::try_from(whole(value)?).ok(), to);
    if part.get("max").is_some() && *range.end() == 0 {
        to.problems.push(part.at("max"), "must be 1 or more: with 0 there is no answer");
    }
    range
}

/// Reads `min` and `max`, within `widest`.
fn bounds<T: PartialOrd + Display + Clone>(
    part: &DocumentObject<'_>,
    widest: RangeInclusive<T>,
    what: &str,
    read: impl Fn(&Value) -> Option<T>,
    to: &mut SurveyReader<'_>,
) -> RangeInclusive<T> {
    let mut end = |name: &str, default: &T| {
        let Some(value) = part.get(name) else { return default.clone() };
        let found = read(value).filter(|found| widest.contains(found));
        found.unwrap_or_else(|| {
            let given =
                if value.is_object() || value.is_array() { kind(value).into() } else { quote(&label(value)) };
            to.problems.push(part.at(name), format!("must be {what}, not {given}"));
            default.clone()
        })
    };
    let (min, max) = (end("min", widest.start()), end("max", widest.end()));
    if min > max {
        to.problems.push(part.at("min"), format!("is greater than max: {min} is more than {max}"));
    }
    min..=max
}

fn read_choices(part: &DocumentObject<'_>, word: &str, to: &mut SurveyReader<'_>) -> Vec<Choice> {
    if !matches!(word, "singleChoice" | "multiChoice") {
        if part.get("options").is_some() {
            let said =
                format!("make no sense for a question of type {word}: leave them out, or use singleChoice");
            to.problems.push(part.at("options"), said);
        }
        return Vec::new();
    }
    let why = "what there is to choose from, each {\"value\", \"text\"}";
    let list = part.need_list("options", limits::OPTIONS_MAX, why, to.problems);
    if part.is_empty_list("options") {
        to.problems.push(part.at("options"), "is empty: there is nothing to choose from");
    }
    let (mut choices, mut seen) = (Vec::<Choice>::new(), BTreeSet::new());
    for (value, path) in list.iter() {
        let Some(choice) = read_choice(value, path, to) else { continue };
        to.unique(&choice.label(), &format!("{path}.value"), "value", &mut seen);
        if choice.other && choices.iter().any(|earlier| earlier.other) {
            to.problems
                .push(format!("{path}.other"), "is true for an earlier option: only one can take own words");
        }
        choices.push(choice);
    }
    choices
}

fn read_choice(value: &Value, path: &str, to: &mut SurveyReader<'_>) -> Option<Choice> {
    let part = DocumentObject::read(value, path, &["value", "text", "other"], to.problems)?;
    let value = part.need("value", "what an answer says, such as \"good\"", to.problems);
    let value = value.and_then(|value| match value {
        Value::String(text) => {
            check_name(text, &part.at("value"), to.problems);
            Some(value.clone())
        }
        Value::Number(number) => Some(Value::Number(number::canonical(number))),
        _ => {
            to.problems.push(part.at("value"), format!("must be a string or a number, not {}", kind(value)));
            None
        }
    });
    let text = part.need("text", "what a reader sees, for each locale", to.problems);
    let text = text.map(|value| to.texts(value, &part.at("text")));
    let other = part.flag("other", false, to.problems);
    Some(Choice { value: value?, text: text?, other })
}
