//! What a reader asks for beside the link: a step, a language.

use axum::extract::FromRequestParts;
use axum::http::header::{ACCEPT_LANGUAGE, LOCATION};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use punctual::base::locale;
use punctual::survey::rules::survey::Survey;
use std::convert::Infallible;

/// Languages of a browser that are looked at.
const LANGUAGES_MAX: usize = 20;

/// What a reader asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReaderPreferences {
    /// The step, from 0.
    pub step: Option<usize>,
    /// Whether they have just handed their answers in.
    pub done: bool,
    /// The language they chose here.
    lang: Option<String>,
    /// The languages of their browser, the best first.
    languages: Vec<String>,
}

impl<S: Send + Sync> FromRequestParts<S> for ReaderPreferences {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::of(parts.uri.query().unwrap_or_default(), &parts.headers))
    }
}

impl ReaderPreferences {
    fn of(query: &str, headers: &HeaderMap) -> Self {
        let mut reader = Self { languages: languages(headers), ..Self::default() };
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match name.as_ref() {
                "step" => reader.step = value.parse().ok().and_then(|step: usize| step.checked_sub(1)),
                "lang" => reader.lang = Some(value.into_owned()).filter(|tag| locale::check(tag).is_ok()),
                "done" => reader.done = true,
                _ => {}
            }
        }
        reader
    }

    /// The locale of a survey for this reader, and whether it was chosen here: what they chose, else the
    /// recipient's, else the browser's, else the default.
    pub fn locale<'s>(&self, survey: &'s Survey, recipient: Option<&str>) -> (&'s str, bool) {
        let speaks = |wanted: &str| {
            let own = locale::language(wanted);
            survey.locales.iter().any(|offered| locale::same(locale::language(offered), own))
        };
        if let Some(lang) = self.lang.as_deref().filter(|lang| speaks(lang)) {
            return (survey.locale_for(Some(lang)), true);
        }
        let browser = || self.languages.iter().map(String::as_str).find(|lang| speaks(lang));
        let wanted = recipient.filter(|lang| speaks(lang)).or_else(browser);
        (survey.locale_for(wanted), false)
    }

    /// The locale for a page without a survey whose reader is known: what they chose here, else their own.
    pub fn locale_for<'a>(&'a self, recipient: Option<&'a str>) -> &'a str {
        self.lang.as_deref().or(recipient).unwrap_or_else(|| self.preferred_locale())
    }

    /// The locale for a page without a survey.
    pub fn preferred_locale(&self) -> &str {
        let browser = self.languages.first().map(String::as_str);
        self.lang.as_deref().or(browser).unwrap_or("en")
    }

    /// To a step, from 1.
    pub fn to_step(&self, step: usize) -> Response {
        self.to(&format!("?step={step}"))
    }

    /// To the page that says thank you.
    pub fn to_thanks(&self) -> Response {
        self.to("?done=1")
    }

    /// Relative to the page, so that it may stand behind a proxy under any path.
    fn to(&self, place: &str) -> Response {
        let lang = self.lang.as_ref().map(|lang| format!("&lang={lang}")).unwrap_or_default();
        (StatusCode::SEE_OTHER, [(LOCATION, format!("{place}{lang}"))]).into_response()
    }
}

/// The languages that a browser asks for, the best first.
fn languages(headers: &HeaderMap) -> Vec<String> {
    let text = headers.get(ACCEPT_LANGUAGE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut all: Vec<(f32, &str)> = text.split(',').take(LANGUAGES_MAX).filter_map(weighed).collect();
    all.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    all.into_iter().map(|(_, tag)| tag.to_owned()).collect()
}

fn weighed(entry: &str) -> Option<(f32, &str)> {
    let (tag, rest) = entry.split_once(';').unwrap_or((entry, ""));
    let weight = rest.trim().strip_prefix("q=").map_or(Some(1.0), |q| q.trim().parse().ok())?;
    let tag = tag.trim();
    (weight > 0.0 && locale::check(tag).is_ok()).then_some((weight, tag))
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual::Problems;
    use serde_json::json;

    fn reader(query: &str, languages: &str) -> ReaderPreferences {
        ReaderPreferences::of(query, &HeaderMap::from_iter([(ACCEPT_LANGUAGE, languages.parse().unwrap())]))
    }

    fn survey() -> Survey {
        let definition = json!({"title": {"en": "x"}, "locales": ["en", "ar", "pt-BR"], "defaultLocale": "en",
            "questions": [], "triggers": []});
        Survey::read(&definition, &mut Problems::default(), &mut Problems::default()).unwrap()
    }

    /// TRG-19: what a reader chose goes before the recipient's locale, that before the browser's.
    #[test]
    fn trg_19_a_page_is_in_the_readers_language() {
        let table = [
            ("", "", None, ("en", false)),
            ("", "fr, ar;q=0.8, en;q=0.9", None, ("en", false)),
            ("", "fr, ar;q=0.8", None, ("ar", false)),
            ("", "ar;q=0, *;q=0.5, pt", None, ("pt-BR", false)),
            ("", "en", Some("ar-IQ"), ("ar", false)),
            ("", "ar", Some("fr"), ("ar", false)),
            ("lang=en", "ar", Some("ar"), ("en", true)),
            ("lang=fr", "en", Some("ar"), ("ar", false)),
            ("lang=%22%3E%3Cscript%3E", "en", None, ("en", false)),
        ];
        for (query, languages, recipient, want) in table {
            assert_eq!(reader(query, languages).locale(&survey(), recipient), want, "{query} {languages}");
        }
    }

    #[test]
    fn a_step_is_counted_from_one_outside() {
        for (query, step) in [
            ("step=1", Some(0)),
            ("step=0", None),
            ("step=x", None),
            ("", None),
            ("step=99999999999999999999", None),
        ] {
            assert_eq!(reader(query, "en").step, step, "{query}");
        }
    }

    #[test]
    fn ways_on_keep_the_language() {
        let to =
            |query: &str| reader(query, "ar").to_step(2).headers()[LOCATION].to_str().unwrap().to_owned();
        assert_eq!((to("lang=ar"), to("step=4")), ("?step=2&lang=ar".into(), "?step=2".into()));
        assert_eq!(reader("lang=a%0d%0aSet-Cookie:x", "en").to_thanks().headers()[LOCATION], "?done=1");
    }
}
