//! The page on which somebody answers a survey, as pure functions: from a survey, a locale, the answers
//! so far and what is wrong with them to one HTML document ([`ask`]), and from a form to answers
//! ([`Form`]).
//!
//! The page works without its script and without any file but itself: every step is a plain form.
//! The script only keeps what is being typed and says that somebody is there. Style and script come
//! from our own origin under a strict policy, so nothing is written inline. Links are relative: the page
//! may stand behind a proxy under any path.
//!
//! Not promised: a translation of a survey's texts. One that lacks a locale is shown in the default one,
//! marked as such.

mod files;
mod form;
pub(crate) mod frame;
pub(crate) mod markup;
mod question;
#[cfg(test)]
mod sample;
mod steps;
#[cfg(test)]
mod tests;
pub(crate) mod words;

pub use files::PageFile;
pub use form::{BACK, Form, KEEP};
pub use steps::SurveySteps;

use frame::{PageLanguage, document, languages};
use markup::Markup;
use punctual::flow::rules::public_id::PublicId;
use punctual::survey::rules::answers::AnswerProblem;
use punctual::survey::rules::survey::{Question, Survey};
use question::AskedQuestion;
use serde_json::{Map, Value};

/// One step of a survey, as somebody is to see it.
#[derive(Debug)]
pub struct SurveyStep<'a> {
    /// The link that leads here.
    pub public_id: PublicId,
    /// The survey.
    pub survey: &'a Survey,
    /// The locale of the page, one of the survey's.
    pub locale: &'a str,
    /// Whether the reader chose it here, so that the next page keeps it.
    pub chosen: bool,
    /// The answers so far, as they were handed in.
    pub answers: &'a Map<String, Value>,
    /// All steps of the path that these answers take.
    pub steps: &'a SurveySteps<'a>,
    /// Which of them, from 0.
    pub at: usize,
    /// What is wrong with answers, of this step or any.
    pub wrong: &'a [(String, AnswerProblem)],
    /// Whether the script is to say that somebody is there.
    pub to_be_opened: bool,
}

/// A page that asks nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndPage {
    /// The answers have just come in.
    Thanks,
    /// They had come in before.
    Answered,
    /// It expired, or was withdrawn.
    Over,
    /// There is no such link.
    Unknown,
    /// Too much was asked in too short a time.
    TooOften,
    /// Something broke on our side.
    Trouble,
}

/// The page of a step.
#[must_use]
pub fn ask(step: &SurveyStep<'_>) -> String {
    let voice = PageLanguage::of(step.survey, step.locale);
    let here = step.steps.get(step.at);
    let wrong: Vec<(&Question, &AnswerProblem)> =
        here.iter().filter_map(|question| Some((*question, step.wrong_with(question)?))).collect();
    let title = |out: &mut Markup| {
        if !wrong.is_empty() {
            out.text(voice.words.problem_mark);
        }
        out.text(voice.plain(&step.survey.title));
    };
    document(voice, title, |out| {
        out.raw("<header>\n");
        languages(voice, step.survey, Some(step.at + 1), out);
        out.raw("<h1>");
        voice.text(&step.survey.title, out);
        out.raw("</h1>\n");
        progress(step, voice, out);
        out.raw("</header>\n<main>\n");
        problems(&wrong, voice, out);
        form_of(step, voice, out);
        out.raw("</main>\n");
    })
}

impl SurveyStep<'_> {
    fn wrong_with(&self, question: &Question) -> Option<&AnswerProblem> {
        self.wrong.iter().find(|(id, _)| *id == question.id).map(|(_, wrong)| wrong)
    }

    /// Where the form goes: this step, in the language that was chosen.
    fn action(&self, out: &mut Markup) {
        out.raw("?step=").show(self.at + 1);
        if self.chosen {
            out.raw("&amp;lang=").text(self.locale);
        }
    }
}

/// How far one is, counted in questions: how many steps are left is not known before the answers are.
fn progress(step: &SurveyStep<'_>, voice: PageLanguage<'_>, out: &mut Markup) {
    if step.at == 0 && !step.steps.may_go_on(0) {
        return;
    }
    let first = step.steps.get(step.at).first();
    let behind = first.and_then(|first| step.survey.questions.iter().position(|one| one.id == first.id));
    out.raw("<progress aria-label=\"").text(voice.words.progress).raw("\" max=\"");
    out.show(step.survey.questions.len())
        .raw("\" value=\"")
        .show(behind.unwrap_or(0))
        .raw("\"></progress>\n");
}

/// Everything that is wrong on this step, at the top, each leading to its field.
fn problems(wrong: &[(&Question, &AnswerProblem)], voice: PageLanguage<'_>, out: &mut Markup) {
    if wrong.is_empty() {
        return;
    }
    out.raw("<div class=\"problems\" id=\"problems\" role=\"alert\" tabindex=\"-1\" autofocus>\n<h2>");
    voice.say(voice.words.problems, out);
    out.raw("</h2>\n<ul>\n");
    for (question, wrong) in wrong {
        out.raw("<li><a href=\"#f-").text(&question.id).raw("\">");
        voice.text(&question.text, out);
        out.raw("</a><br>");
        voice.words.say(wrong, question, out);
        out.raw("</li>\n");
    }
    out.raw("</ul>\n</div>\n");
}

fn form_of(step: &SurveyStep<'_>, voice: PageLanguage<'_>, out: &mut Markup) {
    out.raw("<form method=\"post\" novalidate autocomplete=\"off\" action=\"");
    step.action(out);
    out.raw("\"");
    if step.to_be_opened {
        out.raw(" data-opened=\"../api/SurveyInstances/").show(step.public_id).raw("/opened\"");
    }
    out.raw(">\n");
    for question in step.steps.get(step.at) {
        let wrong = step.wrong_with(question);
        AskedQuestion { question, voice, answers: step.answers, wrong }.write(out);
    }
    // The way on comes first: it is what the Enter key presses.
    out.raw("<div class=\"buttons\">\n<button type=\"submit\" class=\"on\">");
    let more = step.steps.may_go_on(step.at);
    voice.say(if more { voice.words.next } else { voice.words.send }, out);
    out.raw("</button>\n");
    if step.at > 0 {
        out.raw("<button type=\"submit\" name=\".go\" value=\"back\">");
        voice.say(voice.words.back, out);
        out.raw("</button>\n");
    }
    out.raw("</div>\n</form>\n");
}

/// A page that asks nothing, of a survey if one is known, in the locale that a reader wants.
#[must_use]
pub fn end(end: EndPage, survey: Option<&Survey>, locale: &str) -> String {
    let voice = survey.map_or_else(|| PageLanguage::alone(locale), |survey| PageLanguage::of(survey, locale));
    let ends = &voice.words.ends;
    let ([heading, sentence], mark) = match end {
        EndPage::Thanks => (ends.thanks, DONE),
        EndPage::Answered => (ends.answered, DONE),
        EndPage::Over => (ends.over, CLOSED),
        EndPage::Unknown => (ends.unknown, CLOSED),
        EndPage::TooOften => (ends.too_often, CLOSED),
        EndPage::Trouble => (ends.trouble, CLOSED),
    };
    let title = |out: &mut Markup| {
        out.text(heading);
    };
    document(voice, title, |out| {
        if let Some(survey) = survey {
            out.raw("<header>\n");
            languages(voice, survey, None, out);
            out.raw("<p class=\"of\">");
            voice.text(&survey.title, out);
            out.raw("</p>\n</header>\n");
        }
        out.raw("<main class=\"end\">\n").raw(mark).raw("<h1>");
        voice.say(heading, out);
        out.raw("</h1>\n<p>");
        voice.say(sentence, out);
        out.raw("</p>\n</main>\n");
    })
}

const DONE: &str = "<svg class=\"mark done\" viewBox=\"0 0 48 48\" aria-hidden=\"true\" focusable=\"false\">\
    <circle cx=\"24\" cy=\"24\" r=\"22\"/><path d=\"M14 25l7 7 13-15\"/></svg>\n";
const CLOSED: &str = "<svg class=\"mark\" viewBox=\"0 0 48 48\" aria-hidden=\"true\" focusable=\"false\">\
    <circle cx=\"24\" cy=\"24\" r=\"22\"/><path d=\"M24 13v14M24 33v2\"/></svg>\n";
