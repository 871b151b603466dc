//! Where somebody is: a survey is asked in steps, each a run of questions that no answer on it decides
//! about ([`Survey::next`]).
//!
//! Steps are counted from 0 here and from 1 outside. Which questions a step has depends only on the
//! answers before it, so its number stays good when somebody goes back.

use punctual::survey::rules::answers::AnswerProblem;
use punctual::survey::rules::survey::{Question, Survey};
use serde_json::{Map, Value};

/// The steps of a survey for somebody who has answered this so far.
#[derive(Debug)]
pub struct SurveySteps<'s> {
    survey: &'s Survey,
    all: Vec<Vec<&'s Question>>,
}

impl<'s> SurveySteps<'s> {
    /// All steps of the path that these answers take.
    pub fn of(survey: &'s Survey, answers: &Map<String, Value>) -> Self {
        let mut steps: Vec<Vec<&Question>> = Vec::new();
        loop {
            let after = steps.last().and_then(|step| step.last()).map(|question| question.id.as_str());
            let step = survey.next(answers, after);
            if step.is_empty() {
                return Self { survey, all: steps };
            }
            steps.push(step);
        }
    }

    /// The questions of a step; none behind the last one.
    pub fn get(&self, step: usize) -> &[&'s Question] {
        self.all.get(step).map_or(&[], Vec::as_slice)
    }

    /// Whether nothing is asked behind it, with these answers.
    pub const fn is_last(&self, step: usize) -> bool {
        step + 1 >= self.all.len()
    }

    /// Whether something may still be asked behind it, whatever is answered on it.
    pub fn may_go_on(&self, step: usize) -> bool {
        let asked = |fact: &str| {
            let id = fact.strip_suffix(".other").unwrap_or(fact);
            self.get(step).iter().any(|question| question.id == id)
        };
        let rests = |question: &Question| {
            question.show_if.iter().any(|condition| condition.paths().into_iter().any(asked))
        };
        !self.is_last(step) || self.survey.questions.iter().any(rests)
    }

    /// The step that a form says it is, as far as there is one.
    pub fn clamped(&self, wanted: Option<usize>) -> usize {
        wanted.unwrap_or(0).min(self.all.len().saturating_sub(1))
    }

    /// The step of a question.
    pub fn find(&self, id: &str) -> Option<usize> {
        self.all.iter().position(|step| step.iter().any(|question| question.id == id))
    }

    /// The step to show: the one that was asked for, or else where somebody left off, but none behind
    /// the first that is not in order.
    pub fn place(
        &self,
        wanted: Option<usize>,
        answers: &Map<String, Value>,
        wrong: &[(String, AnswerProblem)],
    ) -> usize {
        let last = self.all.len().saturating_sub(1);
        let blocked = wrong.iter().filter_map(|(id, _)| self.find(id)).min().unwrap_or(last);
        let untouched =
            |step: &Vec<&Question>| !step.iter().any(|question| answers.contains_key(&question.id));
        let left_off = || self.all.iter().position(untouched).unwrap_or(last);
        wanted.unwrap_or_else(left_off).min(blocked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::public::survey_page::sample;
    use serde_json::json;

    fn map(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    fn ids(steps: &SurveySteps<'_>) -> Vec<String> {
        let join = |step: &Vec<&Question>| step.iter().map(|q| q.id.as_str()).collect::<Vec<_>>().join(" ");
        steps.all.iter().map(join).collect()
    }

    /// TRG-19: the path follows the answers.
    #[test]
    fn trg_19_steps_follow_the_answers() {
        let survey = sample::navigated();
        let table = [
            (json!({}), vec!["rate bad", "name"]),
            (json!({"bad": "No"}), vec!["rate bad", "name"]),
            (json!({"bad": "Yes"}), vec!["rate bad", "story", "name"]),
            (json!({"bad": "Yes", "story": "x"}), vec!["rate bad", "story", "call name"]),
        ];
        for (answers, want) in table {
            assert_eq!(ids(&SurveySteps::of(&survey, &map(answers.clone()))), want, "{answers}");
        }
        let none = Map::new();
        let steps = SurveySteps::of(&survey, &none);
        assert!(steps.get(9).is_empty());
        assert!(steps.may_go_on(0) && !steps.may_go_on(1), "a complaint would be asked about");
    }

    /// TRG-19: whoever comes back goes on where they left off, and nobody skips what is required.
    #[test]
    fn trg_19_a_visitor_goes_on_where_they_left_off() {
        let survey = sample::navigated();
        let table = [
            (json!({}), None, 0),
            (json!({}), Some(7), 0),
            (json!({"rate": 4, "bad": "No"}), None, 1),
            (json!({"rate": 4, "bad": "No"}), Some(0), 0),
            (json!({"rate": 4, "bad": "No"}), Some(9), 1),
            (json!({"rate": 4, "bad": "Yes"}), Some(2), 1),
            (json!({"rate": 4, "bad": "Yes", "story": "x", "call": "No", "name": "y"}), None, 2),
        ];
        for (answers, wanted, want) in table {
            let given = map(answers.clone());
            let wrong = survey.accept(&given).map_or_else(|refused| refused.0, |_| Vec::new());
            let steps = SurveySteps::of(&survey, &given);
            assert_eq!(steps.place(wanted, &given, &wrong), want, "{answers} {wanted:?}");
        }
    }
}
