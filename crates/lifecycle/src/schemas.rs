//! What is known about the arguments of tools, as far as the rules need it: whether a text of arguments fits.
//!
//! Refuses to read or compile a schema: whoever has them says yes or no, and at which place no.

use std::fmt;

/// Knows the schemas of tools.
pub trait ToolSchemas: fmt::Debug + Send + Sync {
    /// Whether `arguments`, one JSON object, satisfy the schema of the tool; a tool without one takes all.
    ///
    /// # Errors
    /// Where they do not.
    fn check(&self, tool_name: &str, arguments: &str) -> Result<(), Mismatch>;
}

/// Where arguments do not satisfy a schema. It says places, never values.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Mismatch {
    /// RFC 6901 pointer into the arguments, cut where it is long.
    pub pointer: String,
    /// RFC 6901 pointer into the schema: what asks for it.
    pub rule: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {:?} (schema: {:?})", self.pointer, self.rule)
    }
}
