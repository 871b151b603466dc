//! The layout of every public page: the document, its direction, its title, the choice of languages.

use super::assets::PageAsset;
use super::texts::{PageTexts, name_of};
use crate::http::html::page_text;
use maud::{DOCTYPE, Markup, Render, html};
use punctual::base::locale::{LocalizedText, right_to_left, same};
use punctual::survey::rules::survey::Survey;

/// The language of one page: of the survey's texts and of our own.
#[derive(Clone, Copy, Debug)]
pub struct PageLanguage<'a> {
    /// The locale of the page.
    pub locale: &'a str,
    /// The locale that every text of the survey has.
    pub default: &'a str,
    /// Our own texts.
    pub texts: &'static PageTexts,
}

impl<'a> PageLanguage<'a> {
    /// The language of a page in a locale of a survey.
    pub fn of_survey(survey: &'a Survey, locale: &'a str) -> Self {
        Self { locale, default: &survey.default_locale, texts: PageTexts::of(locale) }
    }

    /// The language of a page without a survey: the reader's, or English where we do not have it.
    pub fn without_survey(wanted: &'a str) -> Self {
        let locale = if PageTexts::has_language(wanted) { wanted } else { "en" };
        Self { locale, default: locale, texts: PageTexts::of(locale) }
    }

    /// A text of the survey, marked if it is not in the page's language.
    pub fn survey_text(&self, texts: &LocalizedText) -> Markup {
        match texts.find(self.locale) {
            Some(text) => html! { (text) },
            None => html! {
                span lang=(self.default) dir=(direction(self.default)) {
                    (texts.get(self.default, self.default))
                }
            },
        }
    }

    /// A text of the survey without a mark, for an attribute or a title.
    pub fn plain_survey_text<'t>(&self, texts: &'t LocalizedText) -> &'t str {
        texts.get(self.locale, self.default)
    }

    /// A text of our own, marked if it is not in the page's language.
    pub fn own_text(&self, text: &'static str) -> Markup {
        if PageTexts::has_language(self.locale) {
            return html! { (text) };
        }
        html! { span lang=(self.texts.language) dir="ltr" { (text) } }
    }
}

fn direction(locale: &str) -> &'static str {
    if right_to_left(locale) { "rtl" } else { "ltr" }
}

/// The place of a page's assets, and whether the page has the script.
#[derive(Clone, Copy, Debug)]
pub struct PageAssets {
    /// Their folder, relative to the page.
    pub folder: &'static str,
    /// Whether there is a script.
    pub script: bool,
}

/// Renders a survey's page.
pub fn survey_document(language: PageLanguage<'_>, title: impl Render, body: Markup) -> String {
    document(language, PageAssets { folder: "assets/", script: true }, title, body)
}

/// Renders a page.
pub fn document(language: PageLanguage<'_>, assets: PageAssets, title: impl Render, body: Markup) -> String {
    page_text(html! {
        (DOCTYPE)
        html lang=(language.locale) dir=(direction(language.locale)) {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="robots" content="noindex";
                meta name="format-detection" content="telephone=no";
                title { (title) }
                link rel="icon" href="data:,";
                link rel="stylesheet" href={ (assets.folder) (PageAsset::style().name) };
                @if assets.script {
                    script src={ (assets.folder) (PageAsset::script().name) } defer {}
                }
            }
            body { div class="sheet" { (body) } }
        }
    })
}

/// Renders the choice of languages, if there is one. `step` is the current step, counted from 1.
pub fn survey_languages(language: PageLanguage<'_>, survey: &Survey, step: Option<usize>) -> Markup {
    html! {
        @if survey.locales.len() > 1 {
            nav class="languages" aria-label=(language.texts.languages) {
                ul {
                    @for locale in &survey.locales {
                        li {
                            a lang=(locale) hreflang=(locale) dir=(direction(locale))
                                href={ "?lang=" (locale) @if let Some(step) = step { "&step=" (step) } }
                                aria-current=[same(locale, language.locale).then_some("true")]
                                { (name_of(locale, &survey.locales)) }
                        }
                    }
                }
            }
        }
    }
}
