//! Locales: how one is written, and which of several texts a reader gets.
//!
//! A locale is a BCP 47 tag of language, script and region, such as `ar`, `en-US` or `zh-Hant-TW`. Tags are
//! compared without regard to case. The meaning of a tag is not looked up: `xx` passes.

use serde_json::Value;
use std::collections::BTreeMap;

/// Languages whose script runs from right to left unless the tag names another script.
const RIGHT_TO_LEFT: [&str; 14] =
    ["ar", "arc", "ckb", "dv", "fa", "he", "iw", "nqo", "ps", "sd", "syr", "ug", "ur", "yi"];
const RIGHT_TO_LEFT_SCRIPTS: [&str; 7] = ["arab", "hebr", "syrc", "thaa", "nkoo", "adlm", "rohg"];

/// Returns whether a text is a locale.
///
/// # Errors
/// A sentence that says what would be right.
pub fn check(text: &str) -> Result<(), String> {
    if is_tag(text) {
        return Ok(());
    }
    let shown = super::document::quote(text);
    let mended = text.replace('_', "-");
    if is_tag(&mended) {
        return Err(format!("`{shown}` is not a locale: write `{mended}`"));
    }
    Err(format!("`{shown}` is not a locale: write a language such as `ar`, or with a region `en-US`"))
}

fn is_tag(text: &str) -> bool {
    let mut parts = text.split('-');
    let language = parts.next().is_some_and(|part| (2..=3).contains(&part.len()) && letters(part));
    let rest: Vec<&str> = parts.collect();
    language && rest.len() <= 3 && rest.iter().all(|part| is_subtag(part))
}

/// A script (`Hant`), a region (`US`, `419`) or a variant (`1996`, `valencia`).
fn is_subtag(part: &str) -> bool {
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    match part.len() {
        2 | 4 if letters(part) => true,
        3 | 4 => digits(part),
        5..=8 => part.bytes().all(|b| b.is_ascii_alphanumeric()),
        _ => false,
    }
}

fn letters(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphabetic())
}

/// Returns whether two tags are the same.
#[must_use]
pub fn same(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other)
}

/// The language of a tag.
#[must_use]
pub fn language(tag: &str) -> &str {
    tag.split('-').next().unwrap_or(tag)
}

/// Languages whose texts are found under another tag.
const ALIASES: [(&str, &str); 5] = [("iw", "he"), ("in", "id"), ("no", "nb"), ("nn", "nb"), ("tl", "fil")];

/// Regions in which Chinese is written in traditional characters, unless the tag names the other script.
const TRADITIONAL: [&str; 3] = ["tw", "hk", "mo"];

/// The tag under which tables of texts by language have a locale: Chinese by its script, others without
/// script and region, and languages with an older tag or another written form by the usual one.
///
/// ```
/// use punctual::base::locale::text_language;
/// assert_eq!((text_language("pt-BR"), text_language("iw")), ("pt", "he"));
/// assert_eq!((text_language("zh-TW"), text_language("zh-Hans-HK")), ("zh-Hant", "zh"));
/// ```
#[must_use]
pub fn text_language(tag: &str) -> &str {
    let language = language(tag);
    let has = |subtag: &str| tag.split('-').skip(1).any(|part| same(part, subtag));
    if same(language, "zh") {
        let is_traditional = has("hant") || (!has("hans") && TRADITIONAL.iter().any(|region| has(region)));
        return if is_traditional { "zh-Hant" } else { "zh" };
    }
    let alias = ALIASES.iter().find(|(other, _)| same(other, language));
    alias.map_or(language, |(_, own)| own)
}

/// Returns whether a text in this locale runs from right to left.
///
/// ```
/// use punctual::base::locale::right_to_left;
/// assert!(right_to_left("ar-IQ") && right_to_left("ku-Arab"));
/// assert!(!right_to_left("en") && !right_to_left("uz-Latn"));
/// ```
#[must_use]
pub fn right_to_left(tag: &str) -> bool {
    let among = |list: &[&str], part: &str| list.iter().any(|known| same(known, part));
    match tag.split('-').skip(1).find(|part| part.len() == 4 && letters(part)) {
        Some(script) => among(&RIGHT_TO_LEFT_SCRIPTS, script),
        None => among(&RIGHT_TO_LEFT, language(tag)),
    }
}

/// The one of `offered` for a reader who wants `wanted`: the same tag, else its language, else
/// another region of that language, else `default`.
#[must_use]
pub fn choose<'a>(offered: &'a [String], wanted: Option<&str>, default: &'a str) -> &'a str {
    let Some(wanted) = wanted else { return default };
    let find = |fits: &dyn Fn(&str) -> bool| offered.iter().map(String::as_str).find(|tag| fits(tag));
    find(&|tag| same(tag, wanted))
        .or_else(|| find(&|tag| same(tag, language(wanted))))
        .or_else(|| find(&|tag| same(language(tag), language(wanted))))
        .unwrap_or(default)
}

/// One text in several locales.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalizedText(BTreeMap<String, String>);

impl LocalizedText {
    /// The text in a locale, else in the default one.
    #[must_use]
    pub fn get(&self, tag: &str, default: &str) -> &str {
        self.find(tag).or_else(|| self.find(default)).unwrap_or_default()
    }

    /// The text in just this locale, if it is there and not blank.
    #[must_use]
    pub fn find(&self, tag: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| same(key, tag)).map(|(_, text)| text.as_str())
    }

    pub(crate) fn insert(&mut self, tag: &str, text: &str) {
        self.0.insert(tag.to_owned(), text.to_owned());
    }

    /// As it is written in a definition.
    #[must_use]
    pub fn to_json(&self) -> Value {
        self.0.iter().map(|(tag, text)| (tag.clone(), Value::from(text.as_str()))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TRG-3: a locale that is none is refused with what would be right.
    #[test]
    fn trg_3_locales_are_told_from_other_words() {
        for tag in ["ar", "en", "en-US", "zh-Hant-TW", "es-419", "de-1996", "ckb", "ca-valencia", "EN-us"] {
            assert_eq!(check(tag), Ok(()), "{tag}");
        }
        assert_eq!(check("en_US").unwrap_err(), "`en_US` is not a locale: write `en-US`");
        for tag in ["", "e", "english", "en-", "-en", "en--US", "en-U", "e1", "عربي", "en-US-x-y-z", "en US"]
        {
            assert!(check(tag).unwrap_err().contains("write a language such as `ar`"), "{tag}");
        }
    }

    /// TRG-19: a reader gets the nearest locale that the survey speaks.
    #[test]
    fn trg_19_a_reader_gets_the_nearest_locale() {
        let offered = ["en", "ar", "pt-BR"].map(String::from);
        let table = [
            (Some("ar"), "ar"),
            (Some("AR-iq"), "ar"),
            (Some("en-GB"), "en"),
            (Some("pt"), "pt-BR"),
            (Some("pt-PT"), "pt-BR"),
            (Some("fr"), "en"),
            (Some(""), "en"),
            (None, "en"),
        ];
        for (wanted, got) in table {
            assert_eq!(choose(&offered, wanted, "en"), got, "{wanted:?}");
        }
    }

    /// TRG-19: right to left where the locale is.
    #[test]
    fn trg_19_the_direction_follows_the_script() {
        for tag in ["ar", "AR-SA", "fa", "he-IL", "ur", "ku-Arab", "az-arab-IR", "ckb"] {
            assert!(right_to_left(tag), "{tag}");
        }
        for tag in ["en", "ku", "uz-Latn", "ar-Latn", "tr", ""] {
            assert!(!right_to_left(tag), "{tag}");
        }
    }

    #[test]
    fn a_text_falls_back_to_the_default_locale() {
        let mut texts = LocalizedText::default();
        texts.insert("en", "Thank you");
        texts.insert("ar", "شكرا");
        assert_eq!(texts.get("AR", "en"), "شكرا");
        assert_eq!(texts.get("fr", "en"), "Thank you");
        assert_eq!(texts.to_json(), serde_json::json!({"en": "Thank you", "ar": "شكرا"}));
    }
}
