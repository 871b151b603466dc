//! Mutated input for what reads text: the same from the same seed, for a bounded time.
//!
//! A target gets every file of its folder in `tests/corpus`, and then mutations of them: bits turned, bytes
//! and words put in, parts cut, repeated and joined. It must not panic, and must be done with each within
//! [`INPUT_MAX`]. A failure prints the seed and the input: put that into the folder, and it is tried
//! each time. `PUNCTUAL_SEED` chooses the seed and `PUNCTUAL_FUZZ_SECONDS` how long, 30 if it is not set.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

/// How long one input may take on a busy machine, without optimisation.
const INPUT_MAX: Duration = Duration::from_secs(5);
/// Longer inputs are cut, in bytes.
const INPUT_BYTES_MAX: usize = 8 * 1024;
/// Bytes that mean something to many a reader.
const BYTES: &[u8] = b"\0\t\n\r \"'\\/{}[](),.:;|*?#%&=+-_<>@$^~09afAZ\x1b\x7f\x80\xbf\xc0\xe2\xf0\xff";
/// Words that mean something to one of the targets.
#[rustfmt::skip]
const WORDS: &[&str] = &[
    "null", "true", "\"\"", "{}", "[]", "{\"a\":", "[[[[[[[[", "]]]]", "1e400", "-0", "1e-400",
    "18446744073709551616", "9223372036854775807", "-9223372036854775808", "0.1", "NaN", "\\ud800",
    "\\u0000", "\u{202e}", "\u{feff}", "é", "😀", "{{", "}}", "{{a.b | upper}}", "| date:\"",
    "| default:\"x\"", "\\{{", "*/5", "L", "W", "#3", "MON-FRI", "?", "@daily", "1d12h",
    "999999999999d", "ms", "2026-02-30", "9999-12-31T23:59:60Z", "all", "any", "not", "questionId",
    "matches", "between", "(a*)*b", "[[classify]]", "[request]", "{{setting.", "{{payload.", "$each",
    "$merge", "specversion", "data", "data_base64", "https://", "\r\n\r\n", "%00", "%2e%2e", "sha256=",
    "==",
];

/// A generator of numbers, the same from the same seed.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number below `sides`; 0 if there are none.
    pub(crate) fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) >> 1).unwrap_or(0) % sides.max(1)
    }

    /// A part of so many bytes, as a range.
    fn part(&mut self, length: usize) -> std::ops::Range<usize> {
        let start = self.roll(length + 1);
        let end = start + self.roll((length - start).min(64) + 1);
        start..end
    }
}

/// The inputs of one target: those of its folder, and what is made of them.
pub(crate) struct Mutations {
    pub(crate) seed: u64,
    dice: Dice,
    corpus: Vec<Vec<u8>>,
    tried: usize,
    until: Instant,
}

impl Mutations {
    /// Reads the folder `tests/corpus/{name}` of a crate.
    pub(crate) fn new(manifest: &str, name: &str) -> Self {
        let folder = Path::new(manifest).join("tests/corpus").join(name);
        let mut paths: Vec<_> = std::fs::read_dir(&folder)
            .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
            .map(|entry| entry.unwrap().path())
            .collect();
        paths.sort();
        let corpus: Vec<Vec<u8>> = paths.iter().map(|path| std::fs::read(path).unwrap()).collect();
        assert!(!corpus.is_empty(), "{} is empty", folder.display());
        let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().subsec_nanos();
        let seed = number("PUNCTUAL_SEED").unwrap_or_else(|| u64::from(now()));
        let seconds = number("PUNCTUAL_FUZZ_SECONDS").unwrap_or(30);
        println!("{name}: PUNCTUAL_SEED={seed} for {seconds} s, {} inputs", corpus.len());
        let until = Instant::now() + Duration::from_secs(seconds);
        Self { seed, dice: Dice::new(seed), corpus, tried: 0, until }
    }

    /// The next input, until time is over. Those of the folder come first, whatever time it is.
    pub(crate) fn next_input(&mut self) -> Option<Vec<u8>> {
        self.tried += 1;
        if let Some(given) = self.corpus.get(self.tried - 1) {
            return Some(given.clone());
        }
        (Instant::now() < self.until).then(|| self.mutate())
    }

    /// How many inputs there were.
    pub(crate) const fn tried(&self) -> usize {
        self.tried
    }

    fn mutate(&mut self) -> Vec<u8> {
        let mut input = self.corpus[self.dice.roll(self.corpus.len())].clone();
        for _ in 0..=self.dice.roll(6) {
            self.mutate_once(&mut input);
            input.truncate(INPUT_BYTES_MAX);
        }
        input
    }

    fn mutate_once(&mut self, input: &mut Vec<u8>) {
        let dice = &mut self.dice;
        let at = dice.roll(input.len() + 1);
        match dice.roll(9) {
            0 if at < input.len() => input[at] ^= 1 << dice.roll(8),
            1 => input.insert(at, BYTES[dice.roll(BYTES.len())]),
            2 => drop(input.drain(dice.part(input.len()))),
            3 => {
                let copy = input[dice.part(input.len())].to_vec();
                input.splice(at..at, copy.repeat(1 + dice.roll(4)));
            }
            4 => {
                let other = &self.corpus[dice.roll(self.corpus.len())];
                let copy = other[dice.part(other.len())].to_vec();
                input.splice(at..at, copy);
            }
            5 => input.truncate(at),
            6 => {
                let copy = input[dice.part(input.len())].to_vec();
                input.splice(at..at, copy.repeat(1 + dice.roll(200)));
            }
            7 => {
                let part = dice.part(input.len());
                input.splice(part, WORDS[dice.roll(WORDS.len())].bytes());
            }
            _ => drop(input.splice(at..at, WORDS[dice.roll(WORDS.len())].bytes())),
        }
    }
}

/// Gives a target every input until time is over.
pub(crate) fn try_all(manifest: &str, name: &str, mut target: impl FnMut(&[u8])) {
    let mut inputs = Mutations::new(manifest, name);
    while let Some(input) = inputs.next_input() {
        let began = Instant::now();
        let done = catch_unwind(AssertUnwindSafe(|| target(&input)));
        let (took, seed) = (began.elapsed(), inputs.seed);
        let shown = input.escape_ascii();
        assert!(done.is_ok(), "{name}: PUNCTUAL_SEED={seed} panics with \"{shown}\"");
        assert!(took < INPUT_MAX, "{name}: PUNCTUAL_SEED={seed} took {took:?} for \"{shown}\"");
    }
    println!("{name}: {} inputs", inputs.tried());
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is not a number")))
}
