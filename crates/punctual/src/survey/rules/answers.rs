//! Answers: the questions that are asked, and the accepted answers to them.
//!
//! Questions are walked through in their order, and each is asked if its `showIf` holds over the answers
//! before it. So the path is decided by the answers on it and by nothing else: an answer to a question that
//! is not asked is dropped, and reported, and no condition sees it. Accepted answers have one canonical form,
//! which is accepted again as it is:
//!
//! - `"Yes"` or `"No"`; numbers as JSON numbers; dates as `YYYY-MM-DD`; texts without white space around.
//! - The value of an option as the survey writes it; of several, in the order of the options.
//! - Words of one's own beside an option `other` stand under the question's id with `.other` behind
//!   it, so that `{"why": "else", "why.other": "too loud"}` can be asked about either way.
//!
//! An empty text, an empty list and null are no answer.

mod problem;
mod read;

pub use crate::survey::rules::answers::problem::{AnswerProblem, AnswersError};

use crate::base::facts::Facts;
use crate::base::suggestion::nearest;
use crate::survey::rules::survey::{Question, Survey};
use serde_json::{Map, Value};

/// Unknown questions that are reported one by one.
const UNKNOWN_TOLD_MAX: usize = 20;

/// Answers in their canonical form, in the order of the questions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answers {
    /// By question id, and `id.other` for words of one's own.
    pub given: Vec<(String, Value)>,
    /// Submitted answers that are dropped: the question was not asked, or words of one's own stand beside
    /// another option.
    pub dropped: Vec<String>,
}

impl Answers {
    /// The answer to a question.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&Value> {
        self.given.iter().find(|(given, _)| given == id).map(|(_, value)| value)
    }

    /// As an object.
    #[must_use]
    pub fn to_json(&self) -> Map<String, Value> {
        self.given.iter().cloned().collect()
    }
}

/// The result of a walk through the questions.
struct QuestionWalk<'s> {
    asked: Vec<&'s Question>,
    answers: Answers,
    wrong: Vec<(String, AnswerProblem)>,
}

impl Survey {
    /// Checks what was handed in, and brings it into its canonical form.
    ///
    /// # Errors
    /// Everything that is wrong with it, by question.
    pub fn accept(&self, given: &Map<String, Value>) -> Result<Answers, AnswersError> {
        let walk = self.walk(given);
        let mut wrong = self.unknown(given);
        wrong.extend(walk.wrong);
        if wrong.is_empty() { Ok(walk.answers) } else { Err(AnswersError(wrong)) }
    }

    /// Returns the questions that are asked of a respondent with these answers so far.
    #[must_use]
    pub fn visible(&self, so_far: &Map<String, Value>) -> Vec<&Question> {
        self.walk(so_far).asked
    }

    /// Returns the next page: the questions behind the question `after` (from the beginning if none), up to
    /// the first question that rests on an answer of this very page. Empty when all has been asked.
    #[must_use]
    pub fn next(&self, so_far: &Map<String, Value>, after: Option<&str>) -> Vec<&Question> {
        let begin = after.and_then(|id| self.questions.iter().position(|question| question.id == id));
        let open = &self.questions[begin.map_or(0, |at| at + 1)..];
        let asked = self.visible(so_far);
        let mut page: Vec<&Question> = Vec::new();
        for question in open {
            if page.iter().any(|on_page| rests_on(question, on_page)) {
                break;
            }
            if asked.iter().any(|one| one.id == question.id) {
                page.push(question);
            }
        }
        page
    }

    fn walk<'s>(&'s self, given: &Map<String, Value>) -> QuestionWalk<'s> {
        let mut walk = QuestionWalk { asked: Vec::new(), answers: Answers::default(), wrong: Vec::new() };
        let mut facts = Facts::default();
        for question in &self.questions {
            let answer = read::SubmittedAnswer::of(question, given);
            if question.show_if.as_ref().is_some_and(|condition| !condition.holds(&facts)) {
                walk.answers.dropped.extend(answer.ids());
                continue;
            }
            walk.asked.push(question);
            match answer.read() {
                Ok(read) => {
                    if question.required && read.kept.is_empty() {
                        walk.wrong.push((question.id.clone(), AnswerProblem::Missing));
                    }
                    for (id, value) in read.kept {
                        facts.insert(id.clone(), value.clone());
                        walk.answers.given.push((id, value));
                    }
                    walk.answers.dropped.extend(read.dropped);
                }
                Err(wrong) => walk.wrong.push((question.id.clone(), wrong)),
            }
        }
        walk
    }

    /// Returns the answers to questions that do not exist. Nulls are no answers, but their names are
    /// reported, too.
    fn unknown(&self, given: &Map<String, Value>) -> Vec<(String, AnswerProblem)> {
        let known = |id: &str| {
            let own = id.strip_suffix(".other").and_then(|id| self.question(id));
            self.question(id).is_some() || own.is_some_and(|question| question.other().is_some())
        };
        let unknown = given.keys().filter(|id| !known(id)).take(UNKNOWN_TOLD_MAX);
        let ids = || self.questions.iter().map(|question| question.id.as_str());
        let tell = |id: &String| {
            let nearest = nearest(id, ids()).map(str::to_owned);
            (crate::base::document::quote(id), AnswerProblem::Unknown { nearest })
        };
        unknown.map(tell).collect()
    }
}

/// Whether a question is only asked after certain answers to another.
fn rests_on(question: &Question, other: &Question) -> bool {
    let named = |fact: &str| fact.strip_suffix(".other").unwrap_or(fact) == other.id;
    question.show_if.iter().any(|condition| condition.paths().into_iter().any(named))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::error::Problems;
    use serde_json::json;

    /// One question of each type, and two that are only asked after certain answers.
    fn survey() -> Survey {
        let text = json!({"en": "x"});
        let questions = json!([
            {"id": "rate", "type": "rating", "text": text, "required": true},
            {"id": "why", "type": "multiChoice", "text": text, "max": 2,
             "options": [{"value": "price", "text": text}, {"value": 2, "text": text},
                         {"value": "else", "text": text, "other": true}]},
            {"id": "bad", "type": "yesNo", "text": text, "required": true},
            {"id": "story", "type": "longText", "text": text, "required": true, "min": 3, "max": 20,
             "showIf": {"questionId": "bad", "op": "==", "value": "Yes"}},
            {"id": "call", "type": "yesNo", "text": text, "required": true,
             "showIf": {"questionId": "story", "op": "exists"}},
            {"id": "likely", "type": "nps", "text": text},
            {"id": "name", "type": "shortText", "text": text, "max": 5},
            {"id": "cars", "type": "number", "text": text, "min": 0, "max": 100},
            {"id": "since", "type": "date", "text": text, "min": "2020-01-01", "max": "2026-12-31"},
            {"id": "how", "type": "singleChoice", "text": text,
             "options": [{"value": "web", "text": text}, {"value": "other", "text": text, "other": true}]},
            {"id": "size", "type": "singleChoice", "text": text,
             "options": [{"value": "S", "text": text}, {"value": "L", "text": text}]},
        ]);
        let definition = json!({"title": text, "locales": ["en"], "defaultLocale": "en",
                                "questions": questions, "triggers": []});
        let mut problems = Problems::default();
        let survey = Survey::read(&definition, &mut problems, &mut Problems::default());
        survey.unwrap_or_else(|| panic!("{problems}"))
    }

    fn map(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    /// TRG-21: every type, from what programs and forms send to one form.
    #[test]
    fn trg_21_answers_have_one_canonical_form() {
        let table = [
            (json!({"rate": "4"}), json!({"rate": 4})),
            (json!({"rate": 4.0}), json!({"rate": 4})),
            (json!({"bad": true}), json!({"bad": "Yes", "story": "awful", "call": "No"})),
            (json!({"bad": false}), json!({"bad": "No"})),
            (json!({"why": "price"}), json!({"why": ["price"]})),
            (json!({"why": ["2", "price", "price", ""]}), json!({"why": ["price", 2]})),
            (json!({"why": ["else"], "why.other": " loud "}), json!({"why": ["else"], "why.other": "loud"})),
            (json!({"why": ["too loud", 2]}), json!({"why": [2, "else"], "why.other": "too loud"})),
            (json!({"why.other": "forgot the box"}), json!({"why": ["else"], "why.other": "forgot the box"})),
            (json!({"likely": "١٠"}), json!({"likely": 10})),
            (json!({"name": " Zoë\n"}), json!({"name": "Zoë"})),
            (json!({"cars": "2.50"}), json!({"cars": 2.5})),
            (json!({"since": "2024-02-29"}), json!({"since": "2024-02-29"})),
            (json!({"how": "web"}), json!({"how": "web"})),
            (json!({"how": "other"}), json!({"how": "other"})),
            (json!({"how": "by train"}), json!({"how": "other", "how.other": "by train"})),
            (
                json!({"how": "other", "how.other": "by train"}),
                json!({"how": "other", "how.other": "by train"}),
            ),
            (json!({"why": [], "likely": null, "name": "  ", "cars": "", "how": ""}), json!({})),
        ];
        for (given, want) in table {
            let mut all = map(json!({"rate": 5, "bad": "No", "story": "awful", "call": false}));
            all.extend(map(given.clone()));
            let got = survey().accept(&all).unwrap_or_else(|e| panic!("{given}: {}", e.problems()));
            let mut wanted = map(json!({"rate": 5, "bad": "No"}));
            wanted.extend(map(want));
            assert_eq!(got.to_json(), wanted, "{given}");
            let again = survey().accept(&got.to_json()).unwrap();
            assert_eq!((again.given, again.dropped), (got.given, vec![]), "{given}");
        }
    }

    /// TRG-21: every wrong answer is reported with its question, in plain words.
    #[test]
    fn trg_21_every_wrong_answer_is_named_by_its_question() {
        let table = [
            (json!({"rate": 6}), "rate: must be 5 or less"),
            (json!({"rate": 0}), "rate: must be 1 or more"),
            (json!({"rate": 4.5}), "rate: must be a whole number"),
            (json!({"rate": "good"}), "rate: must be a whole number"),
            (json!({"rate": null}), "rate: needs an answer"),
            (json!({"bad": "yes"}), "bad: must be `Yes` or `No`"),
            (json!({"bad": 1}), "bad: must be `Yes` or `No`"),
            (json!({"bad": "Yes"}), "story: needs an answer"),
            (json!({"bad": "Yes", "story": "\u{7}"}), "story: needs an answer"),
            (json!({"bad": "Yes", "story": "no"}), "story: needs at least 3 characters"),
            (json!({"bad": "Yes", "story": "x".repeat(21)}), "story: takes at most 20 characters"),
            (json!({"bad": "Yes", "story": ["x"]}), "story: must be a text"),
            (json!({"bad": "Yes", "story": "awful"}), "call: needs an answer"),
            (json!({"why": ["price", 2, "else"]}), "why: takes at most 2 choices"),
            (json!({"why": ["one", "two"]}), "why: `two` is not an option; there are price, 2, else"),
            (json!({"why": [["price"]]}), "why: must be a list of options"),
            (json!({"why": {"value": "price"}}), "why: must be a list of options"),
            (json!({"why": "x".repeat(501)}), "why: takes at most 500 characters"),
            (json!({"why": "else", "why.other": 5}), "why: must be a text"),
            (json!({"likely": 11}), "likely: must be 10 or less"),
            (json!({"likely": -1}), "likely: must be 0 or more"),
            (json!({"name": "Mohammed"}), "name: takes at most 5 characters"),
            (json!({"name": 5}), "name: must be a text"),
            (json!({"cars": "many"}), "cars: must be a number, such as 12 or 2.5"),
            (json!({"cars": 101}), "cars: must be 100 or less"),
            (json!({"cars": -0.5}), "cars: must be 0 or more"),
            (json!({"since": "14.05.2026"}), "since: must be a date, such as 2026-05-14"),
            (json!({"since": "2026-02-30"}), "since: must be a date, such as 2026-05-14"),
            (json!({"since": "2026-05-14T00:00:00Z"}), "since: must be a date, such as 2026-05-14"),
            (json!({"since": "2019-12-31"}), "since: must be 2020-01-01 or more"),
            (json!({"size": "M"}), "size: `M` is not an option; there are S, L"),
            (json!({"size": ["S"]}), "size: must be one of the options"),
            (json!({"size.other": "M"}), "size.other: is not a question of this survey"),
            (json!({"rates": 5}), "rates: is not a question of this survey; did you mean `rate`?"),
            (json!({"zzz": null}), "zzz: is not a question of this survey"),
        ];
        for (given, want) in table {
            let mut all = map(json!({"rate": 5, "bad": "No"}));
            all.extend(map(given.clone()));
            let refused = survey().accept(&all).expect_err(&given.to_string());
            assert_eq!(refused.problems().to_string(), want, "{given}");
        }
        let many = survey().accept(&map(json!({"cars": "x", "nobody": 1, "why": "no way", "size": 7})));
        let many: Vec<String> = many.unwrap_err().0.into_iter().map(|(id, _)| id).collect();
        assert_eq!(many, ["nobody", "rate", "bad", "cars", "size"], "all, in the order of the questions");
    }

    /// TRG-21: only an asked question is required, and an answer to any other is dropped and reported.
    #[test]
    fn trg_21_only_the_path_taken_counts() {
        let table = [
            (json!({"rate": 1, "bad": "No", "story": "awful", "call": 7}), "rate bad", "story call"),
            (json!({"rate": 1, "bad": "Yes", "story": "awful", "call": true}), "rate bad story call", ""),
            (json!({"rate": 1, "bad": "No", "how": "web", "how.other": "x"}), "rate bad how", "how.other"),
            (
                json!({"rate": 1, "bad": "No", "why": "loud", "why.other": "x"}),
                "rate why why.other bad",
                "why.other",
            ),
        ];
        for (given, kept, dropped) in table {
            let got =
                survey().accept(&map(given.clone())).unwrap_or_else(|e| panic!("{given}: {}", e.problems()));
            let ids: Vec<&str> = got.given.iter().map(|(id, _)| id.as_str()).collect();
            assert_eq!((ids.join(" "), got.dropped.join(" ")), (kept.into(), dropped.into()), "{given}");
        }
    }

    /// TRG-19: page by page, a question waits until the answer it rests on is there.
    #[test]
    fn trg_19_pages_end_where_an_answer_decides() {
        let survey = survey();
        let ids = |page: Vec<&Question>| page.iter().map(|q| q.id.as_str()).collect::<Vec<_>>().join(" ");
        let next = |given: Value, after| ids(survey.next(&map(given), after));
        let rest = "likely name cars since how size";
        assert_eq!(next(json!({}), None), "rate why bad");
        assert_eq!(next(json!({"bad": "No"}), Some("bad")), rest);
        assert_eq!(next(json!({"bad": "Yes"}), Some("bad")), "story");
        assert_eq!(next(json!({"bad": "Yes", "story": "awful"}), Some("story")), format!("call {rest}"));
        assert_eq!(next(json!({"bad": "Yes"}), Some("story")), rest);
        assert_eq!(next(json!({}), Some("size")), "");
        assert_eq!(next(json!({}), Some("nobody")), "rate why bad", "who is lost begins anew");
        assert_eq!(ids(survey.visible(&map(json!({"bad": "Yes"})))), format!("rate why bad story {rest}"));
    }
}
