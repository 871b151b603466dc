//! Filters: the changes of a value on its way into a text.
//!
//! | filter | makes |
//! |---|---|
//! | `upper`, `lower` | upper or lower case |
//! | `default:"…"` | these words where there is no value, or an empty one |
//! | `number`, `number:2` | a number in the locale's form, with so many decimals |
//! | `money:USD`, `money:price.currency` | an amount in a currency, which a code or another value names |
//! | `date`, `date:full`, `date:"%d/%m/%Y"` | a date or time, see [`date`](super::date) |
//!
//! Numbers and amounts keep all digits of their text.

use crate::base::decimal::Decimal;
use crate::base::document::quote;
use crate::base::facts::check_path;
use crate::base::limits;
use crate::base::locale;
use crate::base::suggestion::hint;
use crate::delivery::rules::template::currency::{self, Currency};
use crate::delivery::rules::template::date::{self, DateFormat};
use crate::delivery::rules::template::forms::{self, Forms};
use crate::delivery::rules::template::values::{ResolvedValue, TemplateValues};
use std::borrow::Cow;

const NAMES: [&str; 6] = ["upper", "lower", "default", "number", "money", "date"];

/// Decimals that a number is shown with: more are noise.
const DECIMALS_MAX: usize = 10;

/// One filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Filter {
    Upper,
    Lower,
    Default(String),
    Number { decimals: Option<usize> },
    Money(CurrencySource),
    Date(DateFormat),
}

/// What names the currency of an amount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CurrencySource {
    Code(Currency),
    /// The value of another key.
    Key(String),
}

/// What a filter needs beside the value.
pub(crate) struct Context<'v, 'n> {
    pub(crate) values: &'v TemplateValues<'v>,
    pub(crate) locale: &'v str,
    /// How many names may still be looked at.
    pub(crate) names: &'n mut usize,
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
            ("money", Some(source)) => CurrencySource::parse(source).map(Self::Money),
            ("money", None) => Err("`money` needs a currency: write money:USD, or the key of one".into()),
            ("date", argument) => DateFormat::parse(argument.unwrap_or("long")).map(Self::Date),
            ("", _) => Err("a filter is missing behind the `|`".into()),
            _ => Err(format!("`{}` is not a filter{}", quote(name), hint(name, &NAMES))),
        }
    }

    /// The key whose value the filter needs beside the one it changes.
    pub(crate) fn key(&self) -> Option<&str> {
        match self {
            Self::Money(CurrencySource::Key(key)) => Some(key),
            _ => None,
        }
    }

    /// Says that the filter shows a value otherwise than a language has it.
    pub(crate) fn doubt(&self, language: &str) -> Option<String> {
        match self {
            Self::Upper | Self::Lower | Self::Default(_) | Self::Date(DateFormat::Iso) => None,
            Self::Date(DateFormat::Pattern(pattern)) => {
                let doubtful =
                    date::names_in_english(pattern) && !locale::same(locale::language(language), "en");
                let shown = quote(pattern);
                doubtful.then(|| {
                    format!("`{shown}` has names in English: write date:full for those of `{language}`")
                })
            }
            filter => forms::doubt(filter, language),
        }
    }

    /// Applies the filter to a value.
    pub(crate) fn apply<'v>(
        &'v self,
        value: Option<Cow<'v, str>>,
        context: &mut Context<'_, '_>,
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
            Self::Number { .. } | Self::Money(_) | Self::Date(_) => self.localized(&value, context, warn),
        };
        if made.is_none() {
            let wanted = match self {
                Self::Date(_) => "a date or time for this",
                _ => "a number",
            };
            warn(&format!("is not {wanted}, and was left as it is"));
        }
        Some(made.map_or(value, Cow::Owned))
    }

    /// A value in the forms of a locale; `None` if it is not what the filter takes.
    fn localized(
        &self,
        value: &str,
        context: &mut Context<'_, '_>,
        warn: &mut impl FnMut(&str),
    ) -> Option<String> {
        let forms = forms::find(context.locale, context.values.default_locale(), warn);
        match self {
            Self::Date(format) => format.show(value, context.values.shown_in(), &forms),
            Self::Number { decimals: None } => forms.number(&Decimal::parse(value)?),
            Self::Number { decimals: Some(places) } => forms.number(&Decimal::parse(value)?.round(*places)),
            Self::Money(source) => source.show(&Decimal::parse(value)?, context, &forms, warn),
            Self::Upper | Self::Lower | Self::Default(_) => None,
        }
    }
}

impl CurrencySource {
    /// Reads a code, in upper or lower case, or a key.
    fn parse(text: &str) -> Result<Self, String> {
        if let Some(currency) = Currency::find(text) {
            return Ok(Self::Code(currency));
        }
        if currency::is_code(text) {
            return Err(currency::refusal(text));
        }
        let fine = |c: char| c.is_alphanumeric() || "_-.@$".contains(c);
        if let Some(c) = text.chars().find(|c| !fine(*c)) {
            let (shown, c) = (quote(text), quote(&c.to_string()));
            return Err(format!(
                "`{shown}` is neither a currency such as USD nor a key: `{c}` cannot be in one"
            ));
        }
        check_path(text).map(|()| Self::Key(text.to_owned()))
    }

    /// An amount in the currency; the number alone where there is none.
    fn show(
        &self,
        amount: &Decimal,
        context: &mut Context<'_, '_>,
        forms: &Forms,
        warn: &mut impl FnMut(&str),
    ) -> Option<String> {
        let Some(currency) = self.currency(context, warn) else { return forms.number(amount) };
        let places = currency.decimals();
        if amount.has_more_than(places) {
            warn(&format!("has more than the {places} decimals of {currency}, and was rounded"));
        }
        forms.money(&amount.clone().round(places), currency)
    }

    fn currency(&self, context: &mut Context<'_, '_>, warn: &mut impl FnMut(&str)) -> Option<Currency> {
        let key = match self {
            Self::Code(currency) => return Some(*currency),
            Self::Key(key) => key,
        };
        let found = context.values.get(key, context.names).and_then(ResolvedValue::text);
        let Some(code) = found else {
            warn(&format!("is shown without a currency: `{{{{{}}}}}` has no value", quote(key)));
            return None;
        };
        let code = code.trim();
        let found = Currency::find(code);
        if found.is_none() {
            warn(&format!("has a currency that is not known: {}", currency::refusal(code)));
        }
        found.or_else(|| Currency::unknown(code))
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
