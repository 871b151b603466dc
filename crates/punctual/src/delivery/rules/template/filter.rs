//! Filters: the changes of a value on its way into a text.
//!
//! | filter | makes |
//! |---|---|
//! | `upper`, `lower` | upper or lower case |
//! | `default:"…"` | these words where there is no value, or an empty one |
//! | `number`, `number:2` | a number with the locale's separators, with so many decimals |
//! | `date`, `date:long`, `date:"%d/%m/%Y"` | a date or time, see [`date`](super::date) |

use crate::base::document::quote;
use crate::base::limits;
use crate::base::nearest::hint;
use crate::base::{locale, number};
use crate::delivery::rules::template::date::Format;
use crate::delivery::rules::template::values::Values;
use serde_json::{Number, Value};
use std::borrow::Cow;

const NAMES: [&str; 5] = ["upper", "lower", "default", "number", "date"];

/// Decimals that a number is shown with: more are noise.
const DECIMALS_MAX: usize = 10;

/// One filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Filter {
    Upper,
    Lower,
    Default(String),
    Number { decimals: Option<usize> },
    Date(Format),
}

impl Filter {
    /// Reads a filter, such as `default:"there"`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (name, argument) = match text.split_once(':') {
            Some((name, argument)) => (name.trim(), Some(unquote(argument.trim())?)),
            None => (text, None),
        };
        if argument.is_some_and(|argument| argument.len() > limits::TEMPLATE_ARGUMENT_BYTES_MAX) {
            let most = limits::TEMPLATE_ARGUMENT_BYTES_MAX;
            return Err(format!("what follows `{name}:` is longer than {most} bytes"));
        }
        match (name.to_ascii_lowercase().as_str(), argument) {
            ("upper", None) => Ok(Self::Upper),
            ("lower", None) => Ok(Self::Lower),
            ("upper" | "lower", Some(_)) => Err(format!("`{name}` takes nothing behind a `:`")),
            ("default", Some(words)) => Ok(Self::Default(words.to_owned())),
            ("default", None) => Err("`default` needs its words: write default:\"…\"".into()),
            ("number", None) => Ok(Self::Number { decimals: None }),
            ("number", Some(digits)) => decimals(digits).map(|n| Self::Number { decimals: Some(n) }),
            ("date", argument) => Format::parse(argument.unwrap_or("medium")).map(Self::Date),
            ("", _) => Err("a filter is missing behind the `|`".into()),
            _ => Err(format!("`{}` is not a filter{}", quote(name), hint(name, &NAMES))),
        }
    }

    /// Applies the filter to a value.
    pub(crate) fn apply<'v>(
        &'v self,
        value: Option<Cow<'v, str>>,
        values: &Values<'_>,
        locale: &str,
        warn: &mut impl FnMut(&str),
    ) -> Option<Cow<'v, str>> {
        if let Self::Default(words) = self {
            return value.filter(|text| !text.trim().is_empty()).or(Some(Cow::Borrowed(words)));
        }
        let value = value?;
        let made = match self {
            Self::Upper => Some(value.to_uppercase()),
            Self::Lower => Some(value.to_lowercase()),
            Self::Default(_) => None,
            Self::Number { decimals } => grouped(&value, *decimals, locale),
            Self::Date(format) => format.show(&value, values.shown_in(), locale),
        };
        if made.is_none() {
            let wanted =
                if matches!(self, Self::Number { .. }) { "a number" } else { "a date or time for this" };
            warn(&format!("is not {wanted}, and was left as it is"));
        }
        Some(made.map_or(value, Cow::Owned))
    }
}

fn unquote(text: &str) -> Result<&str, String> {
    let inner = text.strip_prefix('"');
    match inner {
        Some(inner) => inner
            .strip_suffix('"')
            .filter(|inner| !inner.contains('"'))
            .ok_or_else(|| format!("`{}` is not one text in quotes", quote(text))),
        None if text.contains('"') => Err(format!("`{}` is not one text in quotes", quote(text))),
        None if text.is_empty() => Err("something is missing behind the `:`".into()),
        None => Ok(text),
    }
}

fn decimals(text: &str) -> Result<usize, String> {
    let found = text.parse().ok().filter(|n| *n <= DECIMALS_MAX);
    found.ok_or_else(|| format!("`{}` decimals: write a number from 0 to {DECIMALS_MAX}", quote(text)))
}

/// A number with the separators of a locale.
fn grouped(text: &str, decimals: Option<usize>, tag: &str) -> Option<String> {
    let number = number::read(&Value::from(text))?;
    let plain = match decimals {
        Some(places) => rounded(&number, places),
        None => number.to_string(),
    };
    if plain.contains('e') {
        return Some(plain);
    }
    let (group, point) = separators(tag);
    let (sign, digits) = plain.strip_prefix('-').map_or(("", plain.as_str()), |digits| ("-", digits));
    let (whole, fraction) = digits.split_once('.').map_or((digits, None), |(w, f)| (w, Some(f)));
    let mut out = sign.to_owned();
    for (n, digit) in whole.chars().enumerate() {
        if n > 0 && (whole.len() - n).is_multiple_of(3) {
            out.push(group);
        }
        out.push(digit);
    }
    if let Some(fraction) = fraction {
        out.push(point);
        out.push_str(fraction);
    }
    Some(out)
}

fn rounded(number: &Number, places: usize) -> String {
    match number.as_i64() {
        Some(whole) if places == 0 => whole.to_string(),
        Some(whole) => format!("{whole}.{}", "0".repeat(places)),
        None => {
            let made = format!("{:.places$}", number.as_f64().unwrap_or_default());
            // A reader must not see -0.
            if made.trim_start_matches(['-', '0', '.']).is_empty() { made.replace('-', "") } else { made }
        }
    }
}

/// Returns the separators of thousands and of decimals.
fn separators(tag: &str) -> (char, char) {
    match locale::language(tag).to_ascii_lowercase().as_str() {
        "de" | "es" | "it" | "nl" | "pt" | "tr" | "id" | "da" | "el" | "ro" | "hr" => ('.', ','),
        "fr" | "ru" | "uk" | "pl" | "cs" | "sk" | "sv" | "fi" | "nb" | "no" | "bg" | "hu" => ('\u{a0}', ','),
        _ => (',', '.'),
    }
}
