//! Answers: which questions are asked, and what counts as an answer to them.
//!
//! Questions are walked through in their order, and each is asked if its `showIf` holds over the
//! answers before it. So the path is decided by the answers on it and by nothing else: an answer to a
//! question that is not asked is dropped, and told, and no condition sees it. What is kept is in one
//! canonical form, which is accepted again as it is:
//!
//! - `"Yes"` or `"No"`; numbers as JSON numbers; dates as `YYYY-MM-DD`; texts without white space around.
//! - The value of an option as the survey writes it; of several, in the order of the options.
//! - Words of one's own beside an option `other` stand under the question's id with `.other` behind
//!   it, so that `{"why": "else", "why.other": "too loud"}` can be asked about either way.
//!
//! An empty text, an empty list and null are no answer.

mod read;
mod wrong;

pub use wrong::{Refused, Wrong};

use super::facts::Facts;
use super::spelling;
use super::survey::{Question, Survey};
use serde_json::{Map, Value};

/// Unknown questions that are told one by one.
const UNKNOWN_TOLD_MAX: usize = 20;

/// Answers in their canonical form, in the order of the questions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answers {
    /// By question id, and `id.other` for words of one's own.
    pub given: Vec<(String, Value)>,
    /// What was handed in and is not kept, because its question was not asked.
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

/// What a walk through the questions found.
struct Walk<'s> {
    asked: Vec<&'s Question>,
    answers: Answers,
    wrong: Vec<(String, Wrong)>,
}

impl Survey {
    /// Checks what was handed in, and brings it into its canonical form.
    ///
    /// # Errors
    /// Everything that is wrong with it, by question.
    pub fn accept(&self, given: &Map<String, Value>) -> Result<Answers, Refused> {
        let mut walk = self.walk(given);
        let missing = walk.asked.iter().filter(|question| question.required);
        let missing = missing.filter(|question| walk.answers.get(&question.id).is_none());
        let missing = missing.filter(|question| walk.wrong.iter().all(|(id, _)| *id != question.id));
        let missing: Vec<_> = missing.map(|question| (question.id.clone(), Wrong::Missing)).collect();
        walk.wrong.extend(missing);
        // In the order of the questions, as on the page.
        walk.wrong.sort_by_key(|(id, _)| self.questions.iter().position(|question| question.id == *id));
        let mut wrong = self.unknown(given);
        wrong.extend(walk.wrong);
        if wrong.is_empty() { Ok(walk.answers) } else { Err(Refused(wrong)) }
    }

    /// The questions that are asked of somebody who has answered this so far.
    #[must_use]
    pub fn visible(&self, so_far: &Map<String, Value>) -> Vec<&Question> {
        self.walk(so_far).asked
    }

    /// The next page: what is asked behind the question `after` (from the beginning if none), up to
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

    fn walk<'s>(&'s self, given: &Map<String, Value>) -> Walk<'s> {
        let mut walk = Walk { asked: Vec::new(), answers: Answers::default(), wrong: Vec::new() };
        let mut facts = Facts::default();
        for question in &self.questions {
            let answer = read::Handed::of(question, given);
            if question.show_if.as_ref().is_some_and(|condition| !condition.holds(&facts)) {
                walk.answers.dropped.extend(answer.ids());
                continue;
            }
            walk.asked.push(question);
            match answer.read() {
                Ok(read) => {
                    for (id, value) in read.kept {
                        facts.insert(&id, value.clone());
                        walk.answers.given.push((id, value));
                    }
                    walk.answers.dropped.extend(read.dropped);
                }
                Err(wrong) => walk.wrong.push((question.id.clone(), wrong)),
            }
        }
        walk
    }

    /// Answers to questions that there are not. Nulls are no answers, but their names are told, too.
    fn unknown(&self, given: &Map<String, Value>) -> Vec<(String, Wrong)> {
        let known = |id: &str| {
            let own = id.strip_suffix(".other").and_then(|id| self.question(id));
            self.question(id).is_some() || own.is_some_and(|question| question.other().is_some())
        };
        let unknown = given.keys().filter(|id| !known(id)).take(UNKNOWN_TOLD_MAX);
        let ids = || self.questions.iter().map(|question| question.id.as_str());
        let tell = |id: &String| {
            let nearest = spelling::nearest(id, ids()).map(str::to_owned);
            (super::document::quote(id), Wrong::Unknown { nearest })
        };
        unknown.map(tell).collect()
    }
}

/// Whether a question is only asked after certain answers to another.
fn rests_on(question: &Question, other: &Question) -> bool {
    let named = |fact: &str| fact.strip_suffix(".other").unwrap_or(fact) == other.id;
    question.show_if.iter().any(|condition| condition.paths().into_iter().any(named))
}
