//! How a batch of messages is spread over statements: by the bytes of its payloads and headers.
//!
//! A connection to PostgreSQL keeps buffers as large as the largest statement that it ever had, and encodes
//! each statement without a pause. So a batch of 32 MiB in one statement would cost every connection of the
//! pool several times that, for ever, and hold up whatever else its thread has to do.

/// Payloads and headers that one statement carries, in bytes.
const STATEMENT_BYTES_MAX: usize = 1024 * 1024;

/// Parts of a list that one statement carries each, in order; a message that is larger has one of its own.
pub(super) fn parts<T>(all: &[T], bytes: impl Fn(&T) -> usize) -> impl Iterator<Item = &[T]> {
    let mut left = all;
    std::iter::from_fn(move || {
        let mut sum = 0;
        let fits = |one: &&T| {
            sum += bytes(one);
            sum <= STATEMENT_BYTES_MAX
        };
        let count = left.iter().take_while(fits).count().max(1).min(left.len());
        let (part, rest) = left.split_at(count);
        left = rest;
        (!part.is_empty()).then_some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_carries_so_many_bytes_or_one_message() {
        const M: usize = STATEMENT_BYTES_MAX;
        let table: [(&[usize], &[usize]); 6] = [
            (&[], &[]),
            (&[1, 2, 3], &[3]),
            (&[M], &[1]),
            (&[M, 1], &[1, 1]),
            (&[1, M, 1, M - 1, 1], &[1, 1, 2, 1]),
            (&[2 * M, 2 * M], &[1, 1]),
        ];
        for (bytes, counts) in table {
            let found: Vec<usize> = parts(bytes, |bytes| *bytes).map(<[usize]>::len).collect();
            assert_eq!(found, counts, "{bytes:?}");
        }
    }
}
