//! The seam to the world: what runs a tool once the gate has said so.
//!
//! An [`Invoker`] refuses to decide: the arguments are read, approved and written down when it gets them, and what it makes of
//! them is reported as it is. (A client of live MCP servers would be one more of them.)

use std::time::Duration;

use async_trait::async_trait;

/// A call that is to be run.
#[derive(Clone, Eq, PartialEq)]
pub struct Call {
    /// The run.
    pub run_id: String,
    /// The call.
    pub call_id: String,
    /// The tool.
    pub tool: String,
    /// Its arguments, one JSON object.
    pub arguments: String,
    /// How long it may take.
    pub timeout: Duration,
    /// The most it may say, in bytes.
    pub max_output: usize,
}

impl Call {
    /// What stands for this very call and no other: a tool that sees it twice has done it before.
    pub fn idempotency_key(&self) -> String {
        format!("{}:{}", self.run_id, self.call_id)
    }
}

/// Arguments may hold anything.
impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Call")
            .field("call_id", &self.call_id)
            .field("tool", &self.tool)
            .finish_non_exhaustive()
    }
}

/// Runs a tool.
#[async_trait]
pub trait Invoker: Send + Sync + 'static {
    /// Runs it once. Dropping the future ends what it started.
    async fn invoke(&self, call: &Call) -> Returned;
}

/// What became of a call.
#[derive(Clone, Eq, PartialEq)]
pub enum Returned {
    /// It said this.
    Said(String),
    /// It failed.
    Failed(Failed),
}

/// How a call failed.
#[derive(Clone, Eq, PartialEq)]
pub struct Failed {
    /// One of [`super::ERRORS`].
    pub code: &'static str,
    /// A sentence of ours.
    pub message: String,
    /// What the tool said all the same: for the worker, never for log or client.
    pub output: Option<String>,
    /// For the operator's log; nothing of what was said.
    pub why: Option<String>,
}

impl Failed {
    /// A failure with a sentence.
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), output: None, why: None }
    }

    /// The same with what an operator may want to know.
    #[must_use]
    pub fn because(mut self, why: impl Into<String>) -> Self {
        self.why = Some(why.into());
        self
    }
}

impl From<Failed> for Returned {
    fn from(failed: Failed) -> Self {
        Self::Failed(failed)
    }
}

/// Nothing of what was said.
impl std::fmt::Debug for Returned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Said(text) => write!(f, "Said(<{} bytes>)", text.len()),
            Self::Failed(failed) => write!(f, "Failed({})", failed.code),
        }
    }
}

/// It took too long.
pub fn timed_out(limit: Duration) -> Failed {
    Failed::new(super::TIMEOUT, format!("The tool took longer than {limit:?} and was ended."))
}

/// It said too much.
pub fn too_much(limit: usize) -> Failed {
    Failed::new(super::OUTPUT_TOO_LARGE, format!("The tool said more than {limit} bytes and was ended."))
}

/// It said what is no text.
pub fn no_text() -> Failed {
    Failed::new(super::OUTPUT_INVALID, "What the tool said is no text in UTF-8.")
}
