//! The page on which somebody answers a survey, as pure functions: from a survey, a locale, the answers
//! so far and what is wrong with them to one HTML document ([`render_step`]), and from a form to answers
//! ([`AnswerForm`]).
//!
//! The page works without its script and without any file but itself: every step is a plain form.
//! The script only keeps what is being typed and says that somebody is there. Style and script come
//! from our own origin under a strict policy, so nothing is written inline. Links are relative: the page
//! may stand behind a proxy under any path.
//!
//! Not promised: a translation of a survey's texts. One that lacks a locale is shown in the default one,
//! marked as such.

mod assets;
mod form;
pub(super) mod layout;
mod question;
#[cfg(test)]
mod sample;
mod steps;
#[cfg(test)]
mod tests;
pub(super) mod texts;

pub use assets::PageAsset;
pub use form::{AnswerForm, BACK, KEEP};
pub use steps::SurveySteps;

use layout::{PageLanguage, survey_document, survey_languages};
use maud::{Markup, html};
use punctual::flow::rules::public_id::PublicId;
use punctual::survey::rules::answers::AnswerProblem;
use punctual::survey::rules::survey::{Question, Survey};
use question::QuestionView;
use serde_json::{Map, Value};

/// One step of a survey, as its page shows it.
#[derive(Debug)]
pub struct SurveyStep<'a> {
    /// The link that leads here.
    pub public_id: PublicId,
    /// The survey.
    pub survey: &'a Survey,
    /// The locale of the page, one of the survey's.
    pub locale: &'a str,
    /// Whether the reader chose the locale on this page, so that the next page keeps it.
    pub chosen: bool,
    /// The answers so far, as they were handed in.
    pub answers: &'a Map<String, Value>,
    /// All steps of the path that these answers take.
    pub steps: &'a SurveySteps<'a>,
    /// The number of this step, from 0.
    pub at: usize,
    /// The problems of the answers, of this step or any.
    pub wrong: &'a [(String, AnswerProblem)],
    /// Whether the script reports that the page was opened.
    pub to_be_opened: bool,
}

/// A page without questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClosingPage {
    /// The answers have just come in.
    Thanks,
    /// The answers had come in before.
    Answered,
    /// The survey expired, or was withdrawn.
    Over,
    /// The link does not exist.
    Unknown,
    /// The visitor sent too many requests.
    TooOften,
    /// The server failed.
    Trouble,
}

/// Renders the page of a step.
#[must_use]
pub fn render_step(step: &SurveyStep<'_>) -> String {
    let language = PageLanguage::of_survey(step.survey, step.locale);
    let problems = step.problems();
    let title = html! {
        @if !problems.is_empty() { (language.texts.problem_mark) }
        (language.plain_survey_text(&step.survey.title))
    };
    let body = html! {
        header {
            (survey_languages(language, step.survey, Some(step.at + 1)))
            h1 { (language.survey_text(&step.survey.title)) }
            (progress(step, language))
        }
        main {
            (problem_list(&problems, language))
            (step_form(step, language))
        }
    };
    survey_document(language, title, body)
}

impl SurveyStep<'_> {
    /// The questions of this step with a problem.
    fn problems(&self) -> Vec<(&Question, &AnswerProblem)> {
        let questions = self.steps.get(self.at).iter();
        questions.filter_map(|question| Some((*question, self.problem_of(question)?))).collect()
    }

    fn problem_of(&self, question: &Question) -> Option<&AnswerProblem> {
        self.wrong.iter().find(|(id, _)| *id == question.id).map(|(_, wrong)| wrong)
    }
}

/// Renders the progress, counted in questions: the number of steps depends on answers to come.
fn progress(step: &SurveyStep<'_>, language: PageLanguage<'_>) -> Markup {
    if step.at == 0 && !step.steps.may_go_on(0) {
        return Markup::default();
    }
    let first = step.steps.get(step.at).first();
    let behind = first.and_then(|first| step.survey.questions.iter().position(|one| one.id == first.id));
    html! {
        progress aria-label=(language.texts.progress) max=(step.survey.questions.len())
            value=(behind.unwrap_or(0)) {}
    }
}

/// Renders all problems of this step, at the top, each with a link to its field.
fn problem_list(problems: &[(&Question, &AnswerProblem)], language: PageLanguage<'_>) -> Markup {
    html! {
        @if !problems.is_empty() {
            div class="problems" id="problems" role="alert" tabindex="-1" autofocus {
                h2 { (language.own_text(language.texts.problems)) }
                ul {
                    @for (question, wrong) in problems {
                        li {
                            a href={ "#f-" (question.id) } { (language.survey_text(&question.text)) }
                            br;
                            (language.texts.problem(wrong, question))
                        }
                    }
                }
            }
        }
    }
}

fn step_form(step: &SurveyStep<'_>, language: PageLanguage<'_>) -> Markup {
    let SurveyStep { answers, public_id, .. } = *step;
    let opened = step.to_be_opened.then(|| format!("../api/SurveyInstances/{public_id}/opened"));
    let texts = language.texts;
    let on = if step.steps.may_go_on(step.at) { texts.next } else { texts.send };
    html! {
        form method="post" novalidate autocomplete="off"
            action={ "?step=" (step.at + 1) @if step.chosen { "&lang=" (step.locale) } }
            data-opened=[opened] {
            @for question in step.steps.get(step.at) {
                (QuestionView { question, language, answers, wrong: step.problem_of(question) }.render())
            }
            // The way on comes first, because the Enter key presses the first button.
            div class="buttons" {
                button type="submit" class="on" { (language.own_text(on)) }
                @if step.at > 0 {
                    button type="submit" name=".go" value="back" { (language.own_text(texts.back)) }
                }
            }
        }
    }
}

/// Renders a page without questions, of a survey if one is known, in the locale that a reader wants.
#[must_use]
pub fn render_closing_page(page: ClosingPage, survey: Option<&Survey>, locale: &str) -> String {
    let language = survey.map_or_else(
        || PageLanguage::without_survey(locale),
        |survey| PageLanguage::of_survey(survey, locale),
    );
    let texts = &language.texts.closing;
    let ([heading, sentence], mark) = match page {
        ClosingPage::Thanks => (texts.thanks, done_mark()),
        ClosingPage::Answered => (texts.answered, done_mark()),
        ClosingPage::Over => (texts.over, closed_mark()),
        ClosingPage::Unknown => (texts.unknown, closed_mark()),
        ClosingPage::TooOften => (texts.too_often, closed_mark()),
        ClosingPage::Trouble => (texts.trouble, closed_mark()),
    };
    let body = html! {
        @if let Some(survey) = survey {
            header {
                (survey_languages(language, survey, None))
                p class="of" { (language.survey_text(&survey.title)) }
            }
        }
        main class="end" {
            (mark)
            h1 { (language.own_text(heading)) }
            p { (language.own_text(sentence)) }
        }
    };
    survey_document(language, heading, body)
}

fn done_mark() -> Markup {
    html! {
        svg class="mark done" viewBox="0 0 48 48" aria-hidden="true" focusable="false" {
            circle cx="24" cy="24" r="22" {}
            path d="M14 25l7 7 13-15" {}
        }
    }
}

fn closed_mark() -> Markup {
    html! {
        svg class="mark" viewBox="0 0 48 48" aria-hidden="true" focusable="false" {
            circle cx="24" cy="24" r="22" {}
            path d="M24 13v14M24 33v2" {}
        }
    }
}
