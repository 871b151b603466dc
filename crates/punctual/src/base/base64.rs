//! Base64 with the alphabet for URLs, without padding.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Encodes bytes.
#[must_use]
pub fn encode(bytes: &[u8]) -> String {
    let mut out = String::new();
    let (mut bits, mut held) = (0_u32, 0);
    for byte in bytes {
        bits = bits << 8 | u32::from(*byte);
        held += 8;
        while held >= 6 {
            held -= 6;
            out.push(letter(bits >> held));
        }
    }
    if held > 0 {
        out.push(letter(bits << (6 - held)));
    }
    out
}

fn letter(bits: u32) -> char {
    char::from(ALPHABET[(bits & 63) as usize])
}

/// Decodes a text that [`encode`] has written; `None` for any other, so that bytes have one text.
#[must_use]
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() * 3 / 4);
    let (mut bits, mut held) = (0_u32, 0);
    for byte in text.bytes() {
        let value = ALPHABET.iter().position(|known| *known == byte)?;
        bits = bits << 6 | u32::try_from(value).ok()?;
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held & 0xff) as u8);
        }
    }
    (held < 6 && bits & ((1 << held) - 1) == 0).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_what_everybody_calls_so() {
        for (bytes, text) in [("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foob", "Zm9vYg")] {
            assert_eq!(encode(bytes.as_bytes()), text);
            assert_eq!(decode(text).as_deref(), Some(bytes.as_bytes()));
        }
        assert_eq!(decode("Zh"), None, "bits beyond the last byte");
    }
}
