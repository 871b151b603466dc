//! Addresses as those see them who may not see them whole.

/// Characters at the end that are left: enough to compare with what a customer says.
const SHOWN_CHARS: usize = 4;

/// An address with its middle hidden: the end of a phone number, the domain of a mailbox.
///
/// ```
/// use punctual::base::redaction::mask_address;
/// assert_eq!(mask_address("+964 770 000 0001"), "••• 0001");
/// assert_eq!(mask_address("kadhem@example.org"), "k•••@example.org");
/// assert_eq!(mask_address("abc"), "•••");
/// ```
#[must_use]
pub fn mask_address(address: &str) -> String {
    if let Some((name, domain)) = address.rsplit_once('@') {
        let first: String = name.chars().take(1).collect();
        return format!("{first}•••@{domain}");
    }
    let chars: Vec<char> = address.chars().collect();
    if chars.len() <= 2 * SHOWN_CHARS {
        return "•••".to_owned();
    }
    format!("••• {}", chars[chars.len() - SHOWN_CHARS..].iter().collect::<String>())
}
