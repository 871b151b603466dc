//! The dedup key: whether this event led to an entry for this recipient before.
//!
//! A recipe names paths of [`Facts`]. For each, in order, `path=value` is written, joined by the unit
//! separator (U+001F); the SHA-256 of those bytes is the key. Strings are written as they are, numbers and
//! booleans in their one canonical text (so `1`, `1.0` and `"1"` are the same), lists and objects as
//! canonical JSON, and an absent value as nothing.
//!
//! Numbers that are not whole numbers of 64 bits are doubles here, and two that differ in a later digit
//! would have one key. [`check`] refuses doubles from 2^53 on and those with more than 15 digits; a publisher
//! sends them as texts. A fraction whose double needs fewer digits than it was written with is not found out:
//! `0.10000000000000000001` is `0.1`.
//!
//! Not promised: that values with the same text are distinguished. `"1"` and `1` give the same key on
//! purpose, and so do an empty string and an absent value; a value that itself contains a unit separator
//! could imitate the next part.

use crate::base::facts::Facts;
use crate::base::{canonical, digest, number};
use hmac_sha256::Hash;
use serde_json::{Number, Value};

const SEPARATOR: char = '\u{1f}';

/// The text that is hashed; for people who ask why something is a duplicate.
#[must_use]
pub fn text(recipe: &[String], facts: &Facts<'_>) -> String {
    let mut text = String::with_capacity(128);
    for (n, path) in recipe.iter().enumerate() {
        if n > 0 {
            text.push(SEPARATOR);
        }
        text.push_str(path);
        text.push('=');
        match facts.get(path) {
            None => {}
            Some(Value::String(value)) => text.push_str(value),
            Some(value) => canonical::write(value, &mut text),
        }
    }
    text
}

/// Checks that no number of the recipe may have lost digits, and with them the difference between two events.
///
/// # Errors
/// A sentence with the path of the first that may have.
pub fn check(recipe: &[String], facts: &Facts<'_>) -> Result<(), String> {
    let lost = recipe.iter().find_map(|path| Some((path, lost_digits(facts.get(path)?)?)));
    match lost {
        None => Ok(()),
        Some((path, number)) => Err(format!(
            "has a number at `{path}` ({number}) with more digits than are compared, and the dedup recipe \
             names it: send it as a string"
        )),
    }
}

fn lost_digits(value: &Value) -> Option<&Number> {
    match value {
        Value::Number(number) => (!number::has_all_digits(number)).then_some(number),
        Value::Array(items) => items.iter().find_map(lost_digits),
        Value::Object(fields) => fields.values().find_map(lost_digits),
        _ => None,
    }
}

/// The key.
///
/// ```
/// use punctual::base::facts::Facts;
/// use punctual::flow::rules::dedup;
/// let mut facts = Facts::default();
/// facts.insert("candidate.wip", "40956".into());
/// let recipe = ["candidate.wip".to_owned()];
/// assert_eq!(dedup::hex(&recipe, &facts).len(), 64);
/// ```
#[must_use]
pub fn digest(recipe: &[String], facts: &Facts<'_>) -> [u8; 32] {
    Hash::hash(text(recipe, facts).as_bytes())
}

/// The key in hexadecimal.
#[must_use]
pub fn hex(recipe: &[String], facts: &Facts<'_>) -> String {
    digest::hex(&digest(recipe, facts))
}

/// Returns advice for an author: one sentence for each missing one of the three parts that a recipe needs to
/// mean "each event at most once, for each recipient and survey".
#[must_use]
pub fn advice(recipe: &[String]) -> Vec<String> {
    let names = |wanted: &str| recipe.iter().any(|path| path == wanted);
    let inside =
        |prefix: &str| recipe.iter().any(|path| path.len() > prefix.len() && path.starts_with(prefix));
    let checks = [
        (
            names("templateId"),
            "has no templateId: if another survey is triggered by the same event, the keys of the two may \
             be equal, and only the first is sent",
        ),
        (
            names("recipient.address"),
            "has no recipient.address: when one event is for several recipients, only the first gets \
             a message",
        ),
        (
            inside("candidate.") || inside("entity."),
            "names nothing that identifies the event: add the number that the event is known by, such as \
             candidate.wip or entity.id, or every later event of the same recipient is taken for a duplicate",
        ),
    ];
    checks.into_iter().filter(|(fine, _)| !fine).map(|(_, said)| said.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn recipe(paths: &[&str]) -> Vec<String> {
        paths.iter().map(|path| (*path).to_owned()).collect()
    }

    fn seed() -> Facts<'static> {
        let mut facts = Facts::default();
        for (path, value) in [
            ("templateId", json!(4523)),
            ("recipient.address", json!("+964 770 000 0001")),
            ("candidate.dealerId", json!("1")),
            ("candidate.wip", json!("40956")),
        ] {
            facts.insert(path, value);
        }
        facts
    }

    const SEED: [&str; 4] = ["templateId", "recipient.address", "candidate.dealerId", "candidate.wip"];

    /// TRG-7: the seed's example, to the byte.
    #[test]
    fn trg_7_the_seeds_example_has_the_seeds_digest() {
        let recipe = recipe(&SEED);
        let text = text(&recipe, &seed()).replace('\u{1f}', "␟");
        let want =
            "templateId=4523␟recipient.address=+964 770 000 0001␟candidate.dealerId=1␟candidate.wip=40956";
        assert_eq!(text, want);
        assert_eq!(hex(&recipe, &seed()), "6383108901bdd1b187b55f88d5c3ddce0670dfe24a066f34655538f1d4564efa");
    }

    /// TRG-7: values with the same text have the same hash, and no others do.
    #[test]
    fn trg_7_values_have_one_text() {
        let groups = [
            vec![json!(1), json!("1"), json!(1.0), json!(1u64)],
            vec![json!(true), json!("true")],
            vec![json!(""), Value::Null],
            vec![json!(2.5), json!("2.5")],
            vec![json!(1e21), json!("1e+21")],
            vec![
                json!([1, {"b": 1, "a": 2.0}]),
                json!([1.0, {"a": 2, "b": 1}]),
                json!(r#"[1,{"a":2,"b":1}]"#),
            ],
        ];
        let key = |value: &Value| {
            let mut facts = Facts::default();
            facts.insert("candidate.x", value.clone());
            digest(&recipe(&["candidate.x"]), &facts)
        };
        for group in &groups {
            assert!(group.iter().all(|value| key(value) == key(&group[0])), "{group:?}");
        }
        for pair in groups.windows(2) {
            assert_ne!(key(&pair[0][0]), key(&pair[1][0]), "{pair:?}");
        }
        assert_eq!(digest(&recipe(&["candidate.x"]), &Facts::default()), key(&Value::Null));
    }

    /// TRG-7: two numbers that one double stands for are refused, and are not taken for duplicates.
    #[test]
    fn trg_7_numbers_that_lose_digits_are_refused() {
        let check = |json: &str| {
            let mut facts = Facts::default();
            facts.insert("candidate.x", serde_json::from_str(json).unwrap());
            check(&recipe(&["candidate.none", "candidate.x"]), &facts)
        };
        for fine in
            ["1", "-2.5", "1e15", "18446744073709551615", "-9223372036854775808", "0.1", "123456789.012345"]
        {
            assert_eq!(check(fine), Ok(()), "{fine}");
        }
        assert_eq!(check(r#""18446744073709551617""#), Ok(()), "a string keeps its digits");
        for lost in [
            "100000000000000000000",
            "100000000000000000001",
            "-1e19",
            "1e300",
            "9007199254740992.0",
            "18446744073709551616",
            "18446744073709551617",
            "-9223372036854775809",
            "12345678901234567.1",
            "0.12345678901234567",
            "0.123456789012345678",
            r#"[1, {"a": 18446744073709551617}]"#,
        ] {
            let said = check(lost).unwrap_err();
            assert!(said.contains("`candidate.x`") && said.contains("send it as a string"), "{said}");
        }
    }

    /// TRG-7: the path is part of the text, and so is the order.
    #[test]
    fn trg_7_paths_and_their_order_count() {
        let facts = Facts::default();
        let texts = [&["a", "b"][..], &["b", "a"], &["a"], &["a", "b", "c"], &[]];
        let texts: Vec<String> = texts.iter().map(|paths| text(&recipe(paths), &facts)).collect();
        assert_eq!(texts, ["a=\u{1f}b=", "b=\u{1f}a=", "a=", "a=\u{1f}b=\u{1f}c=", ""]);
    }

    /// TRG-3: a recipe that lacks one of the three parts gets advice on the effect.
    #[test]
    fn trg_3_an_incomplete_recipe_is_advised() {
        assert_eq!(advice(&recipe(&SEED)), [""; 0]);
        assert_eq!(advice(&recipe(&["templateId", "recipient.address", "entity.id"])), [""; 0]);
        let table = [
            (&["recipient.address", "candidate.wip"][..], "has no templateId"),
            (&["templateId", "candidate.wip"], "has no recipient.address"),
            (&["templateId", "recipient.address", "candidate."], "names nothing that identifies the event"),
        ];
        for (paths, want) in table {
            let said = advice(&recipe(paths));
            assert!(said.len() == 1 && said[0].starts_with(want), "{paths:?}: {said:?}");
        }
        assert_eq!(advice(&[]).len(), 3);
    }
}
