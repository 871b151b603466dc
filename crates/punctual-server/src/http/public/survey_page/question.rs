//! One question as markup: its text, its help, its problem, and its fields.
//!
//! Choices are a fieldset with a legend, one field has a label. All notes on a question are tied to it,
//! and every field can be reached and used with a keyboard alone.

use super::layout::PageLanguage;
use super::texts::filled;
use maud::{Markup, html};
use punctual::base::limits::{LONG_ANSWER_CHARS_MAX, SHORT_ANSWER_CHARS_MAX};
use punctual::survey::rules::answers::AnswerProblem;
use punctual::survey::rules::survey::{Choice, NPS, Question, QuestionKind, label};
use serde_json::{Map, Value};
use std::ops::RangeInclusive;

/// A scale from 1 with this many steps at most is shown as stars.
const STARS_MAX: i64 = 5;
/// The outline of a star in a square of 24 units.
const STAR_PATH: &str = "M12 2.6l2.9 5.9 6.5.9-4.7 4.6 1.1 6.5-5.8-3.1-5.8 3.1 1.1-6.5-4.7-4.6 6.5-.9z";
/// The days that bound nothing.
const FIRST_DAY: &str = "0000-01-01";
const LAST_DAY: &str = "9999-12-31";

/// A question on a page.
#[derive(Clone, Copy, Debug)]
pub struct QuestionView<'a> {
    /// The question.
    pub question: &'a Question,
    /// The language of the page.
    pub language: PageLanguage<'a>,
    /// All answers so far.
    pub answers: &'a Map<String, Value>,
    /// The problem with its answer.
    pub wrong: Option<&'a AnswerProblem>,
}

impl QuestionView<'_> {
    /// Renders the question.
    pub fn render(&self) -> Markup {
        match &self.question.kind {
            QuestionKind::ShortText(_)
            | QuestionKind::LongText(_)
            | QuestionKind::Number(_)
            | QuestionKind::Date(_) => self.field(),
            _ => self.group(),
        }
    }

    /// Renders a question with one field.
    fn field(&self) -> Markup {
        html! {
            div class="question" {
                label class="asked" for={ "f-" (self.question.id) } { (self.text()) }
                (self.notes())
                @match &self.question.kind {
                    QuestionKind::LongText(_) => (self.text_area()),
                    kind => (self.input(&FieldType::of(kind))),
                }
            }
        }
    }

    fn text_area(&self) -> Markup {
        let id = &self.question.id;
        html! {
            textarea rows="5" dir="auto" id={ "f-" (id) } name=(id) required[self.question.required]
                aria-invalid=[self.invalid()] aria-describedby=[self.described_by()] {
                // A browser drops the first line end of a text area.
                "\n" (self.value())
            }
        }
    }

    fn input(&self, field: &FieldType) -> Markup {
        let id = &self.question.id;
        html! {
            input autocomplete="off" type=(field.name) inputmode=[field.inputmode] dir=[field.dir]
                min=[&field.min] max=[&field.max] id={ "f-" (id) } name=(id)
                required[self.question.required] aria-invalid=[self.invalid()]
                aria-describedby=[self.described_by()] value=(self.value());
        }
    }

    fn invalid(&self) -> Option<&'static str> {
        self.wrong.map(|_| "true")
    }

    /// Renders a question with several fields to choose from.
    fn group(&self) -> Markup {
        let one = !matches!(self.question.kind, QuestionKind::MultiChoice(..));
        html! {
            fieldset class="question" role=[one.then_some("radiogroup")]
                aria-required=[(one && self.question.required).then_some("true")]
                aria-invalid=[self.invalid().filter(|_| one)] aria-describedby=[self.described_by()] {
                legend class="asked" { (self.text()) }
                (self.notes())
                @match &self.question.kind {
                    QuestionKind::Rating(range) if *range.start() == 1 && *range.end() <= STARS_MAX => {
                        (self.stars(range))
                    }
                    QuestionKind::Rating(range) => (self.scale(range)),
                    QuestionKind::Nps => (self.scale(&NPS)),
                    QuestionKind::YesNo => (self.yes_no()),
                    kind => (self.choices(kind.choices(), if one { "radio" } else { "checkbox" })),
                }
            }
        }
    }

    fn text(&self) -> Markup {
        html! {
            (self.language.survey_text(&self.question.text))
            @if self.question.required {
                " " span class="tag" { (self.language.own_text(self.language.texts.required)) }
            }
        }
    }

    fn has_bounds(&self) -> bool {
        bounds(&self.question.kind) != (None, None) || self.question.kind == QuestionKind::Nps
    }

    /// Renders the help, the bounds and the problem, each with an id.
    fn notes(&self) -> Markup {
        let (id, texts) = (&self.question.id, self.language.texts);
        html! {
            @if let Some(help) = &self.question.help {
                p class="help" id={ "h-" (id) } { (self.language.survey_text(help)) }
            }
            @if self.question.kind == QuestionKind::Nps {
                (self.nps_ends())
            } @else if self.has_bounds() {
                p class="help" id={ "b-" (id) } { (self.bounds()) }
            }
            @if let Some(wrong) = self.wrong {
                p class="wrong" id={ "e-" (id) } { (texts.problem(wrong, self.question)) }
            }
        }
    }

    fn bounds(&self) -> Markup {
        let (least, greatest) = bounds(&self.question.kind);
        let (below, above) = self.language.texts.bounds.ends(&self.question.kind);
        html! {
            @if let Some(least) = &least { (filled(below, least)) }
            @if least.is_some() && greatest.is_some() { " " }
            @if let Some(greatest) = &greatest { (filled(above, greatest)) }
        }
    }

    fn nps_ends(&self) -> Markup {
        let [least, most] = self.language.texts.nps_ends;
        html! {
            p class="ends" id={ "b-" (self.question.id) } {
                span { "0 – " (self.language.own_text(least)) }
                " "
                span { "10 – " (self.language.own_text(most)) }
            }
        }
    }

    /// The ids of the notes on this question.
    fn described_by(&self) -> Option<String> {
        let notes =
            [(self.question.help.is_some(), "h-"), (self.has_bounds(), "b-"), (self.wrong.is_some(), "e-")];
        let there = notes.into_iter().filter(|(is_there, _)| *is_there);
        let ids: Vec<String> = there.map(|(_, prefix)| format!("{prefix}{}", self.question.id)).collect();
        (!ids.is_empty()).then(|| ids.join(" "))
    }

    fn stars(&self, range: &RangeInclusive<i64>) -> Markup {
        html! {
            div class="stars" {
                @for step in range.clone() {
                    label {
                        (self.button("radio", step == *range.start(), &step.to_string()))
                        span class="star" { (star()) (self.step(step, *range.end())) }
                    }
                }
            }
        }
    }

    fn scale(&self, range: &RangeInclusive<i64>) -> Markup {
        // In two even rows on a narrow screen.
        let class = match range.end() - range.start() + 1 {
            ..=4 | 7..=8 => "scale by-4",
            5 | 9..=10 => "scale by-5",
            _ => "scale",
        };
        html! {
            div class=(class) {
                @for step in range.clone() {
                    label {
                        (self.button("radio", step == *range.start(), &step.to_string()))
                        span class="tile" { (self.step(step, *range.end())) }
                    }
                }
            }
        }
    }

    /// Renders "4 of 5", of which only the 4 is visible.
    fn step(&self, step: i64, last: i64) -> Markup {
        let of = self.language.own_text(self.language.texts.of);
        html! { span { (step) span class="unseen" { (of) (last) } } }
    }

    fn yes_no(&self) -> Markup {
        let pairs = ["Yes", "No"].into_iter().zip(self.language.texts.yes_no);
        html! {
            div class="pair" {
                @for (n, (value, text)) in pairs.enumerate() {
                    label {
                        (self.button("radio", n == 0, value))
                        span class="tile" { (self.language.own_text(text)) }
                    }
                }
            }
        }
    }

    fn choices(&self, choices: &[Choice], field: &str) -> Markup {
        html! {
            div class="choices" {
                @for (n, choice) in choices.iter().enumerate() {
                    label class="choice" {
                        (self.button(field, n == 0, &choice.label()))
                        span { (self.language.survey_text(&choice.text)) }
                    }
                    @if choice.other { (self.own_words(choice)) }
                }
            }
        }
    }

    /// Renders the field beside an option that takes a text.
    fn own_words(&self, choice: &Choice) -> Markup {
        let id = self.question.other_id();
        let given = self.answers.get(&id).map(label).unwrap_or_default();
        let name = self.language.plain_survey_text(&choice.text);
        html! {
            div class="own" {
                input type="text" autocomplete="off" dir="auto" placeholder=" " id={ "f-" (id) } name=(id)
                    aria-label={ (name) ": " (self.language.texts.own_words) } value=(given);
            }
        }
    }

    /// Renders a radio button or check box. The first has the id that the list of problems links to.
    fn button(&self, field: &str, first: bool, value: &str) -> Markup {
        let id = &self.question.id;
        html! {
            input type=(field) name=(id) id=[first.then(|| format!("f-{id}"))] checked[self.is_chosen(value)]
                aria-invalid=[self.invalid().filter(|_| field == "checkbox")] value=(value);
        }
    }

    /// Whether an option is part of the answer, in any form in which that was handed in.
    fn is_chosen(&self, value: &str) -> bool {
        match self.answers.get(&self.question.id) {
            None => false,
            Some(Value::Array(list)) => list.iter().any(|one| label(one).trim() == value),
            Some(Value::Bool(yes)) => (if *yes { "Yes" } else { "No" }) == value,
            Some(one) => label(one).trim() == value,
        }
    }

    /// The answer as the text of a field.
    fn value(&self) -> String {
        let shown = |value: &Value| match value {
            Value::Array(_) | Value::Object(_) | Value::Null => String::new(),
            value => label(value),
        };
        self.answers.get(&self.question.id).map(shown).unwrap_or_default()
    }
}

fn star() -> Markup {
    html! { svg viewBox="0 0 24 24" aria-hidden="true" focusable="false" { path d=(STAR_PATH) {} } }
}

/// The type of a single field, which also selects the keyboard of a phone.
#[derive(Default)]
struct FieldType {
    name: &'static str,
    inputmode: Option<&'static str>,
    dir: Option<&'static str>,
    min: Option<String>,
    max: Option<String>,
}

impl FieldType {
    fn of(kind: &QuestionKind) -> Self {
        match kind {
            // Not type=number, which drops the Arabic digits and commas that people type.
            QuestionKind::Number(_) => Self { name: "text", inputmode: Some("decimal"), ..Self::default() },
            QuestionKind::Date(_) => {
                let (min, max) = bounds(kind);
                Self { name: "date", min, max, ..Self::default() }
            }
            _ => Self { name: "text", dir: Some("auto"), ..Self::default() },
        }
    }
}

/// Returns the bounds that a reader should know before answering.
fn bounds(kind: &QuestionKind) -> (Option<String>, Option<String>) {
    let lengths = |range: &RangeInclusive<usize>, most: usize| {
        let least = Some(*range.start()).filter(|least| *least > 1);
        let greatest = Some(*range.end()).filter(|greatest| *greatest < most);
        (least.map(|n| n.to_string()), greatest.map(|n| n.to_string()))
    };
    match kind {
        QuestionKind::MultiChoice(choices, range) => lengths(range, choices.len()),
        QuestionKind::ShortText(range) => lengths(range, SHORT_ANSWER_CHARS_MAX),
        QuestionKind::LongText(range) => lengths(range, LONG_ANSWER_CHARS_MAX),
        QuestionKind::Number(range) => {
            let told = |n: f64| (n.abs() < f64::MAX).then(|| n.to_string());
            (told(*range.start()), told(*range.end()))
        }
        QuestionKind::Date(range) => {
            let (first, last) = (range.start().to_string(), range.end().to_string());
            (Some(first).filter(|day| day != FIRST_DAY), Some(last).filter(|day| day != LAST_DAY))
        }
        _ => (None, None),
    }
}
