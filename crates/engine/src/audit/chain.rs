//! A line of the audit log and the chain it is in: text in, text out.
//!
//! Refuses to normalise: the hash is of the line as it stands, byte by byte, so that no reader can differ from us.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

use super::Act;

/// What the first line names as the hash before it.
pub const GENESIS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// A place in the chain: a line and its hash.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Anchor {
    /// The number of the line; 0 is before the first.
    pub sequence: u64,
    /// Its hash.
    pub hash: String,
}

impl Anchor {
    /// Before the first line.
    pub fn genesis() -> Self {
        Self { sequence: 0, hash: GENESIS.to_owned() }
    }

    /// `SEQ:HASH`, as [`Display`](std::fmt::Display) writes it.
    pub fn parse(text: &str) -> Option<Self> {
        let (sequence, hash) = text.split_once(':')?;
        is_hash(hash).then_some(())?;
        Some(Self { sequence: sequence.parse().ok()?, hash: hash.to_owned() })
    }
}

impl std::fmt::Display for Anchor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.sequence, self.hash)
    }
}

const CLOSING: usize = ",\"hash\":\"".len() + 64 + "\"}".len();

/// The line of an act behind `last`, with its line break, and where the chain is then.
pub(super) fn seal(act: &Act, last: &Anchor) -> (String, Anchor) {
    let sequence = last.sequence.saturating_add(1);
    let mut line =
        format!("{{\"seq\":{sequence},\"at\":\"{}\",\"action\":\"{}\"", act.at, act.action.as_str());
    let mut word = |key: &str, value: &str| {
        // Writing to a String cannot fail.
        let _ = write!(line, ",\"{key}\":{}", serde_json::Value::from(value));
    };
    if let Some(origin) = &act.origin {
        if let Some(token) = &origin.token {
            word("token", token);
        }
        word("request_id", &origin.request_id);
        word("route", &origin.route);
    }
    for (key, value) in &act.words {
        word(key, value);
    }
    word("prev", &last.hash);
    let hash = hash(&line);
    let _ = writeln!(line, ",\"hash\":\"{hash}\"}}");
    (line, Anchor { sequence, hash })
}

/// What a line says of its place.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Link {
    pub at: Anchor,
    pub previous: String,
}

/// Reads a line without its line break; what is wrong with it otherwise.
pub(super) fn read(line: &str) -> Result<Link, &'static str> {
    const NONE: &str = "is no line of an audit log";
    let (body, closing) =
        line.len().checked_sub(CLOSING).and_then(|at| line.split_at_checked(at)).ok_or(NONE)?;
    let told = closing.strip_prefix(",\"hash\":\"").and_then(|rest| rest.strip_suffix("\"}")).ok_or(NONE)?;
    if !is_hash(told) {
        return Err(NONE);
    }
    let fields: serde_json::Value = serde_json::from_str(&format!("{body}}}")).map_err(|_| NONE)?;
    let (Some(sequence), Some(previous)) = (fields["seq"].as_u64(), fields["prev"].as_str()) else {
        return Err(NONE);
    };
    if hash(body) != told {
        return Err("was changed: its hash is another");
    }
    Ok(Link { at: Anchor { sequence, hash: told.to_owned() }, previous: previous.to_owned() })
}

fn is_hash(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

fn hash(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

#[cfg(test)]
mod tests {
    use super::super::Action;
    use super::*;

    #[test]
    fn a_line_reads_back_and_any_change_of_it_is_seen() {
        let act = Act::new(Action::RunStarted).outcome("a \"quoted\"\nword");
        let (line, first) = seal(&act, &Anchor::genesis());
        let line = line.strip_suffix('\n').unwrap();
        assert!(!line.contains('\n'), "one line: {line}");
        let link = read(line).unwrap();
        assert_eq!(link, Link { at: first.clone(), previous: GENESIS.to_owned() });
        assert_eq!(Anchor::parse(&first.to_string()), Some(first));
        for at in 0..line.len() {
            let mut bytes = line.as_bytes().to_vec();
            bytes[at] ^= 1;
            let changed = String::from_utf8_lossy(&bytes).into_owned();
            assert!(read(&changed).is_err(), "{changed}");
        }
    }
}
