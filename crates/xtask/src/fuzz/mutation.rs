//! Makes inputs of others: bits, numbers, words, parts that are left out, doubled, or another's.

use elevon_testkit::Rng;

/// The longest input, in bytes.
const MAX_INPUT_BYTES: usize = 1 << 14;
/// The most steps from one input to another.
const STEPS: u64 = 4;
/// The longest word that is taken from a corpus.
const LONGEST_WORD: usize = 40;
/// Words that are taken from a corpus.
const MOST_WORDS: usize = 4096;

/// Numbers at which ranges end, written in text.
const NUMBERS: [&str; 24] = [
    "0",
    "1",
    "-1",
    "7",
    "255",
    "256",
    "32767",
    "32768",
    "65535",
    "65536",
    "2147483647",
    "2147483648",
    "-2147483648",
    "4294967295",
    "4294967296",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "340282366920938463463374607431768211456",
    "0.5",
    "1e19",
];
/// Numbers at which ranges end, in binary.
const BITS: [u64; 12] = [
    0,
    1,
    0x7f,
    0xff,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    u32::MAX as u64,
    u64::MAX / 2,
    1 << 63,
    u64::MAX,
];

/// Mutations of the inputs of a target.
pub(super) struct Mutations {
    words: Vec<Vec<u8>>,
}

impl Mutations {
    /// Takes words from a corpus besides these.
    pub(super) fn from_corpus(corpus: &[Vec<u8>], words: &[&str]) -> Self {
        let mut all: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        let is_end = |byte: &u8| !byte.is_ascii_alphanumeric() && *byte != b'_' && *byte != b'-';
        let parts = corpus.iter().flat_map(|input| input.split(is_end));
        all.extend(
            parts
                .filter(|word| (1..=LONGEST_WORD).contains(&word.len()))
                .take(MOST_WORDS)
                .map(<[u8]>::to_vec),
        );
        all.sort();
        all.dedup();
        Self { words: all }
    }

    /// Returns an input that was made of one of these.
    pub(super) fn input(&self, random: &mut Rng, pool: &[Vec<u8>]) -> Vec<u8> {
        let mut input = other(random, pool).to_vec();
        for _ in 0..1 + random.below(STEPS) {
            self.step(random, &mut input, pool);
        }
        input.truncate(MAX_INPUT_BYTES);
        input
    }

    fn step(&self, random: &mut Rng, input: &mut Vec<u8>, pool: &[Vec<u8>]) {
        let at = random.below(input.len() as u64 + 1) as usize;
        match random.below(10) {
            0 | 1 => number(random, input, at),
            2 if at < input.len() => input[at] ^= 1 << random.below(8),
            3 if at < input.len() => input[at] = random.below(256) as u8,
            4 => drop(input.drain(at..end(random, input, at))),
            5 => {
                let part = input[at..end(random, input, at)].to_vec();
                input.splice(at..at, part);
            }
            6 => {
                let from = other(random, pool);
                let start = random.below(from.len() as u64 + 1) as usize;
                input.truncate(at);
                input.extend_from_slice(&from[start..]);
            }
            7 => binary(random, input, at),
            _ if self.words.is_empty() => input.insert(at, b'0'),
            place => {
                let word = &self.words[random.below(self.words.len() as u64) as usize];
                // Beside what is there, or in place of the word there.
                let to = if place == 8 { at } else { word_end(input, at) };
                input.splice(at..to, word.iter().copied());
            }
        }
    }
}

fn other<'a>(random: &mut Rng, pool: &'a [Vec<u8>]) -> &'a [u8] {
    if pool.is_empty() { b"" } else { &pool[random.below(pool.len() as u64) as usize] }
}

/// Returns the end of a part that begins at a byte: short ones most often.
fn end(random: &mut Rng, input: &[u8], at: usize) -> usize {
    let longest = if random.one_in(4) { input.len() as u64 } else { 8 };
    at + (1 + random.below(longest.max(1))).min((input.len() - at) as u64) as usize
}

fn word_end(input: &[u8], at: usize) -> usize {
    input[at..]
        .iter()
        .position(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_')
        .map_or(input.len(), |end| at + end)
}

/// Puts another number in the place of the next one in the text.
fn number(random: &mut Rng, input: &mut Vec<u8>, at: usize) {
    let Some(start) = input[at..].iter().position(u8::is_ascii_digit).map(|from| at + from) else {
        return;
    };
    let end = input[start..]
        .iter()
        .position(|byte| !byte.is_ascii_digit())
        .map_or(input.len(), |end| start + end);
    let old =
        std::str::from_utf8(&input[start..end]).ok().and_then(|text| text.parse::<u64>().ok());
    let new = match (old, random.below(3)) {
        (Some(old), 0) => old.wrapping_add(1).to_string(),
        (Some(old), 1) if random.one_in(2) => old.wrapping_sub(1).to_string(),
        _ => random.pick(&NUMBERS).to_owned(),
    };
    input.splice(start..end, new.into_bytes());
}

/// Puts a number at the end of a range in the place of bytes.
fn binary(random: &mut Rng, input: &mut [u8], at: usize) {
    let number = random.pick(&BITS);
    let bytes = if random.one_in(2) { number.to_le_bytes() } else { number.to_be_bytes() };
    let count = 1 << random.below(4);
    for (to, from) in input[at..].iter_mut().zip(bytes).take(count) {
        *to = from;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_inputs_and_others_differ() {
        let pool = [b"[a]\nbs=4k\n".to_vec(), b"iodepth=32".to_vec()];
        let mutations = Mutations::from_corpus(&pool, &["rw="]);
        assert_eq!(mutations.words.len(), 6, "a, bs, 4k, iodepth, 32, rw=");
        let inputs = |seed| {
            let mut random = Rng(seed);
            (0..1000).map(|_| mutations.input(&mut random, &pool)).collect::<Vec<_>>()
        };
        let one = inputs(1);
        assert!(one == inputs(1) && one != inputs(2));
        let different: std::collections::BTreeSet<_> = one.iter().collect();
        assert!(different.len() > 800, "{}", different.len());
        assert!(
            one.iter().any(|input| input.windows(10).any(|part| part == b"9223372036")),
            "ends of ranges occur"
        );
        assert!(one.iter().all(|input| input.len() <= MAX_INPUT_BYTES));
    }

    #[test]
    fn an_empty_corpus_makes_inputs() {
        let mut random = Rng(1);
        let mutations = Mutations::from_corpus(&[], &[]);
        assert!((0..100).any(|_| !mutations.input(&mut random, &[]).is_empty()));
    }
}
