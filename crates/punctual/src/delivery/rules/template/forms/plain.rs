//! Forms without the data of locales: months and days by name in English and Arabic, dates as `2026-05-14` in
//! any other language, which cannot be misread; digits 0 to 9; the code of a currency before its amount.

use crate::base::decimal::Decimal;
use crate::base::locale;
use crate::delivery::rules::template::currency::Currency;
use crate::delivery::rules::template::date::{DateFormat, DateLength};
use crate::delivery::rules::template::filter::Filter;
use jiff::civil::{Date, DateTime, Time, Weekday};

/// The forms of one locale.
#[derive(Clone, Copy)]
pub(crate) struct Forms {
    habit: DateHabit,
    group: char,
    point: char,
}

/// The order of day and month, and the names.
#[derive(Clone, Copy)]
enum DateHabit {
    English,
    American,
    Arabic(&'static [&'static str; 12]),
    Neutral,
}

impl Forms {
    /// The forms of a locale; there are some for every one.
    pub(crate) fn find(tag: &str) -> Option<Self> {
        let (group, point) = separators(tag);
        Some(Self { habit: habit(tag), group, point })
    }

    /// English ones.
    pub(crate) fn english() -> Self {
        Self { habit: DateHabit::English, group: ',', point: '.' }
    }

    pub(crate) fn date(self, format: &DateFormat, at: DateTime) -> Option<String> {
        let (day, habit) = (at.date(), self.habit);
        Some(match format {
            DateFormat::Date(length) => date(*length, day, habit),
            DateFormat::Time => clock(at.time(), habit),
            DateFormat::DateTime(length) => {
                format!("{}, {}", date(*length, day, habit), clock(at.time(), habit))
            }
            DateFormat::Weekday => match habit {
                DateHabit::American | DateHabit::English => weekday(&DAYS_EN, day.weekday()).to_owned(),
                DateHabit::Arabic(_) => weekday(&DAYS_AR, day.weekday()).to_owned(),
                DateHabit::Neutral => return None,
            },
            DateFormat::Iso | DateFormat::Pattern(_) => return None,
        })
    }

    pub(crate) fn number(self, number: &Decimal) -> Option<String> {
        let (whole, fraction) = number.digits();
        let mut out = if number.is_negative() { "-".to_owned() } else { String::new() };
        for (n, digit) in whole.chars().enumerate() {
            if n > 0 && (whole.len() - n).is_multiple_of(3) {
                out.push(self.group);
            }
            out.push(digit);
        }
        if !fraction.is_empty() {
            out.push(self.point);
            out.push_str(fraction);
        }
        Some(out)
    }

    pub(crate) fn money(self, amount: &Decimal, currency: Currency) -> Option<String> {
        Some(format!("{currency}\u{a0}{}", self.number(amount)?))
    }
}

/// Says that the values of a filter are shown in a form that is not the language's.
pub(crate) fn doubt(filter: &Filter, language: &str) -> Option<String> {
    let needs = match filter {
        Filter::Money(_) => "money in the form of a locale needs",
        Filter::Date(_) if matches!(habit(language), DateHabit::Neutral) => {
            "the names of months and days need"
        }
        Filter::Number { .. } if !is_separated(language) => "the form of numbers needs",
        _ => return None,
    };
    Some(format!("{needs} the feature `locales` in `{language}`, which this program was built without"))
}

fn habit(tag: &str) -> DateHabit {
    let region = tag.rsplit('-').next().unwrap_or_default().to_ascii_uppercase();
    match locale::language(tag).to_ascii_lowercase().as_str() {
        "en" if region == "US" => DateHabit::American,
        "en" => DateHabit::English,
        // Iraq and the Levant have names of their own.
        "ar" if ["IQ", "SY", "JO", "LB", "PS"].contains(&region.as_str()) => {
            DateHabit::Arabic(&MONTHS_LEVANT)
        }
        "ar" => DateHabit::Arabic(&MONTHS_AR),
        _ => DateHabit::Neutral,
    }
}

fn date(length: DateLength, day: Date, habit: DateHabit) -> String {
    match length {
        DateLength::Short => short(day, habit),
        DateLength::Medium | DateLength::Long => long(day, habit),
        DateLength::Full => full(day, habit),
    }
}

fn month<'n>(names: &[&'n str; 12], day: Date) -> &'n str {
    names[usize::from(day.month().unsigned_abs() - 1)]
}

fn short(day: Date, habit: DateHabit) -> String {
    let (d, m, y) = (day.day(), day.month(), day.year());
    match habit {
        DateHabit::American => format!("{m:02}/{d:02}/{y}"),
        DateHabit::English | DateHabit::Arabic(_) => format!("{d:02}/{m:02}/{y}"),
        DateHabit::Neutral => day.to_string(),
    }
}

fn long(day: Date, habit: DateHabit) -> String {
    let (d, y) = (day.day(), day.year());
    match habit {
        DateHabit::American => format!("{} {d}, {y}", month(&MONTHS_EN, day)),
        DateHabit::English => format!("{d} {} {y}", month(&MONTHS_EN, day)),
        DateHabit::Arabic(names) => format!("{d} {} {y}", month(names, day)),
        DateHabit::Neutral => day.to_string(),
    }
}

fn full(day: Date, habit: DateHabit) -> String {
    let rest = long(day, habit);
    match habit {
        DateHabit::American | DateHabit::English => format!("{}, {rest}", weekday(&DAYS_EN, day.weekday())),
        DateHabit::Arabic(_) => format!("{}، {rest}", weekday(&DAYS_AR, day.weekday())),
        DateHabit::Neutral => rest,
    }
}

fn weekday<'n>(names: &[&'n str; 7], day: Weekday) -> &'n str {
    names[usize::from(day.to_monday_zero_offset().unsigned_abs())]
}

fn clock(time: Time, habit: DateHabit) -> String {
    let (hour, minute) = (time.hour(), time.minute());
    match habit {
        DateHabit::American => {
            let half = if hour < 12 { "AM" } else { "PM" };
            format!("{}:{minute:02} {half}", if hour % 12 == 0 { 12 } else { hour % 12 })
        }
        _ => format!("{hour:02}:{minute:02}"),
    }
}

/// Whether the separators of a language are known.
fn is_separated(tag: &str) -> bool {
    separators(tag) != (',', '.')
        || ["en", "ar"].contains(&locale::language(tag).to_ascii_lowercase().as_str())
}

/// Returns the separators of thousands and of decimals.
fn separators(tag: &str) -> (char, char) {
    match locale::language(tag).to_ascii_lowercase().as_str() {
        "de" | "es" | "it" | "nl" | "pt" | "tr" | "id" | "da" | "el" | "ro" | "hr" => ('.', ','),
        "fr" | "ru" | "uk" | "pl" | "cs" | "sk" | "sv" | "fi" | "nb" | "no" | "bg" | "hu" => ('\u{a0}', ','),
        _ => (',', '.'),
    }
}

const MONTHS_EN: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const MONTHS_AR: [&str; 12] = [
    "يناير",
    "فبراير",
    "مارس",
    "أبريل",
    "مايو",
    "يونيو",
    "يوليو",
    "أغسطس",
    "سبتمبر",
    "أكتوبر",
    "نوفمبر",
    "ديسمبر",
];
const MONTHS_LEVANT: [&str; 12] = [
    "كانون الثاني",
    "شباط",
    "آذار",
    "نيسان",
    "أيار",
    "حزيران",
    "تموز",
    "آب",
    "أيلول",
    "تشرين الأول",
    "تشرين الثاني",
    "كانون الأول",
];
const DAYS_EN: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const DAYS_AR: [&str; 7] = ["الاثنين", "الثلاثاء", "الأربعاء", "الخميس", "الجمعة", "السبت", "الأحد"];

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::civil::datetime;

    /// NTF-11: without the feature `locales` English and Arabic have names, and the rest nothing wrong.
    #[test]
    fn ntf_11_the_plain_forms_are_those_of_few_locales() {
        let at = datetime(2026, 5, 4, 17, 5, 0, 0);
        let table = [
            ("en", DateFormat::Date(DateLength::Short), Some("04/05/2026")),
            ("en", DateFormat::Date(DateLength::Full), Some("Monday, 4 May 2026")),
            ("en-US", DateFormat::DateTime(DateLength::Long), Some("May 4, 2026, 5:05 PM")),
            ("ar", DateFormat::Date(DateLength::Long), Some("4 مايو 2026")),
            ("ar-IQ", DateFormat::Date(DateLength::Full), Some("الاثنين، 4 أيار 2026")),
            ("ar", DateFormat::Weekday, Some("الاثنين")),
            ("tr", DateFormat::Date(DateLength::Full), Some("2026-05-04")),
            ("tr", DateFormat::Weekday, None),
            ("tr", DateFormat::Time, Some("17:05")),
        ];
        for (tag, form, want) in table {
            let shown = Forms::find(tag).unwrap().date(&form, at);
            assert_eq!(shown.as_deref(), want, "{tag} {form:?}");
        }
        let amount = Decimal::parse("-1234567.50").unwrap();
        let table = [("en", "-1,234,567.50"), ("de", "-1.234.567,50"), ("fr", "-1\u{a0}234\u{a0}567,50")];
        for (tag, want) in table {
            assert_eq!(Forms::find(tag).unwrap().number(&amount).as_deref(), Some(want), "{tag}");
        }
        let usd = Currency::find("USD").unwrap();
        assert_eq!(Forms::english().money(&amount, usd).as_deref(), Some("USD\u{a0}-1,234,567.50"));
    }

    /// NTF-11: whoever saves a template that needs the feature is told so.
    #[test]
    fn ntf_11_a_template_that_needs_the_feature_is_told_so() {
        let table = [
            ("date:full", "en", false),
            ("date:full", "ar-IQ", false),
            ("date:full", "tr", true),
            ("number", "ar", false),
            ("number", "de", false),
            ("number", "hi", true),
            ("money:USD", "en", true),
            ("upper", "tr", false),
            ("date:iso", "tr", false),
        ];
        for (filter, language, want) in table {
            let read = Filter::parse(filter).unwrap();
            let said = if matches!(read, Filter::Upper | Filter::Date(DateFormat::Iso)) {
                read.doubt(language)
            } else {
                doubt(&read, language)
            };
            let told = said.is_some_and(|said| said.contains("the feature `locales`"));
            assert_eq!(told, want, "{filter} in {language}");
        }
    }
}
