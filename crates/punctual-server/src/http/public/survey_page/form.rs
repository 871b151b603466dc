//! What a form sends, as answers.
//!
//! Only fields of the questions that the form asked are read; others are ignored. A question without
//! a field, or with empty ones, is not answered any more. Whether an answer is right is asked later:
//! what somebody typed is kept as it is, so that they see it again.

use punctual::base::limits::{LONG_ANSWER_CHARS_MAX, OPTIONS_MAX};
use punctual::survey::rules::survey::{Question, QuestionKind};
use serde_json::{Map, Value};

/// The field of the pressed button. No question can be called so.
pub const GO: &str = ".go";
/// Its value for going back.
pub const BACK: &str = "back";
/// Its value for keeping what was typed, and no more.
pub const KEEP: &str = "keep";

/// Fields of a form that are looked at.
const FIELDS_MAX: usize = 10_000;

/// A form that came in.
#[derive(Debug)]
pub struct AnswerForm(Vec<(String, String)>);

impl AnswerForm {
    /// Reads a body. Any bytes are some form: what is not UTF-8 is replaced.
    pub fn read(body: &[u8]) -> Self {
        Self(form_urlencoded::parse(body).take(FIELDS_MAX).map(|(k, v)| (k.into(), v.into())).collect())
    }

    /// The button that was pressed.
    pub fn go(&self) -> &str {
        self.values(GO).next().unwrap_or_default()
    }

    fn values<'f>(&'f self, name: &'f str) -> impl Iterator<Item = &'f str> {
        let own = self.0.iter().filter(move |(field, _)| field == name);
        own.map(|(_, value)| value.as_str()).filter(|value| !value.trim().is_empty())
    }

    /// Puts the answers to `questions` in place of those that were there.
    pub fn answer(&self, questions: &[&Question], answers: &mut Map<String, Value>) {
        for question in questions {
            self.set(&question.id, matches!(question.kind, QuestionKind::MultiChoice(..)), answers);
            if question.other().is_some() {
                self.set(&question.other_id(), false, answers);
            }
        }
    }

    fn set(&self, id: &str, many: bool, answers: &mut Map<String, Value>) {
        answers.remove(id);
        let mut values = self.values(id).map(|value| Value::from(clipped(value)));
        if many {
            // One more than there can be, so that too many are still too many.
            let list: Vec<Value> = values.take(OPTIONS_MAX + 1).collect();
            if !list.is_empty() {
                answers.insert(id.to_owned(), list.into());
            }
        } else if let Some(value) = values.next() {
            answers.insert(id.to_owned(), value);
        }
    }
}

/// A text that is far too long is cut where it is still too long.
fn clipped(text: &str) -> &str {
    text.char_indices().nth(LONG_ANSWER_CHARS_MAX + 1).map_or(text, |(at, _)| &text[..at])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::public::survey_page::sample;
    use serde_json::json;

    /// TRG-19, TRG-21: a form is read into answers; what was left out is gone.
    #[test]
    fn trg_19_a_form_is_read_into_answers() {
        let survey = sample::every_type("en");
        let all: Vec<&Question> = survey.questions.iter().collect();
        let table = [
            ("", json!({})),
            ("rate=4&stray=1&rate.other=x", json!({"rate": "4"})),
            ("why=price&why=2&why=", json!({"why": ["price", "2"]})),
            ("why=else&why.other=too+loud%21", json!({"why": ["else"], "why.other": "too loud!"})),
            ("rate=4&rate=5", json!({"rate": "4"})),
            ("name=%D8%B9%D9%84%D9%8A", json!({"name": "علي"})),
            ("name=+++&cars=&since=", json!({})),
            ("story=a%0D%0Ab&%ff=%fe&=&&&=x", json!({"story": "a\r\nb"})),
            (".go=back&rate=3", json!({"rate": "3"})),
        ];
        for (body, want) in table {
            let mut answers =
                json!({"rate": 1, "why": ["price"], "name": "old"}).as_object().unwrap().clone();
            AnswerForm::read(body.as_bytes()).answer(&all, &mut answers);
            assert_eq!(Value::from(answers), want, "{body}");
        }
        assert_eq!(AnswerForm::read(b".go=back").go(), BACK);
        assert_eq!(AnswerForm::read(b"").go(), "");
    }

    #[test]
    fn only_questions_of_the_step_are_touched() {
        let survey = sample::every_type("en");
        let mut answers = json!({"rate": 1, "name": "old"}).as_object().unwrap().clone();
        let step: Vec<&Question> = survey.question("name").into_iter().collect();
        AnswerForm::read(b"rate=5&name=new").answer(&step, &mut answers);
        assert_eq!(Value::from(answers), json!({"rate": 1, "name": "new"}));
    }

    #[test]
    fn floods_are_cut_and_still_too_much() {
        let survey = sample::every_type("en");
        let all: Vec<&Question> = survey.questions.iter().collect();
        let body = format!("story={}&{}", "ع".repeat(50_000), "why=price&".repeat(5_000));
        let mut answers = Map::new();
        AnswerForm::read(body.as_bytes()).answer(&all, &mut answers);
        assert_eq!(answers["story"].as_str().unwrap().chars().count(), LONG_ANSWER_CHARS_MAX + 1);
        assert_eq!(answers["why"].as_array().unwrap().len(), OPTIONS_MAX + 1);
    }
}
