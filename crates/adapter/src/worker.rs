//! Lines of the worker protocol as a driver needs them: kind, run and closing state. Old recordings are read too:
//! their `begin` has `thread_id` and `op`, their lines carry no `run_id`, their state `checkpoint_id` for `head`.
//!
//! Only reads; what a line means for the run is the adapter's and the coordinator's business.

use crate::adapter::ItemError;
use crate::json::{Json, JsonStr, Unit, join};

/// The longest line of the protocol, without its line break.
pub const MAX_LINE: usize = 8 * 1024 * 1024;

/// One line that a worker wrote.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum WorkerLine<'a> {
    /// The worker is up.
    Hello(Hello<'a>),
    /// A turn starts.
    Begin {
        /// The run; absent in old recordings.
        run_id: Option<String>,
        /// `run`, `resume`, or `continue` in old recordings.
        op: Op,
        /// The native thread; old recordings only.
        thread_id: Option<String>,
        /// The resume value that the line repeats.
        resume: Option<Json<'a>>,
    },
    /// A native event.
    Chunk {
        /// The run.
        run_id: Option<String>,
    },
    /// A tool is to be run for the worker.
    Tool(ToolLine),
    /// The native stream ended.
    End {
        /// The run.
        run_id: Option<String>,
        /// The new head.
        head: Option<String>,
    },
    /// The turn was left after a cancel.
    Cancelled {
        /// The run.
        run_id: Option<String>,
        /// The new head, if the turn stored anything.
        head: Option<String>,
    },
    /// The turn failed, or a request was refused.
    Error {
        /// The run; `None` too where the request named none, and then nothing is closed.
        run_id: Option<String>,
        /// A word of the protocol or the name of an exception.
        error_type: String,
        /// For logs, never for clients.
        message: String,
    },
}

/// The first line of a worker.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Hello<'a> {
    /// The protocol's version; absent in old recordings.
    pub protocol: Option<u64>,
    /// The harness.
    pub harness: String,
    /// Versions of its packages.
    pub versions: Json<'a>,
    /// Whether it can start from an earlier state.
    pub restore: bool,
    /// Whether it takes `forget`.
    pub forget: bool,
    /// Whether it can ask for tools.
    pub tools: bool,
}

/// A call that a worker wants the gateway to run.
#[derive(Clone, Eq, PartialEq)]
pub struct ToolLine {
    /// The run.
    pub run_id: Option<String>,
    /// The call, as the harness calls it.
    pub call_id: String,
    /// The tool.
    pub name: String,
    /// The text of the arguments, pieces joined, not read yet. `None`: there is no text, or half a character stays alone.
    pub arguments: Option<String>,
    /// The generation that the request gave.
    pub generation: Option<u64>,
    /// The namespace of the call, for a worker that has not told of it before.
    pub namespace: Vec<String>,
}

/// Arguments may hold anything: they are not shown.
impl std::fmt::Debug for ToolLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolLine")
            .field("run_id", &self.run_id)
            .field("call_id", &self.call_id)
            .field("name", &self.name)
            .field("generation", &self.generation)
            .finish_non_exhaustive()
    }
}

impl ToolLine {
    fn read(line: &Json<'_>, run_id: Option<String>) -> Result<Self, ItemError> {
        let text = |key| line.text(key).map(str::to_owned);
        let namespace: Option<Vec<String>> =
            line.list("namespace").iter().map(|one| Some(one.as_str()?.as_plain()?.to_owned())).collect();
        Ok(Self {
            run_id,
            call_id: text("call_id").ok_or(ItemError::Shape { what: "`call_id`, a string" })?,
            name: text("name").ok_or(ItemError::Shape { what: "`name`, a string" })?,
            arguments: match (line.get("arguments"), line.get("deltas")) {
                (Some(Json::String(whole)), None) => joined([whole]),
                (None, Some(Json::Array(pieces))) => {
                    let pieces: Option<Vec<&JsonStr<'_>>> = pieces.iter().map(Json::as_str).collect();
                    pieces.and_then(joined)
                }
                (Some(_) | None, _) => None,
            },
            generation: line.get("generation").and_then(Json::as_u64),
            namespace: namespace.ok_or(ItemError::Shape { what: "`namespace`, a list of strings" })?,
        })
    }
}

/// Pieces as one text; a character may be split over two of them.
fn joined<'s, 'a: 's>(pieces: impl IntoIterator<Item = &'s JsonStr<'a>>) -> Option<String> {
    let mut out = String::new();
    let mut high = None;
    for unit in pieces.into_iter().flat_map(JsonStr::units) {
        match (high.take(), unit) {
            (None, Unit::Char(c)) => out.push(c),
            (None, Unit::High(half)) => high = Some(half),
            (Some(first), Unit::Low(second)) => out.push(join(first, second)?),
            (None, Unit::Low(_)) | (Some(_), Unit::Char(_) | Unit::High(_)) => return None,
        }
    }
    high.is_none().then_some(out)
}

/// What a turn is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Op {
    /// A message of the user.
    Run,
    /// The answer to a pause.
    Resume,
    /// Old recordings: a killed run goes on in its own thread.
    Continue,
}

impl<'a> WorkerLine<'a> {
    /// Reads a line.
    ///
    /// # Errors
    /// It is too long, not JSON, or not a line of the protocol.
    pub fn parse(line: &'a [u8]) -> Result<Self, ItemError> {
        Self::from_json(&parse_line(line)?)
    }

    /// Reads a line that is already JSON.
    ///
    /// # Errors
    /// It is not a line of the protocol.
    pub fn from_json(line: &Json<'a>) -> Result<Self, ItemError> {
        if !line.is_object() {
            return Err(ItemError::Shape { what: "an object" });
        }
        let owned = |key: &str| line.str(key).map(|text| text.lossy().into_owned());
        let run_id = owned("run_id");
        match line.text("kind") {
            Some("hello") => Ok(Self::Hello(Hello {
                protocol: line.get("protocol").and_then(Json::as_u64),
                harness: owned("harness").unwrap_or_default(),
                versions: line.get("versions").cloned().unwrap_or(Json::Object(Vec::new())),
                restore: line.get("restore") != Some(&Json::Bool(false)),
                forget: line.get("forget") == Some(&Json::Bool(true)),
                tools: line.get("tools") == Some(&Json::Bool(true)),
            })),
            Some("begin") => Ok(Self::Begin {
                run_id,
                op: match line.text("op") {
                    Some("run") | None => Op::Run,
                    Some("resume") => Op::Resume,
                    Some("continue") => Op::Continue,
                    Some(_) => return Err(ItemError::Shape { what: "`op` run, resume or continue" }),
                },
                thread_id: owned("thread_id"),
                resume: line
                    .members()
                    .iter()
                    .find(|(key, _)| key == "resume")
                    .map(|(_, value)| value.clone()),
            }),
            Some("chunk") => Ok(Self::Chunk { run_id }),
            Some("tool") => Ok(Self::Tool(ToolLine::read(line, run_id)?)),
            Some("end") => Ok(Self::End { run_id, head: head(line) }),
            Some("cancelled") => Ok(Self::Cancelled { run_id, head: head(line) }),
            Some("error") => Ok(Self::Error {
                run_id,
                error_type: owned("error_type").unwrap_or_default(),
                message: owned("message").unwrap_or_default(),
            }),
            Some(_) | None => {
                Err(ItemError::Shape { what: "`kind` hello, begin, chunk, tool, end, cancelled or error" })
            }
        }
    }

    /// The run it belongs to, where the line says so.
    pub fn run_id(&self) -> Option<&str> {
        match self {
            Self::Hello(_) => None,
            Self::Begin { run_id, .. }
            | Self::Chunk { run_id }
            | Self::Tool(ToolLine { run_id, .. })
            | Self::End { run_id, .. }
            | Self::Cancelled { run_id, .. }
            | Self::Error { run_id, .. } => run_id.as_deref(),
        }
    }

    /// Whether no further line of the run may follow.
    pub fn is_closing(&self) -> bool {
        match self {
            Self::End { .. } | Self::Cancelled { .. } | Self::Error { .. } => true,
            Self::Hello(_) | Self::Begin { .. } | Self::Chunk { .. } | Self::Tool(_) => false,
        }
    }
}

/// Reads the JSON of a line within the protocol's bound.
///
/// # Errors
/// It is too long or not JSON.
pub fn parse_line(line: &[u8]) -> Result<Json<'_>, ItemError> {
    if line.len() > MAX_LINE {
        return Err(ItemError::Oversized { len: line.len(), max: MAX_LINE });
    }
    Json::parse(line)
}

/// The head that a closing line reports.
pub fn head(line: &Json<'_>) -> Option<String> {
    let state = line.get("state")?;
    let head = state.str("head").or_else(|| state.str("checkpoint_id"))?;
    Some(head.lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_both_formats_are_read() {
        let begin = WorkerLine::parse(br#"{"kind":"begin","thread_id":"t","op":"resume"}"#).unwrap();
        let expected =
            WorkerLine::Begin { run_id: None, op: Op::Resume, thread_id: Some("t".to_owned()), resume: None };
        assert_eq!(begin, expected);
        let begin =
            WorkerLine::parse(br#"{"kind":"begin","run_id":"r","op":"resume","resume":null}"#).unwrap();
        let expected = WorkerLine::Begin {
            run_id: Some("r".to_owned()),
            op: Op::Resume,
            thread_id: None,
            resume: Some(Json::Null),
        };
        assert_eq!(begin, expected);
        for (line, head) in [
            (&br#"{"kind":"end","run_id":"r","state":{"head":"h"}}"#[..], Some("h")),
            (br#"{"kind":"end","run_id":"r","state":{"checkpoint_id":"c"}}"#, Some("c")),
            (br#"{"kind":"end","run_id":"r","state":{}}"#, None),
        ] {
            let expected = WorkerLine::End { run_id: Some("r".to_owned()), head: head.map(str::to_owned) };
            assert_eq!(WorkerLine::parse(line).unwrap(), expected);
        }
    }

    #[test]
    fn the_arguments_of_a_tool_line_are_one_text_however_they_were_cut() {
        let read = |keys: &str| {
            let line = format!(r#"{{"kind":"tool","run_id":"r","call_id":"c","name":"n",{keys}}}"#);
            match WorkerLine::parse(line.as_bytes()).unwrap() {
                WorkerLine::Tool(tool) => tool.arguments,
                other => panic!("{other:?}"),
            }
        };
        let whole = |text: &str| Some(text.to_owned());
        assert_eq!(read(r#""arguments":"{\"a\": 1}""#), whole(r#"{"a": 1}"#));
        assert_eq!(read(r#""deltas":["{\"a\":","1}"]"#), whole(r#"{"a":1}"#));
        assert_eq!(read(r#""deltas":["{\"a\":\"\ud83d","\ude00\"}"]"#), whole("{\"a\":\"\u{1f600}\"}"));
        assert_eq!(read(r#""deltas":[]"#), whole(""));
        for nothing in [
            r#""arguments":{}"#,
            r#""arguments":null"#,
            r#""deltas":[1]"#,
            r#""arguments":"{}","deltas":["{}"]"#,
            r#""arguments":"\ud83d""#,
            r#""deltas":["\ude00","\ud83d"]"#,
            r#""deltas":["\ud83d","x\ude00"]"#,
        ] {
            assert_eq!(read(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn what_is_no_line_of_the_protocol_is_refused() {
        for line in [
            &b"[]"[..],
            b"{}",
            br#"{"kind":"what"}"#,
            br#"{"kind":"begin","op":"x"}"#,
            br#"{"kind":"tool","name":"n"}"#,
            b"\xff\x00",
        ] {
            assert!(WorkerLine::parse(line).is_err(), "{line:?}");
        }
        let long = vec![b' '; MAX_LINE + 1];
        assert_eq!(WorkerLine::parse(&long), Err(ItemError::Oversized { len: MAX_LINE + 1, max: MAX_LINE }));
    }
}
