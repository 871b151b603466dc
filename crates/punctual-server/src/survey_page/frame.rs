//! What is around every page: the document, its direction, its title, the choice of languages.

use super::files::PageFile;
use super::markup::Markup;
use super::words::{PageWords, name_of};
use punctual::base::locale::{LocalizedText, right_to_left, same};
use punctual::survey::rules::survey::Survey;

/// Room for a usual page.
const PAGE_BYTES: usize = 16 * 1024;

/// The language of one page, and how things are said in it.
#[derive(Clone, Copy, Debug)]
pub struct PageLanguage<'a> {
    /// The locale of the page.
    pub locale: &'a str,
    /// The one that every text of the survey has.
    pub default: &'a str,
    /// Our own words.
    pub words: &'static PageWords,
}

impl<'a> PageLanguage<'a> {
    /// A voice in a locale of a survey.
    pub fn of(survey: &'a Survey, locale: &'a str) -> Self {
        Self { locale, default: &survey.default_locale, words: PageWords::of(locale) }
    }

    /// A voice for a page without a survey, in the first of our languages that a reader wants.
    pub fn alone(wanted: &'a str) -> Self {
        let locale = if PageWords::speak(wanted) { wanted } else { "en" };
        Self { locale, default: locale, words: PageWords::of(locale) }
    }

    /// A text of the survey; marked if it is not in the page's language.
    pub fn text(&self, texts: &LocalizedText, out: &mut Markup) {
        match texts.find(self.locale) {
            Some(text) => out.text(text),
            None => {
                out.raw("<span lang=\"").text(self.default).raw("\" dir=\"").raw(direction(self.default));
                out.raw("\">").text(texts.get(self.default, self.default)).raw("</span>")
            }
        };
    }

    /// A text of the survey without markup, for an attribute or a title.
    pub fn plain<'t>(&self, texts: &'t LocalizedText) -> &'t str {
        texts.get(self.locale, self.default)
    }

    /// Words of our own; marked if they are not in the page's language.
    pub fn say(&self, words: &'static str, out: &mut Markup) {
        if PageWords::speak(self.locale) {
            out.text(words);
        } else {
            out.raw("<span lang=\"")
                .text(self.words.language)
                .raw("\" dir=\"ltr\">")
                .text(words)
                .raw("</span>");
        }
    }
}

const fn direction_of(rtl: bool) -> &'static str {
    if rtl { "rtl" } else { "ltr" }
}

fn direction(locale: &str) -> &'static str {
    direction_of(right_to_left(locale))
}

/// Where a page finds its files, and whether it has the script.
#[derive(Clone, Copy, Debug)]
pub struct PageFiles {
    /// Their place, seen from the page.
    pub at: &'static str,
    /// Whether there is a script.
    pub script: bool,
}

/// Writes a whole document. `title` is its name, without markup; `body` writes what is in it.
pub fn document(
    voice: PageLanguage<'_>,
    title: impl FnOnce(&mut Markup),
    body: impl FnOnce(&mut Markup),
) -> String {
    sheet(voice, PageFiles { at: "assets/", script: true }, title, body)
}

/// The same for a page that stands elsewhere.
pub fn sheet(
    voice: PageLanguage<'_>,
    files: PageFiles,
    title: impl FnOnce(&mut Markup),
    body: impl FnOnce(&mut Markup),
) -> String {
    let mut out = Markup::with_room(PAGE_BYTES);
    out.raw("<!doctype html>\n<html lang=\"")
        .text(voice.locale)
        .raw("\" dir=\"")
        .raw(direction(voice.locale));
    out.raw(
        "\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta name=\"robots\" content=\"noindex\">\n\
         <meta name=\"format-detection\" content=\"telephone=no\">\n<title>",
    );
    title(&mut out);
    out.raw("</title>\n<link rel=\"icon\" href=\"data:,\">\n<link rel=\"stylesheet\" href=\"").raw(files.at);
    out.text(&PageFile::style().name).raw("\">\n");
    if files.script {
        out.raw("<script src=\"").raw(files.at).text(&PageFile::script().name).raw("\" defer></script>\n");
    }
    out.raw("</head>\n<body>\n<div class=\"sheet\">\n");
    body(&mut out);
    out.raw("</div>\n</body>\n</html>\n");
    out.into_text()
}

/// Writes the choice of languages, if there is one. `step` is where one stays, counted from 1.
pub fn languages(voice: PageLanguage<'_>, survey: &Survey, step: Option<usize>, out: &mut Markup) {
    if survey.locales.len() < 2 {
        return;
    }
    out.raw("<nav class=\"languages\" aria-label=\"").text(voice.words.languages).raw("\">\n<ul>\n");
    for locale in &survey.locales {
        out.raw("<li><a lang=\"").text(locale).raw("\" hreflang=\"").text(locale).raw("\" dir=\"");
        out.raw(direction(locale)).raw("\" href=\"?lang=").text(locale);
        if let Some(step) = step {
            out.raw("&amp;step=").show(step);
        }
        out.raw("\"").raw_if(same(locale, voice.locale), " aria-current=\"true\"");
        out.raw(">").text(name_of(locale, &survey.locales)).raw("</a></li>\n");
    }
    out.raw("</ul>\n</nav>\n");
}
