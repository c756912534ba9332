//! Newtypes for the ids, names and codes of the contract. A value that exists obeys the character rules.
//!
//! Nothing here draws an id: they come from the harness or are passed in by the engine.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use crate::text::Str;

/// Why a string is not an id, a name or a code.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum IdFault {
    /// The string is empty.
    #[error("is empty")]
    Empty,
    /// The string is longer than the limit.
    #[error("is {len} bytes long, the limit is {max}")]
    TooLong {
        /// Its length in bytes.
        len: usize,
        /// The limit in bytes.
        max: usize,
    },
    /// The string starts or ends with a space.
    #[error("starts or ends with a space")]
    Padded,
    /// The string holds a control character, U+2028, U+2029 or a bidirectional override.
    #[error("holds the forbidden character U+{code:04X}")]
    Forbidden {
        /// The character's code point.
        code: u32,
    },
    /// The string does not have the shape of a code.
    #[error("does not match {pattern}")]
    NotACode {
        /// The pattern it should match.
        pattern: &'static str,
    },
}

/// The default longest id or name, in bytes (decisions §5).
pub const DEFAULT_MAX_ID_BYTES: usize = 256;

/// Pattern of a `code`.
pub const CODE_PATTERN: &str = "^[a-z][a-z0-9_]{0,63}$";
/// Pattern of a `harness_id`.
pub const HARNESS_PATTERN: &str = "^[a-z][a-z0-9_-]{0,63}$";

/// Checks an id or a name (decisions §5 and §7).
///
/// # Errors
/// The first fault found.
pub fn check_id(value: &str, max_bytes: usize) -> Result<(), IdFault> {
    check_len(value, max_bytes)?;
    if value.bytes().all(|b| b > 0x20 && b < 0x7f) {
        return Ok(());
    }
    if let Some(bad) = value.chars().find(|&c| forbidden_in_id(c)) {
        return Err(IdFault::Forbidden { code: u32::from(bad) });
    }
    let space = char::is_whitespace;
    if value.starts_with(space) || value.ends_with(space) {
        return Err(IdFault::Padded);
    }
    Ok(())
}

/// The rules that are left for a string of visible ASCII characters.
#[inline]
fn check_len(value: &str, max_bytes: usize) -> Result<(), IdFault> {
    match value.len() {
        0 => Err(IdFault::Empty),
        len if len > max_bytes => Err(IdFault::TooLong { len, max: max_bytes }),
        _ => Ok(()),
    }
}

/// Checks a `code` (decisions §5); `dash` also allows `-`, as in `harness_id`.
///
/// # Errors
/// [`IdFault::NotACode`], or [`IdFault::Forbidden`] where a character is refused in any id.
pub fn check_code(value: &str, dash: bool) -> Result<(), IdFault> {
    let pattern = if dash { HARNESS_PATTERN } else { CODE_PATTERN };
    let mut bytes = value.bytes();
    let head = bytes.next().is_some_and(|b| b.is_ascii_lowercase());
    let tail =
        bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || (dash && b == b'-'));
    if head && tail && value.len() <= 64 {
        return Ok(());
    }
    match value.chars().find(|&c| forbidden_in_id(c)) {
        Some(bad) => Err(IdFault::Forbidden { code: u32::from(bad) }),
        None => Err(IdFault::NotACode { pattern }),
    }
}

fn forbidden_in_id(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// What the decoder needs to make any id.
pub(crate) trait Checked<'a>: Sized {
    /// Checks all rules.
    fn checked(value: Str<'a>, max_bytes: usize) -> Result<Self, IdFault>;
    /// Checks a string that is known to be visible ASCII characters only.
    fn visible(value: &'a str, max_bytes: usize) -> Result<Self, IdFault>;
}

macro_rules! text_newtype {
    ($(#[$doc:meta])* $name:ident, $check:expr, $visible:expr) => {
        $(#[$doc])*
        #[derive(Clone, Eq, Hash, Ord, PartialEq, PartialOrd)]
        pub struct $name<'a>(Str<'a>);

        impl<'a> $name<'a> {
            /// Takes a string that obeys the rules at the default limit.
            ///
            /// # Errors
            /// What rule the string breaks.
            pub fn new(value: impl Into<Str<'a>>) -> Result<Self, IdFault> {
                Self::bounded(value, DEFAULT_MAX_ID_BYTES)
            }

            /// Takes a string that obeys the rules, with another limit for its length.
            ///
            /// # Errors
            /// What rule the string breaks.
            pub fn bounded(value: impl Into<Str<'a>>, max_bytes: usize) -> Result<Self, IdFault> {
                let value = value.into();
                let check: fn(&str, usize) -> Result<(), IdFault> = $check;
                check(&value, max_bytes)?;
                Ok(Self(value))
            }

            /// The characters.
            pub fn as_str(&self) -> &str {
                self.0.as_str()
            }

            /// The same value without a tie to the input line.
            pub fn into_owned(self) -> $name<'static> {
                $name(self.0.into_owned())
            }

            /// The same value as a shared string.
            pub fn into_shared(self) -> Arc<str> {
                self.0.into_shared()
            }
        }

        impl<'a> Checked<'a> for $name<'a> {
            fn checked(value: Str<'a>, max_bytes: usize) -> Result<Self, IdFault> {
                Self::bounded(value, max_bytes)
            }

            #[inline]
            fn visible(value: &'a str, max_bytes: usize) -> Result<Self, IdFault> {
                let check: fn(&str, usize) -> Result<(), IdFault> = $visible;
                check(value, max_bytes)?;
                Ok(Self(Str::Borrowed(value)))
            }
        }

        impl AsRef<str> for $name<'_> {
            fn as_ref(&self) -> &str {
                self.as_str()
            }
        }

        impl Borrow<str> for $name<'_> {
            fn borrow(&self) -> &str {
                self.as_str()
            }
        }

        impl PartialEq<str> for $name<'_> {
            fn eq(&self, other: &str) -> bool {
                self.as_str() == other
            }
        }

        impl fmt::Debug for $name<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(self.as_str(), f)
            }
        }

        impl fmt::Display for $name<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self.as_str(), f)
            }
        }
    };
}

text_newtype!(
    /// A run: one turn of a conversation, one stream of events.
    RunId, check_id, check_len
);
text_newtype!(
    /// A conversation: what its runs share (a thread of the harness).
    ConversationId, check_id, check_len
);
text_newtype!(
    /// A text or a reasoning message. The two are separate id spaces.
    MessageId, check_id, check_len
);
text_newtype!(
    /// A tool call, unique in its run.
    ToolCallId, check_id, check_len
);
text_newtype!(
    /// An interrupt, minted by the engine.
    InterruptId, check_id, check_len
);
text_newtype!(
    /// One element of a namespace path: an opaque invocation id (R10).
    InvocationId, check_id, check_len
);
text_newtype!(
    /// A name shown to people or chosen by a harness: tools, agents, form fields, providers, models, versions.
    Name, check_id, check_len
);
text_newtype!(
    /// An opaque reference: `head_ref`, `result_ref`, `provider_run_id`.
    Reference, check_id, check_len
);
text_newtype!(
    /// A machine code: `^[a-z][a-z0-9_]{0,63}$`.
    Code, |value, _| check_code(value, false), |value, _| check_code(value, false)
);
text_newtype!(
    /// A harness: `^[a-z][a-z0-9_-]{0,63}$`.
    HarnessId, |value, _| check_code(value, true), |value, _| check_code(value, true)
);
