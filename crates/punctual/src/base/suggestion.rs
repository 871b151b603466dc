//! The known word nearest to an unknown one.

/// Words longer than this are not looked at, in characters: typing errors are shorter.
const WORD_CHARS_MAX: usize = 40;

/// Returns the known word nearest to `unknown`, if it is near: a letter or two away for a word of its
/// length, in any case of the letters.
#[must_use]
pub fn nearest<'a>(unknown: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if unknown.chars().count() > WORD_CHARS_MAX {
        return None;
    }
    let unknown = unknown.to_lowercase();
    let far = |word: &str| distance(&unknown, &word.to_lowercase());
    let (steps, word) = known.into_iter().map(|word| (far(word), word)).min()?;
    let near = steps == 0 || steps <= 2 && steps < word.chars().count().min(unknown.chars().count());
    near.then_some(word)
}

/// The known word that is the fewest letters away from `unknown`, however many they are.
#[must_use]
pub fn closest<'a>(unknown: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let unknown: String = unknown.to_lowercase().chars().take(WORD_CHARS_MAX).collect();
    known.into_iter().min_by_key(|word| (distance(&unknown, &word.to_lowercase()), word.len()))
}

/// The end of a sentence about an unknown word: the one that was probably meant, or all that are
/// known.
///
/// ```
/// use punctual::base::suggestion::hint;
/// assert_eq!(hint("databse", &["database", "listen"]), "; did you mean `database`?");
/// assert_eq!(hint("colour", &["database", "listen"]), "; known are database, listen");
/// ```
#[must_use]
pub fn hint(unknown: &str, known: &[&str]) -> String {
    match nearest(unknown, known.iter().copied()) {
        Some(word) => format!("; did you mean `{word}`?"),
        None => format!("; known are {}", known.join(", ")),
    }
}

/// Returns how many letters must change to make one word of the other (Levenshtein).
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let here = if a == *b { corner } else { 1 + corner.min(row[j]).min(row[j + 1]) };
            corner = row[j + 1];
            row[j + 1] = here;
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_word_may_be_far() {
        assert_eq!(closest("colour", ["total", "guest.color"]), Some("total"));
        assert_eq!(closest("Guest.Colour", ["total", "guest.color"]), Some("guest.color"));
        assert_eq!(closest("x", []), None);
    }

    #[test]
    fn a_slip_finds_its_word() {
        let known = ["contains", "startsWith", "in", "notIn", "=="];
        let table = [
            ("contain", Some("contains")),
            ("STARTSWITH", Some("startsWith")),
            ("startWith", Some("startsWith")),
            ("notin", Some("notIn")),
            ("IN", Some("in")),
            ("===", Some("==")),
            ("xy", None),
            ("", None),
            ("resembles", None),
        ];
        for (unknown, want) in table {
            assert_eq!(nearest(unknown, known), want, "{unknown}");
        }
        assert_eq!(nearest(&"contains".repeat(100), known), None);
    }

    #[test]
    fn distances_are_counted_in_letters() {
        for (a, b, n) in [("", "abc", 3), ("role", "role", 0), ("roll", "role", 1), ("rloe", "role", 2)] {
            assert_eq!(distance(a, b), n, "{a} {b}");
        }
    }
}
