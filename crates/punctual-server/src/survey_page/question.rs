//! One question as markup: its text, what helps, what is wrong, and its fields.
//!
//! Choices are a fieldset with a legend, one field has a label. Everything said about a question
//! is tied to it, and every field can be reached and used with a keyboard alone.

use super::frame::PageLanguage;
use super::markup::Markup;
use punctual::base::limits::{LONG_ANSWER_CHARS_MAX, SHORT_ANSWER_CHARS_MAX};
use punctual::survey::rules::answers::AnswerProblem;
use punctual::survey::rules::survey::{Choice, NPS, Question, QuestionKind, label};
use serde_json::{Map, Value};
use std::ops::RangeInclusive;

/// A scale from 1 with this many steps at most is shown as stars.
const STARS_MAX: i64 = 5;
const STAR: &str = "<svg viewBox=\"0 0 24 24\" aria-hidden=\"true\" focusable=\"false\">\
    <path d=\"M12 2.6l2.9 5.9 6.5.9-4.7 4.6 1.1 6.5-5.8-3.1-5.8 3.1 1.1-6.5-4.7-4.6 6.5-.9z\"/></svg>";
/// The days that bound nothing.
const FIRST_DAY: &str = "0000-01-01";
const LAST_DAY: &str = "9999-12-31";

/// A question that is being asked.
#[derive(Clone, Copy, Debug)]
pub struct AskedQuestion<'a> {
    /// The question.
    pub question: &'a Question,
    /// In which language.
    pub voice: PageLanguage<'a>,
    /// All answers so far.
    pub answers: &'a Map<String, Value>,
    /// What is wrong with its answer.
    pub wrong: Option<&'a AnswerProblem>,
}

/// Notes about a question that its fields refer to.
struct FieldNotes {
    help: bool,
    bounds: bool,
    wrong: bool,
}

impl AskedQuestion<'_> {
    /// Writes it.
    pub fn write(&self, out: &mut Markup) {
        match &self.question.kind {
            QuestionKind::ShortText(_)
            | QuestionKind::LongText(_)
            | QuestionKind::Number(_)
            | QuestionKind::Date(_) => self.field(out),
            _ => self.group(out),
        }
    }

    /// A question with one field.
    fn field(&self, out: &mut Markup) {
        out.raw("<div class=\"question\">\n<label class=\"asked\" for=\"f-")
            .text(&self.question.id)
            .raw("\">");
        self.text(out);
        out.raw("</label>\n");
        let notes = self.notes(out);
        match &self.question.kind {
            QuestionKind::LongText(_) => {
                out.raw("<textarea rows=\"5\" dir=\"auto\"");
                self.named(&notes, out);
                // The line end after the tag is not part of the text.
                out.raw(">\n").text(&self.value()).raw("</textarea>\n");
            }
            kind => {
                out.raw("<input autocomplete=\"off\"");
                field_type(kind, out);
                self.named(&notes, out);
                out.raw(" value=\"").text(&self.value()).raw("\">\n");
            }
        }
        out.raw("</div>\n");
    }

    /// The name of a single field, and what is said about it.
    fn named(&self, notes: &FieldNotes, out: &mut Markup) {
        out.raw(" id=\"f-").text(&self.question.id).raw("\" name=\"").text(&self.question.id).raw("\"");
        out.raw_if(self.question.required, " required");
        out.raw_if(notes.wrong, " aria-invalid=\"true\"");
        self.described(notes, out);
    }

    /// A question with several fields to choose from.
    fn group(&self, out: &mut Markup) {
        let many = matches!(self.question.kind, QuestionKind::MultiChoice(..));
        out.raw("<fieldset class=\"question\"");
        if !many {
            out.raw(" role=\"radiogroup\"").raw_if(self.question.required, " aria-required=\"true\"");
            out.raw_if(self.wrong.is_some(), " aria-invalid=\"true\"");
        }
        // The notes are written below the legend, but the group has to name them before.
        self.described(&self.have(), out);
        out.raw(">\n<legend class=\"asked\">");
        self.text(out);
        out.raw("</legend>\n");
        self.notes(out);
        match &self.question.kind {
            QuestionKind::Rating(range) if *range.start() == 1 && *range.end() <= STARS_MAX => {
                self.stars(range, out)
            }
            QuestionKind::Rating(range) => self.scale(range, out),
            QuestionKind::Nps => self.scale(&NPS, out),
            QuestionKind::YesNo => self.yes_no(out),
            kind => self.choices(kind.choices(), many, out),
        }
        out.raw("</fieldset>\n");
    }

    fn text(&self, out: &mut Markup) {
        self.voice.text(&self.question.text, out);
        if self.question.required {
            out.raw(" <span class=\"tag\">");
            self.voice.say(self.voice.words.required, out);
            out.raw("</span>");
        }
    }

    fn have(&self) -> FieldNotes {
        FieldNotes {
            help: self.question.help.is_some(),
            bounds: bounds(&self.question.kind) != (None, None) || self.question.kind == QuestionKind::Nps,
            wrong: self.wrong.is_some(),
        }
    }

    /// Writes what helps and what is wrong, each with an id.
    fn notes(&self, out: &mut Markup) -> FieldNotes {
        let (id, notes) = (&self.question.id, self.have());
        if let Some(help) = &self.question.help {
            out.raw("<p class=\"help\" id=\"h-").text(id).raw("\">");
            self.voice.text(help, out);
            out.raw("</p>\n");
        }
        if self.question.kind == QuestionKind::Nps {
            self.nps_ends(out);
        } else if notes.bounds {
            out.raw("<p class=\"help\" id=\"b-").text(id).raw("\">");
            self.bounds(out);
            out.raw("</p>\n");
        }
        if let Some(wrong) = self.wrong {
            out.raw("<p class=\"wrong\" id=\"e-").text(id).raw("\">");
            self.voice.words.say(wrong, self.question, out);
            out.raw("</p>\n");
        }
        notes
    }

    fn bounds(&self, out: &mut Markup) {
        let (least, greatest) = bounds(&self.question.kind);
        let (below, above) = self.voice.words.bounds.ends(&self.question.kind);
        if let Some(least) = &least {
            out.fill(below, least);
        }
        out.raw_if(least.is_some() && greatest.is_some(), " ");
        if let Some(greatest) = &greatest {
            out.fill(above, greatest);
        }
    }

    fn nps_ends(&self, out: &mut Markup) {
        let [least, most] = self.voice.words.nps_ends;
        out.raw("<p class=\"ends\" id=\"b-").text(&self.question.id).raw("\"><span>0 – ");
        self.voice.say(least, out);
        out.raw("</span> <span>10 – ");
        self.voice.say(most, out);
        out.raw("</span></p>\n");
    }

    fn described(&self, notes: &FieldNotes, out: &mut Markup) {
        let mut said = false;
        for (there, before) in [(notes.help, "h-"), (notes.bounds, "b-"), (notes.wrong, "e-")] {
            if there {
                out.raw(if said { " " } else { " aria-describedby=\"" }).raw(before).text(&self.question.id);
                said = true;
            }
        }
        out.raw_if(said, "\"");
    }

    fn stars(&self, range: &RangeInclusive<i64>, out: &mut Markup) {
        out.raw("<div class=\"stars\">\n");
        for step in range.clone() {
            out.raw("<label>");
            self.button("radio", step == *range.start(), &step.to_string(), out);
            out.raw("<span class=\"star\">").raw(STAR);
            self.step(step, *range.end(), out);
            out.raw("</span></label>\n");
        }
        out.raw("</div>\n");
    }

    fn scale(&self, range: &RangeInclusive<i64>, out: &mut Markup) {
        // In two even rows where it is narrow.
        out.raw(match range.end() - range.start() + 1 {
            ..=4 | 7..=8 => "<div class=\"scale by-4\">\n",
            5 | 9..=10 => "<div class=\"scale by-5\">\n",
            _ => "<div class=\"scale\">\n",
        });
        for step in range.clone() {
            out.raw("<label>");
            self.button("radio", step == *range.start(), &step.to_string(), out);
            out.raw("<span class=\"tile\">");
            self.step(step, *range.end(), out);
            out.raw("</span></label>\n");
        }
        out.raw("</div>\n");
    }

    /// "4 of 5", of which only the 4 is seen.
    fn step(&self, step: i64, last: i64, out: &mut Markup) {
        out.raw("<span>").show(step).raw("<span class=\"unseen\">");
        self.voice.say(self.voice.words.of, out);
        out.show(last).raw("</span></span>");
    }

    fn yes_no(&self, out: &mut Markup) {
        out.raw("<div class=\"pair\">\n");
        for (n, (value, words)) in ["Yes", "No"].into_iter().zip(self.voice.words.yes_no).enumerate() {
            out.raw("<label>");
            self.button("radio", n == 0, value, out);
            out.raw("<span class=\"tile\">");
            self.voice.say(words, out);
            out.raw("</span></label>\n");
        }
        out.raw("</div>\n");
    }

    fn choices(&self, choices: &[Choice], many: bool, out: &mut Markup) {
        out.raw("<div class=\"choices\">\n");
        for (n, choice) in choices.iter().enumerate() {
            out.raw("<label class=\"choice\">");
            self.button(if many { "checkbox" } else { "radio" }, n == 0, &choice.label(), out);
            out.raw("<span>");
            self.voice.text(&choice.text, out);
            out.raw("</span></label>\n");
            if choice.other {
                self.own_words(choice, out);
            }
        }
        out.raw("</div>\n");
    }

    /// The field beside an option that takes words of one's own.
    fn own_words(&self, choice: &Choice, out: &mut Markup) {
        let id = self.question.other_id();
        let given = self.answers.get(&id).map(label).unwrap_or_default();
        out.raw("<div class=\"own\"><input type=\"text\" autocomplete=\"off\" dir=\"auto\" ");
        out.raw("placeholder=\" \" id=\"f-");
        out.text(&id).raw("\" name=\"").text(&id).raw("\" aria-label=\"");
        out.text(self.voice.plain(&choice.text)).raw(": ").text(self.voice.words.own_words);
        out.raw("\" value=\"").text(&given).raw("\"></div>\n");
    }

    /// One radio button or check box. The first has the id that a list of problems leads to.
    fn button(&self, kind: &'static str, first: bool, value: &str, out: &mut Markup) {
        out.raw("<input type=\"").raw(kind).raw("\" name=\"").text(&self.question.id).raw("\"");
        if first {
            out.raw(" id=\"f-").text(&self.question.id).raw("\"");
        }
        out.raw_if(self.chosen(value), " checked");
        out.raw_if(kind == "checkbox" && self.wrong.is_some(), " aria-invalid=\"true\"");
        out.raw(" value=\"").text(value).raw("\">");
    }

    /// Whether an option is part of the answer, however that was handed in.
    fn chosen(&self, value: &str) -> bool {
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

/// What kind of field, and on a phone which keyboard.
fn field_type(kind: &QuestionKind, out: &mut Markup) {
    match kind {
        // Not type=number: people type Arabic digits and commas, which that throws away.
        QuestionKind::Number(_) => out.raw(" type=\"text\" inputmode=\"decimal\""),
        QuestionKind::Date(range) => {
            out.raw(" type=\"date\"");
            for (name, day, none) in
                [(" min=\"", range.start(), FIRST_DAY), (" max=\"", range.end(), LAST_DAY)]
            {
                let day = day.to_string();
                if day != none {
                    out.raw(name).text(&day).raw("\"");
                }
            }
            out
        }
        _ => out.raw(" type=\"text\" dir=\"auto\""),
    };
}

/// The bounds that are worth telling beforehand.
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
