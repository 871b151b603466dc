//! The forms of many locales, their fallbacks, and what is kept of them.

use super::*;
use crate::base::zone::Zone;
use crate::delivery::rules::template::currency::codes;
use crate::delivery::rules::template::{RenderedText, TemplateValues, TextTarget, TextTemplate};
use serde_json::{Value, json};

fn render(text: &str, payload: &Value, locale: &str, default: &str) -> RenderedText {
    let zone = Zone::find("Asia/Baghdad").unwrap();
    let values = TemplateValues::default().zone(&zone).fallback_locale(default).with_json("", payload);
    TextTemplate::parse(text).unwrap().render(&values, TextTarget::Text, locale)
}

/// Makes the spaces and marks visible that nobody sees.
fn visible(text: &str) -> String {
    let marks = [('\u{a0}', '⍽'), ('\u{202f}', '⎵'), ('\u{200e}', '→'), ('\u{200f}', '←')];
    marks.iter().fold(text.to_owned(), |text, (mark, shown)| text.replace(*mark, &shown.to_string()))
}

/// NTF-11: dates, times, numbers and money in the form of each of sixty locales.
#[test]
fn ntf_11_sixty_locales_have_their_own_forms() {
    let rows = include_str!("locales.txt").lines().filter(|line| !line.starts_with('#'));
    let (mut told, mut count) = (Vec::new(), 0);
    for row in rows {
        let columns: Vec<&str> = row.split(" | ").collect();
        let (tag, currency) = (columns[0], columns[5]);
        let payload = json!({"at": "2026-05-14T14:05:00Z", "n": "1234567.89", "currency": currency});
        let text = "{{at|date:short}} | {{at|date:long}} | {{at|date:time}} | {{n|number}} | \
            {{currency}} | {{n|money:currency}}";
        let made = render(text, &payload, tag, "en");
        let shown = format!("{tag} | {}", visible(&made.text));
        if shown != row {
            told.push(format!("{shown}\n  instead of\n{row}"));
        }
        let rounded = Currency::find(currency).unwrap().decimals() < 2;
        assert_eq!(made.warnings.len(), usize::from(rounded), "{tag}: {:?}", made.warnings);
        count += 1;
    }
    assert!(
        told.is_empty(),
        "{} of {count} locales are not as they should be:\n{}",
        told.len(),
        told.join("\n")
    );
    assert!(count >= 60, "{count} locales");
}

/// NTF-11: every form of a date, with names, order, digits and clock of the locale, in the Gregorian
/// calendar.
#[test]
fn ntf_11_dates_have_all_their_forms() {
    let payload = json!({"at": "2026-09-07T21:05:00Z", "day": "2026-09-07"});
    let table = [
        ("en", "{{at|date}}", "September 8, 2026"),
        ("en-GB", "{{at|date:medium}}", "8 Sept 2026"),
        ("en-GB", "{{at|date:full}}", "Tuesday, 8 September 2026"),
        ("en-GB", "{{at|date:weekday}}", "Tuesday"),
        ("en-GB", "{{at|date:datetime}}", "8 September 2026 at 00:05"),
        ("en-US", r#"{{at|date:"short datetime"}}"#, "9/8/2026, 12:05 AM"),
        ("en-GB", r#"{{day|date:"full datetime"}}"#, "Monday, 7 September 2026"),
        ("de", "{{at|date:full}}", "Dienstag, 8. September 2026"),
        ("ar-IQ", "{{at|date:full}}", "الثلاثاء، ٨ أيلول ٢٠٢٦"),
        ("ar-AE", "{{at|date:full}}", "الثلاثاء، 8 سبتمبر 2026"),
        ("ar-IQ", "{{at|date:datetime}}", "٨ أيلول ٢٠٢٦ في ١٢:٠٥ ص"),
        ("ar-SA", "{{day|date}}", "٧ سبتمبر ٢٠٢٦"),
        ("fa", "{{day|date}}", "۷ سپتامبر ۲۰۲۶"),
        ("th", "{{day|date}}", "7 กันยายน ค.ศ. 2026"),
        ("ja", "{{at|date:full}}", "2026年9月8日火曜日"),
        ("ar-IQ", "{{at|date:iso}}", "2026-09-08"),
        ("ar-IQ", r#"{{at|date:"%d/%m/%Y"}}"#, "08/09/2026"),
    ];
    for (tag, text, want) in table {
        let made = render(text, &payload, tag, "en");
        assert_eq!((made.text.as_str(), made.warnings), (want, vec![]), "{tag} {text}");
    }
}

/// NTF-11: the table of the guide to templates is what templates say.
#[test]
fn ntf_11_the_guide_shows_the_forms_as_they_are() {
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/templates.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let (_, table) = guide.split_once("| form | `en-GB` | `en` | `ar-IQ` |").expect("the table of the guide");
    let rows: Vec<&str> = table.lines().skip(2).take_while(|line| line.starts_with('|')).collect();
    assert!(rows.len() >= 12, "{rows:?}");
    let payload = json!({"date": "2026-05-14T14:05:00Z", "number": "1234567.89"});
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let filter = cells[0].split('`').nth(1).unwrap();
        let key = if filter.starts_with("date") { "date" } else { "number" };
        for (tag, want) in ["en-GB", "en", "ar-IQ"].into_iter().zip(&cells[1..]) {
            let made = render(&format!("{{{{{key}|{filter}}}}}"), &payload, tag, "en");
            let shown = made.text.replace(['\u{200e}', '\u{200f}'], "").replace('\u{a0}', " ");
            assert_eq!(shown, *want, "{tag} {filter}");
        }
    }
}

/// NTF-11: amounts keep every digit, have the decimals of their currency and say when they were rounded.
#[test]
fn ntf_11_money_is_exact() {
    let payload = json!({"a": "98765432109876543210.995", "k": "-0.0005", "j": 1234.5, "usd": "usd",
        "old": "DEM", "odd": "dollars", "price": {"amount": "7.1", "currency": "OMR"}, "n": "12"});
    let table = [
        ("en", "{{a|money:KWD}}", "KWD⍽98,765,432,109,876,543,210.995", ""),
        ("en", "{{a|money:USD}}", "$98,765,432,109,876,543,211.00", "more than the 2 decimals of USD"),
        ("en", "{{k|money:BHD}}", "-BHD⍽0.001", "more than the 3 decimals of BHD"),
        ("en", "{{j|money:JPY}}", "¥1,235", "more than the 0 decimals of JPY"),
        ("en", "{{n|money:usd}}", "$12.00", ""),
        ("en-IN", "{{a|number:2}}", "9,87,65,43,21,09,87,65,43,211.00", ""),
        ("en", "{{n|money:Usd}} {{n|money:usd | upper}}", "$12.00 $12.00", ""),
        ("ar-IQ", "{{price.amount|money:price.currency}}", "←٧٫١٠٠⍽ر.ع.←", ""),
        ("en", "{{n|money:old}}", "DEM⍽12.00", "a currency that is not known: `DEM`"),
        ("en", "{{n|money:odd}}", "12", "a currency that is not known: `dollars`"),
        ("en", "{{n|money:none}}", "12", "shown without a currency: `{{none}}` has no value"),
        ("en", "{{odd|money:USD}}", "dollars", "is not a number, and was left as it is"),
    ];
    for (tag, text, want, told) in table {
        let made = render(text, &payload, tag, "en");
        assert_eq!(visible(&made.text), want, "{tag} {text}");
        assert_eq!(made.warnings.len(), usize::from(!told.is_empty()), "{text}: {:?}", made.warnings);
        assert!(made.warnings.iter().all(|said| said.contains(told)), "{text}: {:?}", made.warnings);
    }
}

/// NTF-11: a region falls back to its language, an unknown locale to the tenant's, else to English, with a
/// warning.
#[test]
fn ntf_11_an_unknown_locale_falls_back_and_is_told() {
    let payload = json!({"day": "2026-05-14", "n": "1234.5"});
    let long = "x".repeat(5000);
    let table = [
        ("ar-XX", "de", "14 مايو 2026 1,234.5", ""),
        ("AR-iq", "de", "١٤ أيار ٢٠٢٦ ١٬٢٣٤٫٥", ""),
        (
            "xx",
            "de",
            "14. Mai 2026 1.234,5",
            "as in `de`, because the forms of the locale `xx` are not known",
        ),
        ("tlh-KX", "zz", "May 14, 2026 1,234.5", "as in `en`, because the forms of the locale `tlh-KX`"),
        ("", "", "May 14, 2026 1,234.5", "as in `en`"),
        ("not a tag\u{0}", "en", "May 14, 2026 1,234.5", "as in `en`"),
        (&long, "en", "May 14, 2026 1,234.5", "as in `en`"),
    ];
    for (tag, default, want, told) in table {
        let made = render("{{day|date}} {{n|number}}", &payload, tag, default);
        assert_eq!(made.text, want, "{tag:.20} {default}");
        assert_eq!(made.warnings.is_empty(), told.is_empty(), "{tag:.20}: {:?}", made.warnings);
        assert!(
            made.warnings.iter().all(|said| said.contains(told) && said.len() < 500),
            "{:?}",
            made.warnings
        );
    }
}

/// NTF-11: CLDR agrees with the decimals of every currency that is known.
#[test]
fn ntf_11_currencies_have_the_decimals_of_cldr() {
    let english = Forms::english();
    let one = Decimal::parse("1.23456").unwrap();
    let mut told = Vec::new();
    for code in codes() {
        let currency = Currency::find(code).unwrap();
        let shown = english.money(&one, currency).expect(code);
        let decimals = shown.rsplit_once('.').map_or(0, |(_, fraction)| fraction.len());
        if decimals != currency.decimals() {
            told.push(format!("{code}: {decimals} and not {}", currency.decimals()));
        }
    }
    assert!(told.is_empty(), "{}", told.join(", "));
}

/// NTF-11: whatever tags recipients have, a thread keeps few of them, and few currencies.
#[test]
fn ntf_11_what_is_kept_stays_small() {
    let payload = json!({"n": "1", "day": "2026-05-14"});
    for n in 0..2000_u32 {
        let letter = |by: u32| char::from(b'a' + u8::try_from(n / by % 26).unwrap());
        let tag = format!("{}{}-{}{}", letter(1), letter(26), letter(676), letter(1));
        let _ = render("{{n|number}} {{day|date}}", &payload, &tag, "ar");
        assert!(KEPT.with_borrow(HashMap::len) <= KEPT_MAX, "after {n} locales");
    }
    let english = Forms::english();
    for code in codes() {
        let _ = english.money(&Decimal::parse("1").unwrap(), Currency::find(code).unwrap());
        assert!(english.money.borrow().len() <= CURRENCIES_KEPT_MAX, "after {code}");
    }
}
