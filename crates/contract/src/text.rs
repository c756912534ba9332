//! Strings of the contract: borrowed from the input line or shared between events.
//!
//! Ids repeat in every event of a message or a call, so owned ones are reference-counted: cloning never copies.

use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// Free text of an event (deltas, results, prompts): borrowed from the decoded line where it holds no escape.
pub type Text<'a> = Cow<'a, str>;

/// A string that is cheap to clone: a slice of the input, or shared.
#[derive(Clone)]
pub enum Str<'a> {
    /// A slice of the decoded line.
    Borrowed(&'a str),
    /// Owned, shared by every clone.
    Shared(Arc<str>),
}

impl<'a> Str<'a> {
    /// The characters.
    pub fn as_str(&self) -> &str {
        self
    }

    /// The same string without a tie to the input line.
    pub fn into_owned(self) -> Str<'static> {
        match self {
            Self::Borrowed(text) => Str::Shared(Arc::from(text)),
            Self::Shared(text) => Str::Shared(text),
        }
    }

    /// The same string as a reference-counted one.
    pub fn into_shared(self) -> Arc<str> {
        match self {
            Self::Borrowed(text) => Arc::from(text),
            Self::Shared(text) => text,
        }
    }
}

impl Deref for Str<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Shared(text) => text,
        }
    }
}

impl AsRef<str> for Str<'_> {
    fn as_ref(&self) -> &str {
        self
    }
}

impl Default for Str<'_> {
    fn default() -> Self {
        Self::Borrowed("")
    }
}

impl PartialEq for Str<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Str<'_> {}

impl PartialOrd for Str<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Str<'_> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl Hash for Str<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl std::borrow::Borrow<str> for Str<'_> {
    fn borrow(&self) -> &str {
        self
    }
}

impl fmt::Debug for Str<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Str<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.as_str(), f)
    }
}

impl<'a> From<&'a str> for Str<'a> {
    fn from(text: &'a str) -> Self {
        Self::Borrowed(text)
    }
}

impl From<String> for Str<'_> {
    fn from(text: String) -> Self {
        Self::Shared(Arc::from(text))
    }
}

impl From<Arc<str>> for Str<'_> {
    fn from(text: Arc<str>) -> Self {
        Self::Shared(text)
    }
}

impl<'a> From<Cow<'a, str>> for Str<'a> {
    fn from(text: Cow<'a, str>) -> Self {
        match text {
            Cow::Borrowed(text) => Self::Borrowed(text),
            Cow::Owned(text) => Self::from(text),
        }
    }
}
