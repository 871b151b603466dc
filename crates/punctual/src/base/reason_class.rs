//! The class of a failure: its error without what differs from case to case, so that equal failures can be
//! counted.

/// The longest class, in characters.
const CLASS_CHARS_MAX: usize = 80;

/// Returns the class of an error: its first sentence with numbers, quoted parts and long words of letters and
/// digits replaced by a mark.
///
/// ```
/// use punctual::base::reason_class::reason_class;
///
/// assert_eq!(reason_class("HTTP 503: try 4 of `sms:a` failed"), "http #: try # of `…` failed");
/// ```
#[must_use]
pub fn reason_class(error: &str) -> String {
    let mut class = String::with_capacity(CLASS_CHARS_MAX);
    let mut chars = error.chars().peekable();
    while let Some(next) = chars.next() {
        match next {
            '`' | '"' | '\'' => {
                let closed = chars.by_ref().any(|inside| inside == next);
                class.push_str(if closed { QUOTED } else { "" });
            }
            letter if letter.is_alphanumeric() => {
                let mut word = String::from(letter);
                while let Some(more) = chars.next_if(|more| more.is_alphanumeric()) {
                    word.push(more);
                }
                let has_digit = word.chars().any(|c| c.is_ascii_digit());
                class.push_str(if has_digit { "#" } else { &word });
            }
            '\n' => break,
            other => class.push(other),
        }
        if class.chars().count() >= CLASS_CHARS_MAX {
            break;
        }
    }
    class.chars().take(CLASS_CHARS_MAX).collect::<String>().trim().to_lowercase()
}

const QUOTED: &str = "`…`";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_failures_have_one_class() {
        let table = [
            ("HTTP 503", "HTTP 502", true),
            ("no answer in 10 s", "no answer in 30 s", true),
            ("`+49151` is not a number", "`+49170` is not a number", true),
            ("message 3f2a9 is gone", "message 77b1c is gone", true),
            ("connection refused", "connection reset", false),
        ];
        for (a, b, same) in table {
            assert_eq!(reason_class(a) == reason_class(b), same, "{a} / {b}");
        }
        assert_eq!(reason_class("it's 4 o'clock"), "it`…`clock");
        assert!(reason_class(&"x y ".repeat(200)).chars().count() <= CLASS_CHARS_MAX);
        assert_eq!(reason_class("first\nsecond"), "first");
    }
}
