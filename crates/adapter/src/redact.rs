//! Hides known shapes of secrets (decisions §7): in error and warning messages and details always, in arguments and
//! results where the agent asks for it.
//!
//! Shapes, not guesses: a secret without a known shape passes, and so does one that is split over two deltas.

use std::borrow::Cow;
use std::ops::Range;

use crate::tally;

/// What stands in the place of a secret.
pub const MARK: &str = "[redacted]";

/// The text with every known secret replaced by [`MARK`].
pub fn redact(text: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let (mut copied, mut at, mut places) = (0, 0, 0);
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        match secret_at(text, at) {
            Some(found) if !found.is_empty() => {
                out.push_str(text.get(copied..found.start).unwrap_or_default());
                out.push_str(MARK);
                places += 1;
                copied = found.end;
                at = found.end;
            }
            Some(_) | None => at += rest.chars().next().map_or(1, char::len_utf8),
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    tally::redacted(places);
    out.push_str(text.get(copied..).unwrap_or_default());
    Cow::Owned(out)
}

/// Tokens known by how they start: prefix, and how many characters must follow.
const PREFIXES: &[(&str, usize)] = &[
    ("sk-ant-", 10),
    ("sk-", 16),
    ("sk_live_", 10),
    ("sk_test_", 10),
    ("rk_live_", 10),
    ("ghp_", 20),
    ("gho_", 20),
    ("ghu_", 20),
    ("ghs_", 20),
    ("ghr_", 20),
    ("github_pat_", 20),
    ("glpat-", 12),
    ("xoxb-", 8),
    ("xoxa-", 8),
    ("xoxp-", 8),
    ("xoxr-", 8),
    ("xoxs-", 8),
    ("xapp-", 8),
    ("AKIA", 16),
    ("ASIA", 16),
    ("AIza", 30),
    ("ya29.", 10),
    ("hf_", 20),
    ("npm_", 20),
    ("pypi-", 20),
    ("dop_v1_", 20),
    ("SG.", 20),
    ("gsk_", 20),
    ("xai-", 20),
    ("lsv2_", 16),
];

/// Names of settings that hold secrets.
const SETTINGS: &[&str] = &[
    "password",
    "passwd",
    "pwd",
    "token",
    "secret",
    "api_key",
    "apikey",
    "api-key",
    "access_key",
    "access-key",
    "accesskey",
    "private_key",
    "credential",
];

/// The secret that starts or is announced at this place.
fn secret_at(text: &str, at: usize) -> Option<Range<usize>> {
    let rest = text.get(at..)?;
    let first = *rest.as_bytes().first()?;
    if first == b'=' || first == b':' {
        return assigned(text, at).or_else(|| credentials(text, at));
    }
    if !first.is_ascii_alphabetic() && first != b'-' {
        return None;
    }
    if rest.starts_with("-----BEGIN ") {
        return private_key(text, at);
    }
    let inside_word = text.get(..at)?.chars().next_back().is_some_and(|c| c.is_ascii_alphanumeric());
    if inside_word {
        return None;
    }
    if rest.get(..7).is_some_and(|word| word.eq_ignore_ascii_case("bearer ")) {
        let token = run(rest.get(7..)?, |c| token_char(c) || "/+=.".contains(c));
        return (token >= 6).then_some(at + 7..at + 7 + token);
    }
    if rest.starts_with("eyJ") {
        return web_token(rest).map(|len| at..at + len);
    }
    PREFIXES.iter().find_map(|(prefix, least)| {
        let tail = run(rest.strip_prefix(prefix)?, |c| token_char(c) || c == '.');
        (tail >= *least).then_some(at..at + prefix.len() + tail)
    })
}

fn token_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// How many bytes at the start of `text` are characters of that kind.
fn run(text: &str, kind: impl Fn(char) -> bool) -> usize {
    text.find(|c: char| !kind(c)).unwrap_or(text.len())
}

/// Three parts of base64url joined by points, the first two of them objects (`{"` is `eyJ`).
fn web_token(rest: &str) -> Option<usize> {
    let len = run(rest, |c| token_char(c) || c == '.' || c == '=');
    let mut parts = rest.get(..len)?.splitn(3, '.');
    let (head, claims, signature) = (parts.next()?, parts.next()?, parts.next()?);
    (head.len() > 8 && claims.starts_with("eyJ") && !signature.is_empty()).then_some(len)
}

/// `-----BEGIN … PRIVATE KEY-----` to its end, or to the end of the text.
fn private_key(text: &str, at: usize) -> Option<Range<usize>> {
    let rest = text.get(at..)?;
    let line = rest.get(..run(rest, |c| c != '\n' && c != '\\'))?;
    if !line.contains("PRIVATE KEY-----") {
        return None;
    }
    let end = rest.find("-----END ").and_then(|end| {
        let tail = rest.get(end + 9..)?;
        Some(end + 9 + tail.find("-----")? + 5)
    });
    Some(at..at + end.unwrap_or(rest.len()))
}

/// The value after `password=`, `API_TOKEN = "…"` or `"secret": "…"`; `at` stands on the sign.
fn assigned(text: &str, at: usize) -> Option<Range<usize>> {
    let before = text.get(..at)?;
    let quoted = before.trim_end().ends_with(['"', '\'']);
    if text.get(at..)?.starts_with(':') && !quoted {
        return None;
    }
    let name = before.trim_end().trim_end_matches(['"', '\'', '\\']);
    let from = name.rfind(|c: char| !token_char(c)).map_or(0, |n| n + 1);
    let name = name.get(from.min(name.len())..).unwrap_or_default().to_ascii_lowercase();
    if !SETTINGS.iter().any(|setting| name.ends_with(setting) || name.ends_with(&format!("{setting}s"))) {
        return None;
    }
    let after = text.get(at + 1..)?;
    let skip = run(after, |c| c == ' ');
    let value = after.get(skip..)?;
    let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''));
    let from = at + 1 + skip + quote.map_or(0, char::len_utf8);
    let value = text.get(from..)?;
    let len = match quote {
        Some(quote) => run(value, |c| c != quote && c != '\n'),
        None => run(value, |c| !c.is_whitespace() && !"&,;)}]\"'<>".contains(c)),
    };
    let found = value.get(..len)?;
    (!found.is_empty() && !value.starts_with(MARK)).then_some(from..from + len)
}

/// `user:password@` of a URL; `at` stands on the colon of `://`.
fn credentials(text: &str, at: usize) -> Option<Range<usize>> {
    let authority = text.get(at..)?.strip_prefix("://")?;
    let end = run(authority, |c| !c.is_whitespace() && !"/?#\"'<>".contains(c));
    let user = authority.get(..end)?.rfind('@')?;
    let secret = authority.get(..user)?;
    (secret.contains(':') && secret != MARK).then_some(at + 3..at + 3 + user)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_secrets_are_hidden_and_their_surroundings_stay() {
        let key = "A".repeat(24);
        for (given, hidden) in [
            ("Authorization: Bearer abc.def-123456 end", "Authorization: Bearer [redacted] end"),
            (&*format!("key sk-{key}, ok"), "key [redacted], ok"),
            (&*format!("(ghp_{key})"), "([redacted])"),
            ("AKIAABCDEFGHIJKLMNOP was used", "[redacted] was used"),
            ("jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln!", "jwt [redacted]!"),
            ("password=hunter2&x=1", "password=[redacted]&x=1"),
            ("DB_PASSWORD = \"a b\" next", "DB_PASSWORD = \"[redacted]\" next"),
            ("{\"api_key\": \"xyz\"}", "{\"api_key\": \"[redacted]\"}"),
            ("postgres://bob:s3cret@db/x", "postgres://[redacted]@db/x"),
            ("a\n-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----\nb", "a\n[redacted]\nb"),
        ] {
            assert_eq!(redact(given), hidden, "{given}");
        }
    }

    #[test]
    fn ordinary_text_is_left_alone() {
        for text in [
            "token: expected `}`",
            "the bearer of news",
            "ask-me-anything-about-it-please",
            "x = 1",
            "a://b/c",
            "https://example.com/a:b@c",
            "keys: none",
            "eyJ is base64",
            "pässwörd",
        ] {
            assert!(matches!(redact(text), Cow::Borrowed(_)), "{text}");
        }
    }

    #[test]
    fn hiding_twice_changes_nothing_more() {
        let once = redact("token=abc https://u:p@h/ Bearer abcdefgh").into_owned();
        assert_eq!(redact(&once), once);
    }
}
