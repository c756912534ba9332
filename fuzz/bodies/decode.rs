//! The body of the decoder's fuzz target: shared by `cargo fuzz run decode` and the property tests on stable.

use causeway_contract::Limits;
use causeway_contract::decode::decode_line;
use causeway_contract::error::Fault;
use causeway_contract::json::check_object;

/// Decodes `line`: a refusal names its place consistently, an acceptance is stable, canonical and within the limits.
/// True when the line was accepted.
pub fn decode(line: &[u8]) -> bool {
    let limits = Limits::DEFAULT;
    match decode_line(line, &limits) {
        Ok(event) => {
            assert_eq!(event.check(&limits), Ok(()), "decoded values obey the rules for drafts");
            let mut canonical = Vec::new();
            event.write_json(&mut canonical);
            assert_eq!(canonical.len(), event.encoded_len());
            assert!(canonical.len() <= line.len(), "the canonical form is never longer");
            let again = decode_line(&canonical, &limits).expect("the canonical form decodes");
            let mut twice = Vec::new();
            again.write_json(&mut twice);
            assert_eq!(twice, canonical, "the canonical form is a fixed point");
            assert!(serde_json::from_slice::<serde_json::Value>(line).is_ok(), "what is accepted is JSON");
            true
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            if let Some(pointer) = error.pointer() {
                assert!(pointer.as_str().is_empty() || pointer.as_str().starts_with('/'));
                assert!(std::str::from_utf8(line).is_ok(), "a pointer is given only into lines that parse");
            }
            false
        }
    }
}

/// Compares the verdict on a JSON object with serde_json's. Ours is stricter on U+0000, on numbers beyond a double and
/// on depth, and nowhere else.
pub fn grammar(text: &str) {
    let ours = check_object(text, &Limits::DEFAULT);
    // A raw value checks the grammar only: half surrogates pass.
    let theirs = serde_json::from_str::<Box<serde_json::value::RawValue>>(text);
    match (&ours, theirs) {
        (Ok(()), Ok(_)) => {}
        (Ok(()), Err(error)) => panic!("accepted, but serde_json says {error}: {text:?}"),
        (Err(error), Err(_)) => {
            assert!(error.pointer().is_none(), "{error}, but it is no JSON: {text:?}");
        }
        // JSON, but not ours: then the fault has a place inside it, or the depth is beyond our limit.
        (Err(error), Ok(_)) => assert!(
            error.pointer().is_some() || matches!(error.fault(), Fault::TooDeep { .. }),
            "{error}, but serde_json accepts {text:?}"
        ),
    }
}

/// Makes bad lines out of good ones, the same ones for the same seed.
pub struct Mutator(u64);

const PIECES: &[&str] = &[
    "\"",
    "\\",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "null",
    "true",
    "-1",
    "1e999",
    "1.0",
    "\\u0000",
    "\\ud800",
    "\\udc00",
    "\u{feff}",
    "\u{202e}",
    "\n",
    "\0",
    " ",
    "\"data\":{}",
    "\"version\":1,",
    ",\"x\":1",
    "9007199254740992",
    "é",
    "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
];

impl Mutator {
    /// A mutator with its own sequence.
    pub fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// A number below `bound` (xorshift).
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound.max(1) as u64) as usize
    }

    /// One line of `corpus` with up to three changes; now and then with none.
    pub fn mutate(&mut self, corpus: &[String]) -> Vec<u8> {
        let mut line = corpus[self.below(corpus.len())].clone().into_bytes();
        for _ in 0..self.below(4) {
            let at = self.below(line.len());
            let end = at + self.below((line.len() - at).min(40));
            match self.below(6) {
                0 => line.get_mut(at).into_iter().for_each(|byte| *byte = byte.wrapping_add(1)),
                1 => drop(line.drain(at..end)),
                2 => {
                    let piece = PIECES[self.below(PIECES.len())];
                    line.splice(at..at, piece.bytes());
                }
                3 => {
                    let copy = line[at..end].to_vec();
                    line.splice(at..at, copy);
                }
                4 => {
                    let other = &corpus[self.below(corpus.len())];
                    let from = self.below(other.len());
                    line.splice(at..end, other.bytes().skip(from).take(20));
                }
                _ => line.truncate(at.max(1)),
            }
        }
        line
    }
}
