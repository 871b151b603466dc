//! Forms from CLDR, by ICU4X.
//!
//! Dates are those of `icu_datetime`, with the Gregorian calendar in every locale: names, order, digits and
//! clock are the locale's. Numbers are those of `icu_decimal`: groups of three or of lakh and crore, decimal
//! sign, digits. Money has its symbol and its place from `icu_experimental`, whose API is not stable, so it
//! is named in this file only.
//!
//! Finding a locale's data costs microseconds and formatting does not, so each thread keeps the forms of the
//! [`KEPT_MAX`] locales that it met last. The marks that keep a minus and a number together in a text from
//! right to left are CLDR's own.
//!
//! In dates the narrow no-break space of CLDR is a plain one, as browsers have it: one would make an SMS
//! twice as dear.

use crate::base::decimal::Decimal;
use crate::delivery::rules::template::currency::Currency;
use crate::delivery::rules::template::date::{DateFormat, DateLength};
use crate::delivery::rules::template::filter::Filter;
use fixed_decimal::Decimal as FixedDecimal;
use icu_calendar::{Date, Gregorian};
use icu_datetime::fieldsets::enums::CompositeDateTimeFieldSet;
use icu_datetime::fieldsets::{E, T, YMD, YMDE};
use icu_datetime::input;
use icu_datetime::options::YearStyle;
use icu_datetime::{DateTimeFormatterPreferences, FixedCalendarDateTimeFormatter};
use icu_decimal::DecimalFormatter;
use icu_experimental::dimension::currency::CurrencyType;
use icu_experimental::dimension::currency::formatter::CurrencyFormatter;
use icu_locale_core::{LanguageIdentifier, Locale, langid};
use jiff::civil::DateTime;
use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::LazyLock;

/// Locales that a thread keeps: more than a tenant has, and no recipient's tag can make it many.
const KEPT_MAX: usize = 64;

/// Currencies that are kept for a locale.
const CURRENCIES_KEPT_MAX: usize = 16;

/// A locale with a language, a script and a region has 11 bytes; variants are for linguists.
const TAG_BYTES_MAX: usize = 35;

type DateForm = FixedCalendarDateTimeFormatter<Gregorian, CompositeDateTimeFieldSet>;
type MoneyForm = CurrencyFormatter<DecimalFormatter>;

/// The forms of one locale, each made when it is first needed.
pub(crate) struct Forms {
    locale: Locale,
    dates: [OnceCell<Option<DateForm>>; 10],
    number: OnceCell<Option<DecimalFormatter>>,
    money: RefCell<Vec<(Currency, Option<Rc<MoneyForm>>)>>,
}

thread_local! {
    /// By the tag as it was written; none for a locale that is not known.
    static KEPT: RefCell<HashMap<Box<str>, Option<Rc<Forms>>>> = RefCell::new(HashMap::new());
}

impl Forms {
    /// The forms of a locale, if CLDR has any of its language.
    pub(crate) fn find(tag: &str) -> Option<Rc<Self>> {
        if tag.len() > TAG_BYTES_MAX {
            return None;
        }
        KEPT.with_borrow_mut(|kept| {
            if let Some(forms) = kept.get(tag) {
                return forms.clone();
            }
            if kept.len() >= KEPT_MAX {
                kept.clear();
            }
            let forms = Self::load(tag).map(Rc::new);
            kept.insert(tag.into(), forms.clone());
            forms
        })
    }

    /// English ones.
    pub(crate) fn english() -> Rc<Self> {
        Self::find("en").unwrap_or_else(|| Rc::new(Self::of(Locale::from(langid!("en")))))
    }

    fn load(tag: &str) -> Option<Self> {
        let id: LanguageIdentifier = tag.parse().ok()?;
        let forms = Self::of(Locale::from(id));
        // The data of no language at all stands in for that of an unknown one.
        let sample = forms.date(&SAMPLE_FORM, SAMPLE)?;
        (Some(&sample) != UNKNOWN.as_ref()).then_some(forms)
    }

    fn of(locale: Locale) -> Self {
        Self { locale, dates: Default::default(), number: OnceCell::new(), money: RefCell::default() }
    }

    /// A date or time; `None` for the forms that are the same everywhere.
    pub(crate) fn date(&self, format: &DateFormat, at: DateTime) -> Option<String> {
        let form = self.dates.get(place(format)?)?.get_or_init(|| date_form((&self.locale).into(), format));
        let day =
            Date::try_new_gregorian(at.year().into(), at.month().unsigned_abs(), at.day().unsigned_abs());
        let [hour, minute, second] = [at.hour(), at.minute(), at.second()].map(i8::unsigned_abs);
        let time = input::Time::try_new(hour, minute, second, 0);
        let shown = form.as_ref()?.format(&input::DateTime { date: day.ok()?, time: time.ok()? }).to_string();
        Some(if shown.contains('\u{202f}') { shown.replace('\u{202f}', " ") } else { shown })
    }

    /// A number with as many decimals as it has.
    pub(crate) fn number(&self, number: &Decimal) -> Option<String> {
        let make = || DecimalFormatter::try_new((&self.locale).into(), Default::default()).ok();
        let form = self.number.get_or_init(make).as_ref()?;
        Some(form.format(&fixed(number)?).to_string())
    }

    /// An amount with the symbol of its currency.
    pub(crate) fn money(&self, amount: &Decimal, currency: Currency) -> Option<String> {
        let form = self.money_form(currency)?;
        Some(form.format_fixed_decimal(&fixed(amount)?).to_string())
    }

    fn money_form(&self, currency: Currency) -> Option<Rc<MoneyForm>> {
        let mut kept = self.money.borrow_mut();
        if let Some((_, form)) = kept.iter().find(|(known, _)| *known == currency) {
            return form.clone();
        }
        if kept.len() >= CURRENCIES_KEPT_MAX {
            kept.clear();
        }
        let kind = CurrencyType::try_from_str(&currency.code().to_ascii_lowercase()).ok();
        let make = |kind| CurrencyFormatter::try_new_symbol((&self.locale).into(), kind, Default::default());
        let form = kind.and_then(|kind| make(kind).ok()).map(Rc::new);
        kept.push((currency, form.clone()));
        form
    }
}

/// Says that the values of a filter are shown as in another language.
pub(crate) fn doubt(_: &Filter, language: &str) -> Option<String> {
    let unknown = Forms::find(language).is_none();
    let shown = "dates, numbers and money are shown as in the tenant's default locale";
    unknown.then(|| format!("the forms of the locale `{language}` are not known: {shown}"))
}

const SAMPLE_FORM: DateFormat = DateFormat::Date(DateLength::Long);
const SAMPLE: DateTime = DateTime::constant(2026, 5, 14, 0, 0, 0, 0);

/// How the sample is shown in no language at all: `2026 M05 14`.
static UNKNOWN: LazyLock<Option<String>> =
    LazyLock::new(|| Forms::of(Locale::UNKNOWN).date(&SAMPLE_FORM, SAMPLE));

/// Where a form is kept.
const fn place(format: &DateFormat) -> Option<usize> {
    match format {
        DateFormat::Date(length) => Some(*length as usize),
        DateFormat::DateTime(length) => Some(4 + *length as usize),
        DateFormat::Time => Some(8),
        DateFormat::Weekday => Some(9),
        DateFormat::Iso | DateFormat::Pattern(_) => None,
    }
}

/// Makes a form from the data of its own fields alone; a form that can be any would link the data of all.
fn date_form(locale: DateTimeFormatterPreferences, format: &DateFormat) -> Option<DateForm> {
    macro_rules! form {
        ($fields:expr) => {
            FixedCalendarDateTimeFormatter::<Gregorian, _>::try_new(locale, $fields)
                .ok()
                .map(FixedCalendarDateTimeFormatter::cast_into_fset)
        };
    }
    // A year of two digits could be a day.
    let short = YMD::short().with_year_style(YearStyle::Full);
    match format {
        DateFormat::Date(DateLength::Short) => form!(short),
        DateFormat::Date(DateLength::Medium) => form!(YMD::medium()),
        DateFormat::Date(DateLength::Long) => form!(YMD::long()),
        DateFormat::Date(DateLength::Full) => form!(YMDE::long()),
        DateFormat::DateTime(DateLength::Short) => form!(short.with_time_hm()),
        DateFormat::DateTime(DateLength::Medium) => form!(YMD::medium().with_time_hm()),
        DateFormat::DateTime(DateLength::Long) => form!(YMD::long().with_time_hm()),
        DateFormat::DateTime(DateLength::Full) => form!(YMDE::long().with_time_hm()),
        DateFormat::Time => form!(T::hm()),
        DateFormat::Weekday => form!(E::long()),
        DateFormat::Iso | DateFormat::Pattern(_) => None,
    }
}

fn fixed(number: &Decimal) -> Option<FixedDecimal> {
    number.to_string().parse().ok()
}

#[cfg(test)]
mod tests;
