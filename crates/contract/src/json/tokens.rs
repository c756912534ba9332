//! The tokens of accepted JSON text, for writers that spell it in their own way.
//!
//! Refuses to judge: it trusts the text of a [`JsonObject`](super::JsonObject) and just stops at anything else.

use std::fmt;

use crate::json::string::RawStr;

/// One token. Keys and strings are raw: escapes untouched ([`RawStr::pieces`] resolves them).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Token<'a> {
    /// `{`
    BeginObject,
    /// `}`
    EndObject,
    /// `[`
    BeginArray,
    /// `]`
    EndArray,
    /// A member's key; its value follows.
    Key(RawStr<'a>),
    /// A string value.
    String(RawStr<'a>),
    /// A number as it is spelled.
    Number(&'a str),
    /// `true` or `false`.
    Bool(bool),
    /// `null`
    Null,
}

/// Iterates the tokens of accepted JSON text. Commas, colons and white space are not tokens.
#[derive(Clone)]
pub struct Tokens<'a> {
    rest: &'a str,
}

impl<'a> Tokens<'a> {
    /// The tokens of `text`, which the decoder or [`check_object`](super::check_object) has accepted.
    pub fn new(text: &'a str) -> Self {
        Self { rest: text }
    }

    /// Takes the first `len` bytes.
    fn take(&mut self, len: usize) -> Option<&'a str> {
        let (taken, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(taken)
    }
}

impl fmt::Debug for Tokens<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("rest_bytes", &self.rest.len()).finish()
    }
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        self.rest = self.rest.trim_start_matches(|c| is_space(c) || c == ',');
        let token = match self.rest.as_bytes().first()? {
            b'{' => self.take(1).map(|_| Token::BeginObject),
            b'}' => self.take(1).map(|_| Token::EndObject),
            b'[' => self.take(1).map(|_| Token::BeginArray),
            b']' => self.take(1).map(|_| Token::EndArray),
            b'"' => {
                let string = self.string()?;
                self.rest = self.rest.trim_start_matches(is_space);
                if let Some(rest) = self.rest.strip_prefix(':') {
                    self.rest = rest;
                    Some(Token::Key(string))
                } else {
                    Some(Token::String(string))
                }
            }
            b't' => self.take(4).map(|_| Token::Bool(true)),
            b'f' => self.take(5).map(|_| Token::Bool(false)),
            b'n' => self.take(4).map(|_| Token::Null),
            _ => {
                let len = self
                    .rest
                    .bytes()
                    .take_while(|b| matches!(b, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9'))
                    .count();
                if len == 0 { None } else { self.take(len).map(Token::Number) }
            }
        };
        if token.is_none() {
            self.rest = "";
        }
        token
    }
}

impl<'a> Tokens<'a> {
    /// Takes the string literal at the start.
    fn string(&mut self) -> Option<RawStr<'a>> {
        let bytes = self.rest.as_bytes();
        let mut end = 1;
        let mut escaped = false;
        loop {
            end += memchr::memchr2(b'"', b'\\', bytes.get(end..)?)?;
            if bytes.get(end) == Some(&b'"') {
                break;
            }
            escaped = true;
            end += 2;
        }
        let raw = self.rest.get(1..end)?;
        self.rest = self.rest.get(end + 1..)?;
        Some(RawStr::new(raw, escaped))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_in_order_without_punctuation() {
        let plain = |text| RawStr::new(text, false);
        assert_eq!(
            Tokens::new(" {\"a\" : [1, -2.5E3,\"x\\n\\\"\" ] ,\"b\":{},\"c\":[true,false,null]} ")
                .collect::<Vec<_>>(),
            [
                Token::BeginObject,
                Token::Key(plain("a")),
                Token::BeginArray,
                Token::Number("1"),
                Token::Number("-2.5E3"),
                Token::String(RawStr::new("x\\n\\\"", true)),
                Token::EndArray,
                Token::Key(plain("b")),
                Token::BeginObject,
                Token::EndObject,
                Token::Key(plain("c")),
                Token::BeginArray,
                Token::Bool(true),
                Token::Bool(false),
                Token::Null,
                Token::EndArray,
                Token::EndObject,
            ]
        );
    }

    #[test]
    fn text_that_is_not_json_ends_the_tokens() {
        for text in ["", "?", "\"open", "\"a\\", "tru", "\u{e9}"] {
            assert!(Tokens::new(text).count() <= 1, "{text}");
        }
    }
}
