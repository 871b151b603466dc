//! Results: summaries of many answers to a survey.
//!
//! Folds over canonical answers ([`super::answers::Answers`]), one response at a time, so that any
//! number of them costs the memory of one summary. A share or mean of nothing is absent, not zero.
//! Answers of another version count where they fit: an option that is gone keeps its own line, and
//! a value of another type is left out.
//!
//! Not done here: which responses count (period, version, trigger), and the list of free texts.

use crate::survey::rules::survey::{Choice, NPS, QuestionKind, Survey, label};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// An answer from here up counts as a promoter.
const PROMOTER_MIN: i64 = 9;
/// An answer up to here counts as a detractor.
const DETRACTOR_MAX: i64 = 6;
/// The best steps of a rating that count as satisfied.
const SATISFIED_STEPS: i64 = 2;

/// Part of a whole, from 0 to 1.
///
/// ```
/// use punctual::survey::rules::results::share;
/// assert_eq!(share(1, 4), Some(0.25));
/// assert_eq!(share(0, 0), None);
/// ```
#[must_use]
pub fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// Returns the share of invited people who have answered. A person who answers without having been sent a
/// message counts as invited, so the share never exceeds 1.
#[must_use]
pub fn response_rate(completed: u64, invited: u64) -> Option<f64> {
    share(completed, invited.max(completed))
}

/// The answers of a survey, counted.
#[derive(Clone, Debug, PartialEq)]
pub struct Results {
    /// How many responses were counted.
    pub responses: u64,
    /// By question, in their order.
    pub questions: Vec<(String, AnswerCounts)>,
}

impl Results {
    /// Nothing counted yet.
    #[must_use]
    pub fn of(survey: &Survey) -> Self {
        let tally = |kind: &QuestionKind| match kind {
            QuestionKind::SingleChoice(choices) | QuestionKind::MultiChoice(choices, _) => {
                AnswerCounts::choices(choices)
            }
            QuestionKind::YesNo => AnswerCounts::labels(["Yes", "No"].map(String::from)),
            QuestionKind::Rating(range) => AnswerCounts::Steps(ScaleCounts::new(range.clone())),
            QuestionKind::Nps => AnswerCounts::Steps(ScaleCounts::new(NPS)),
            QuestionKind::Number(_) => AnswerCounts::Number(Mean::default()),
            QuestionKind::ShortText(_) | QuestionKind::LongText(_) | QuestionKind::Date(_) => {
                AnswerCounts::Answered(0)
            }
        };
        let questions = survey.questions.iter().map(|one| (one.id.clone(), tally(&one.kind)));
        Self { responses: 0, questions: questions.collect() }
    }

    /// Counts one response.
    pub fn add(&mut self, answers: &Map<String, Value>) {
        self.responses += 1;
        for (id, tally) in &mut self.questions {
            if let Some(answer) = answers.get(id) {
                tally.add(answer);
            }
        }
    }

    /// Returns the tally of a question.
    #[must_use]
    pub fn question(&self, id: &str) -> Option<&AnswerCounts> {
        self.questions.iter().find(|(one, _)| one == id).map(|(_, tally)| tally)
    }
}

/// The answers to one question, counted.
#[derive(Clone, Debug, PartialEq)]
pub enum AnswerCounts {
    /// Of choices: the number of answers, and how many chose each.
    Choices {
        /// How many answered.
        answered: u64,
        /// In the order of the options, then what is no option any more.
        counts: Vec<(String, u64)>,
    },
    /// Of a scale.
    Steps(ScaleCounts),
    /// Of numbers.
    Number(Mean),
    /// Of texts and dates: how many answered.
    Answered(u64),
}

impl AnswerCounts {
    fn choices(choices: &[Choice]) -> Self {
        Self::labels(choices.iter().map(Choice::label))
    }

    fn labels(labels: impl IntoIterator<Item = String>) -> Self {
        Self::Choices { answered: 0, counts: labels.into_iter().map(|label| (label, 0)).collect() }
    }

    /// How many answered.
    #[must_use]
    pub const fn answered(&self) -> u64 {
        match self {
            Self::Choices { answered, .. } | Self::Answered(answered) => *answered,
            Self::Steps(steps) => steps.mean.count,
            Self::Number(mean) => mean.count,
        }
    }

    /// How often each answer was given, where answers can be listed.
    #[must_use]
    pub fn distribution(&self) -> Vec<(String, u64)> {
        match self {
            Self::Choices { counts, .. } => counts.clone(),
            Self::Steps(steps) => steps.counts.iter().map(|(step, n)| (step.to_string(), *n)).collect(),
            Self::Number(_) | Self::Answered(_) => Vec::new(),
        }
    }

    fn add(&mut self, answer: &Value) {
        match self {
            Self::Choices { answered, counts } => {
                let chosen = answer.as_array().map_or_else(|| std::slice::from_ref(answer), Vec::as_slice);
                let labels = chosen.iter().filter(|value| value.is_string() || value.is_number()).map(label);
                let labels: Vec<String> = labels.collect();
                *answered += u64::from(!labels.is_empty());
                labels.into_iter().for_each(|label| count(counts, label));
            }
            Self::Steps(steps) => steps.add(answer),
            Self::Number(mean) => answer.as_f64().into_iter().for_each(|number| mean.add(number)),
            Self::Answered(answered) => *answered += u64::from(!answer.is_null()),
        }
    }
}

fn count(counts: &mut Vec<(String, u64)>, label: String) {
    match counts.iter_mut().find(|(known, _)| *known == label) {
        Some((_, n)) => *n += 1,
        None => counts.push((label, 1)),
    }
}

/// The answers on a scale.
#[derive(Clone, Debug, PartialEq)]
pub struct ScaleCounts {
    range: RangeInclusive<i64>,
    counts: BTreeMap<i64, u64>,
    /// Their mean.
    pub mean: Mean,
}

impl ScaleCounts {
    /// Nothing counted on a scale.
    #[must_use]
    pub fn new(range: RangeInclusive<i64>) -> Self {
        let counts = range.clone().map(|step| (step, 0)).collect();
        Self { range, counts, mean: Mean::default() }
    }

    /// Counts an answer; one that is not on the scale is left out.
    pub fn add(&mut self, answer: &Value) {
        let Some(step) = answer.as_i64().filter(|step| self.range.contains(step)) else { return };
        *self.counts.entry(step).or_default() += 1;
        self.mean.add(step as f64);
    }

    fn within(&self, range: RangeInclusive<i64>) -> u64 {
        self.counts.range(range).map(|(_, n)| n).sum()
    }

    /// The net promoter score, from -100 to 100: the share of 9 and 10 less the share of 0 to 6.
    #[must_use]
    pub fn nps(&self) -> Option<f64> {
        let promoters = share(self.promoters(), self.mean.count)?;
        let detractors = share(self.detractors(), self.mean.count)?;
        Some((promoters - detractors) * 100.0)
    }

    /// Returns the number of answers of 9 or 10.
    #[must_use]
    pub fn promoters(&self) -> u64 {
        self.within(PROMOTER_MIN..=*NPS.end())
    }

    /// Returns the number of answers of 7 or 8.
    #[must_use]
    pub fn passives(&self) -> u64 {
        self.within(DETRACTOR_MAX + 1..=PROMOTER_MIN - 1)
    }

    /// Returns the number of answers of 0 to 6.
    #[must_use]
    pub fn detractors(&self) -> u64 {
        self.within(*NPS.start()..=DETRACTOR_MAX)
    }

    /// Customer satisfaction: the share of the two best steps, from 0 to 1.
    #[must_use]
    pub fn csat(&self) -> Option<f64> {
        let best = *self.range.end();
        share(self.within(best - SATISFIED_STEPS + 1..=best), self.mean.count)
    }
}

/// How many numbers there were, their mean and their ends.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Mean {
    /// How many.
    pub count: u64,
    /// Their mean.
    pub mean: Option<f64>,
    /// The smallest.
    pub least: Option<f64>,
    /// The greatest.
    pub most: Option<f64>,
}

impl Mean {
    /// Counts a number. The mean is moved, not summed up, so that large numbers do not overflow it.
    pub fn add(&mut self, number: f64) {
        self.count += 1;
        let (count, mean) = (self.count as f64, self.mean.unwrap_or_default());
        self.mean = Some(mean + (number / count - mean / count));
        self.least = Some(self.least.map_or(number, |least| least.min(number)));
        self.most = Some(self.most.map_or(number, |most| most.max(number)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::error::Problems;
    use serde_json::json;

    fn scale(range: RangeInclusive<i64>, answers: &[i64]) -> ScaleCounts {
        let mut steps = ScaleCounts::new(range);
        answers.iter().for_each(|answer| steps.add(&json!(answer)));
        steps
    }

    /// TRG-26: the net promoter score is the share of promoters less that of detractors.
    #[test]
    fn trg_26_nps_is_promoters_less_detractors() {
        type Case = (&'static [i64], (u64, u64, u64), Option<f64>);
        let table: [Case; 7] = [
            (&[], (0, 0, 0), None),
            (&[9, 10], (2, 0, 0), Some(100.0)),
            (&[0, 6], (0, 0, 2), Some(-100.0)),
            (&[7, 8], (0, 2, 0), Some(0.0)),
            (&[10, 9, 8, 7, 6], (2, 2, 1), Some(20.0)),
            (&[10, 8, 3, 0], (1, 1, 2), Some(-25.0)),
            (&[11, -1], (0, 0, 0), None),
        ];
        for (answers, (promoters, passives, detractors), want) in table {
            let steps = scale(NPS, answers);
            let parts = (steps.promoters(), steps.passives(), steps.detractors());
            assert_eq!(parts, (promoters, passives, detractors), "{answers:?}");
            let got = steps.nps();
            let near = |(got, want): (f64, f64)| (got - want).abs() < 1e-9;
            assert!(got.zip(want).map_or(got == want, near), "{answers:?}: {got:?}");
        }
    }

    /// TRG-26: satisfied are those who chose one of the two best steps.
    #[test]
    fn trg_26_csat_is_the_share_of_the_two_best_steps() {
        type Case = (RangeInclusive<i64>, &'static [i64], Option<f64>);
        let table: [Case; 6] = [
            (1..=5, &[], None),
            (1..=5, &[5, 4, 3, 1], Some(0.5)),
            (1..=5, &[3, 3], Some(0.0)),
            (1..=7, &[7, 6, 5, 5], Some(0.5)),
            (1..=10, &[9, 10, 10, 8], Some(0.75)),
            (0..=1, &[0, 1], Some(1.0)),
        ];
        for (range, answers, want) in table {
            assert_eq!(scale(range.clone(), answers).csat(), want, "{range:?} {answers:?}");
        }
    }

    /// TRG-26: a rate is a share of those who were invited, and never more than all.
    #[test]
    fn trg_26_response_rates() {
        let table =
            [(0, 0, None), (0, 10, Some(0.0)), (5, 20, Some(0.25)), (3, 3, Some(1.0)), (3, 2, Some(1.0))];
        for (completed, invited, want) in table {
            assert_eq!(response_rate(completed, invited), want, "{completed} of {invited}");
        }
    }

    /// TRG-26: a mean stays a number whatever people type.
    #[test]
    fn trg_26_means() {
        let table: [(&[f64], Option<f64>); 5] = [
            (&[], None),
            (&[2.0], Some(2.0)),
            (&[1.0, 2.0, 6.0], Some(3.0)),
            (&[-5.0, 5.0], Some(0.0)),
            (&[f64::MAX, f64::MAX], Some(f64::MAX)),
        ];
        for (numbers, want) in table {
            let mut mean = Mean::default();
            numbers.iter().for_each(|number| mean.add(*number));
            assert_eq!((mean.mean, mean.count), (want, numbers.len() as u64), "{numbers:?}");
        }
        let mut mean = Mean::default();
        [f64::MIN, f64::MAX, 3.0].into_iter().for_each(|number| mean.add(number));
        assert!(mean.mean.is_some_and(f64::is_finite), "{mean:?}");
        assert_eq!((mean.least, mean.most), (Some(f64::MIN), Some(f64::MAX)));
    }

    fn survey() -> Survey {
        let text = json!({"en": "x"});
        let options = json!([{"value": "good", "text": text}, {"value": "bad", "text": text},
                             {"value": "else", "text": text, "other": true}]);
        let question = |id: &str, kind: &str| json!({"id": id, "type": kind, "text": text});
        let mut questions = json!([
            question("one", "singleChoice"),
            question("some", "multiChoice"),
            question("stars", "rating"),
            question("likely", "nps"),
            question("again", "yesNo"),
            question("cars", "number"),
            question("note", "longText"),
            question("since", "date"),
        ]);
        for n in 0..2 {
            questions[n]["options"] = options.clone();
        }
        let definition = json!({"title": text, "locales": ["en"], "defaultLocale": "en",
                                "questions": questions, "triggers": []});
        let mut problems = Problems::default();
        let survey = Survey::read(&definition, &mut problems, &mut Problems::default());
        survey.unwrap_or_else(|| panic!("{problems}"))
    }

    /// TRG-26: every question has its distribution; a missing answer is not counted.
    #[test]
    fn trg_26_distributions_by_question() {
        let mut results = Results::of(&survey());
        for answers in [
            json!({"one": "good", "some": ["good", "else"], "some.other": "x", "stars": 5, "likely": 10,
                   "again": "Yes", "cars": 2, "note": "fine", "since": "2026-01-01"}),
            json!({"one": "bad", "some": ["good"], "stars": 1, "likely": 0, "again": "No", "cars": 4.5}),
            json!({"one": "gone", "some": [], "again": null, "stars": "5", "cars": null}),
            json!({}),
        ] {
            results.add(answers.as_object().unwrap());
        }
        type Case = (&'static str, u64, &'static [(&'static str, u64)]);
        let table: [Case; 8] = [
            ("one", 3, &[("good", 1), ("bad", 1), ("else", 0), ("gone", 1)]),
            ("some", 2, &[("good", 2), ("bad", 0), ("else", 1)]),
            ("stars", 2, &[("1", 1), ("2", 0), ("3", 0), ("4", 0), ("5", 1)]),
            (
                "likely",
                2,
                &[
                    ("0", 1),
                    ("1", 0),
                    ("2", 0),
                    ("3", 0),
                    ("4", 0),
                    ("5", 0),
                    ("6", 0),
                    ("7", 0),
                    ("8", 0),
                    ("9", 0),
                    ("10", 1),
                ],
            ),
            ("again", 2, &[("Yes", 1), ("No", 1)]),
            ("cars", 2, &[]),
            ("note", 1, &[]),
            ("since", 1, &[]),
        ];
        assert_eq!(results.responses, 4);
        for (id, answered, distribution) in table {
            let tally = results.question(id).unwrap();
            let got = tally.distribution();
            let got: Vec<(&str, u64)> = got.iter().map(|(label, n)| (label.as_str(), *n)).collect();
            assert_eq!((tally.answered(), got.as_slice()), (answered, distribution), "{id}");
        }
        let Some(AnswerCounts::Number(cars)) = results.question("cars") else { panic!("cars is a number") };
        assert_eq!(cars.mean, Some(3.25));
    }
}
