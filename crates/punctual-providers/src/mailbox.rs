//! Mail addresses: what may stand in an envelope and in a header.
//!
//! The common form only: a local part of plain characters, an at sign, a domain with a dot. Quoted
//! local parts, comments and literal IP addresses are refused, and so is everything that could end a
//! header's line. Not promised: that the mailbox exists.

/// The most of an address, in bytes (RFC 5321).
const ADDRESS_BYTES_MAX: usize = 254;
/// The most before the at sign, in bytes.
const LOCAL_BYTES_MAX: usize = 64;
/// The most between two dots of a domain, in bytes.
const LABEL_BYTES_MAX: usize = 63;

/// The address without spaces around it.
///
/// # Errors
/// A sentence that says what is wrong with it. It does not repeat the address.
pub fn check(text: &str) -> Result<&str, String> {
    let text = text.trim_matches(' ');
    if text.len() > ADDRESS_BYTES_MAX {
        return Err(format!("is too long for a mail address: {} bytes of {ADDRESS_BYTES_MAX}", text.len()));
    }
    let Some((local, domain)) = text.rsplit_once('@') else {
        return Err("is not a mail address: it has no @".into());
    };
    if let Some(c) = text.chars().find(|c| c.is_control() || c.is_whitespace()) {
        return Err(format!("is not a mail address: it has {c:?} in it"));
    }
    if !is_local(local) {
        return Err("is not a mail address: what stands before the @ cannot be".into());
    }
    if !is_domain(domain) {
        return Err("is not a mail address: what stands behind the @ is no domain".into());
    }
    Ok(text)
}

fn is_local(local: &str) -> bool {
    let plain = |c: char| c.is_alphanumeric() || "!#$%&'*+-/=?^_`{|}~.".contains(c);
    (1..=LOCAL_BYTES_MAX).contains(&local.len())
        && local.chars().all(plain)
        && !local.starts_with('.')
        && !local.ends_with('.')
        && !local.contains("..")
}

fn is_domain(domain: &str) -> bool {
    let label = |label: &str| {
        (1..=LABEL_BYTES_MAX).contains(&label.len())
            && label.chars().all(|c| c.is_alphanumeric() || c == '-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let last = domain.rsplit('.').next().unwrap_or_default();
    domain.contains('.') && domain.split('.').all(label) && !last.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NTF-15: addresses are checked, and none can carry a header of its own.
    #[test]
    fn ntf_15_mail_addresses_are_checked() {
        for good in
            ["ada@example.com", " ada.l+x@mail.example.co ", "o'hara@example.com", "grüße@müller.example"]
        {
            assert_eq!(check(good), Ok(good.trim()), "{good}");
        }
        let long = format!("{}@example.com", "x".repeat(300));
        let wide = format!("{}@example.com", "x".repeat(65));
        let bad = [
            "",
            "ada",
            "@example.com",
            "ada@",
            "ada@localhost",
            "ada@@example.com",
            "a da@example.com",
            "ada@exam ple.com",
            "ada@example.com\r\nBcc: eve@example.com",
            "ada\n@example.com",
            "ada@example.com,eve@example.com",
            "<ada@example.com>",
            "\"a b\"@example.com",
            ".ada@example.com",
            "a..b@example.com",
            "ada@-example.com",
            "ada@example..com",
            "ada@[10.0.0.1]",
            "ada@10.0.0.1",
            long.as_str(),
            wide.as_str(),
        ];
        for text in bad {
            assert!(check(text).is_err(), "{text:?}");
        }
    }
}
