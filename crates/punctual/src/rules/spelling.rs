//! A word that nobody knows, and the known one that was probably meant.

/// Words further from each other than this are not slips of each other.
const STEPS_MAX: usize = 3;

/// The end of a sentence about an unknown word: the nearest known one, or all of them.
///
/// ```
/// use punctual::rules::spelling::hint;
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

/// The known word that `unknown` is most likely a slip of.
#[must_use]
pub fn nearest<'a>(unknown: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let written = unknown.chars().count();
    // Words whose lengths differ by more cannot be nearer, however long somebody made them.
    let alike = known.filter(|word| word.chars().count().abs_diff(written) <= STEPS_MAX);
    let (steps, word) = alike.map(|word| (distance(unknown, word), word)).min()?;
    // A slip leaves most of a short word standing.
    let most = STEPS_MAX.min(word.chars().count().div_ceil(2));
    (steps <= most && steps < written).then_some(word)
}

/// How many letters must change to make one word of the other (Levenshtein); case is not a
/// change worth counting.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().flat_map(char::to_lowercase).collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().flat_map(char::to_lowercase).enumerate() {
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
    fn a_slip_finds_the_word_that_was_meant() {
        let known = ["id", "type", "text", "help", "required", "options", "showIf"];
        let table = [
            ("typ", Some("type")),
            ("txt", Some("text")),
            ("showif", Some("showIf")),
            ("requried", Some("required")),
            ("option", Some("options")),
            ("ID", Some("id")),
            ("colour", None),
            ("x", None),
            ("", None),
        ];
        for (word, want) in table {
            assert_eq!(nearest(word, known.into_iter()), want, "{word}");
        }
        assert_eq!(nearest(&"t".repeat(1_000_000), known.into_iter()), None);
    }
}
