//! What is said to the CLI: its arguments, control requests and the user's line; and how it is greeted.
//!
//! Refuses a process that does not answer `initialize`, or that ends instead because it does not know the session.

use async_trait::async_trait;
use causeway_adapter::json::{Json, write_string};
use causeway_adapter::registry::stream_json::{Seen, Watch, parts};
use causeway_adapter::worker::MAX_LINE;

use crate::harness::{Turn, TurnInput};
use crate::process::Demand;
use crate::process::lines::Read;
use crate::process::worker::{Greeting, StartError, Worker};

/// What makes the CLI speak stream-json both ways and ask us for permission.
const SPEAK: [&str; 9] = [
    "--input-format",
    "stream-json",
    "--output-format",
    "stream-json",
    "--verbose",
    "--include-partial-messages",
    "--permission-prompt-tool",
    "stdio",
    "--print",
];

/// The id of our `initialize`.
const INITIALIZE: &str = "causeway-initialize";

/// Starts a process that stands at a head.
#[derive(Clone, Copy, Debug)]
pub(super) struct StandAt<'a>(pub Option<&'a str>);

#[async_trait]
impl Greeting for StandAt<'_> {
    fn arguments(&self) -> Vec<String> {
        let mut arguments: Vec<String> = SPEAK.map(str::to_owned).to_vec();
        if let Some(head) = self.0 {
            let (session, entry) = parts(head);
            arguments.extend(["--resume".to_owned(), session.to_owned()]);
            if let Some(entry) = entry {
                arguments.extend(["--resume-session-at".to_owned(), entry.to_owned()]);
            }
            arguments.push("--fork-session".to_owned());
        }
        arguments
    }

    fn environment(&self) -> &'static [(&'static str, &'static str)] {
        // Subagents and commands in the background would go on after the end of their run, and be heard by no one.
        &[("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "1")]
    }

    async fn greet(&self, worker: &mut Worker, _demand: &Demand) -> Result<(), StartError> {
        let initialize = format!(
            "{{\"type\":\"control_request\",\"request_id\":\"{INITIALIZE}\",\"request\":{{\"subtype\":\"initialize\",\"hooks\":null}}}}\n"
        );
        let mut rest = initialize.as_bytes();
        while !rest.is_empty() {
            let taken = worker.stdin.write_some(rest).await.map_err(|_| StartError::Died)?;
            rest = rest.get(taken..).unwrap_or_default();
        }
        let mut watch = Watch::default();
        loop {
            let line = match worker.lines.next().await {
                Read::Line(line) => line,
                Read::TooLong => return Err(StartError::NoHello),
                Read::End | Read::Broken => return Err(StartError::Died),
            };
            match watch.see(&line).map_err(|_| StartError::NoHello)? {
                Seen::Response(id, went_well) if id == INITIALIZE => {
                    return if went_well { Ok(()) } else { Err(StartError::NoHello) };
                }
                // It says so when the session or its entry is not there.
                Seen::Over if self.0.is_some() => return Err(StartError::StateLost),
                Seen::Over => return Err(StartError::Died),
                Seen::Response(..) | Seen::Begun | Seen::Said | Seen::Aside => {}
            }
        }
    }

    fn is_harmless(&self) -> fn(&[u8]) -> bool {
        // Whatever moves the conversation moves the process away from where it stands.
        |line| matches!(Watch::default().see(line), Ok(Seen::Aside | Seen::Response(..)))
    }
}

/// The lines that a turn begins with; `None` where the CLI cannot be told.
pub(super) fn request(turn: &Turn) -> Option<Vec<u8>> {
    let out = match &turn.input {
        TurnInput::Message { files: Some(_), .. } => return None,
        TurnInput::Message { text, context: _, files: None } => {
            let mut out = String::from("{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":");
            write_string(text, &mut out);
            out.push_str("},\"parent_tool_use_id\":null,\"session_id\":\"\"}\n");
            out
        }
        TurnInput::Resume(value) => {
            let value = Json::parse(value.as_bytes()).ok()?;
            let mut out = String::new();
            for response in responses(&value) {
                response.write(&mut out);
                out.push('\n');
            }
            out
        }
    };
    out.lines().all(|line| line.len() < MAX_LINE).then(|| out.into_bytes())
}

/// The requests that a resume value answers.
pub(super) fn answered(value: &str) -> Vec<String> {
    let Ok(value) = Json::parse(value.as_bytes()) else { return Vec::new() };
    let id = |one: &Json<'_>| Some(one.get("response")?.str("request_id")?.lossy().into_owned());
    responses(&value).iter().filter_map(id).collect()
}

fn responses<'j, 'a>(value: &'j Json<'a>) -> &'j [Json<'a>] {
    match value {
        Json::Array(items) => items,
        one => std::slice::from_ref(one),
    }
}

/// What makes the CLI leave a turn.
pub(super) const INTERRUPT: &str = "{\"type\":\"control_request\",\"request_id\":\"causeway-interrupt\",\"request\":{\"subtype\":\"interrupt\"}}\n";

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_contract::id::{ConversationId, Name, RunId};

    fn turn(input: TurnInput) -> Turn {
        Turn {
            owner: causeway_store::model::Owner::local(),
            agent_id: Name::new("helper").unwrap(),
            conversation_id: ConversationId::new("c").unwrap(),
            epoch: 0,
            run_id: RunId::new("r").unwrap(),
            thread_id: "t".into(),
            base: None,
            input,
            traceparent: None,
            forget: Vec::new(),
            tools: None,
        }
    }

    fn said(input: TurnInput) -> Option<String> {
        request(&turn(input)).map(|bytes| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn a_message_is_one_line_and_files_are_refused() {
        let message = |files| TurnInput::Message { text: "a\n\"b\"".to_owned(), context: None, files };
        assert_eq!(
            said(message(None)).unwrap(),
            "{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"a\\n\\\"b\\\"\"},\"parent_tool_use_id\":null,\"session_id\":\"\"}\n"
        );
        assert_eq!(said(message(Some("{}".to_owned()))), None);
        let long = TurnInput::Message { text: "x".repeat(MAX_LINE), context: None, files: None };
        assert_eq!(said(long), None);
    }

    #[test]
    fn every_response_is_a_line_and_names_its_request() {
        let one = r#"{"type":"control_response","response":{"request_id":"r1","response":{"n":1.0}}}"#;
        let two = one.replace("r1", "r2");
        assert_eq!(said(TurnInput::Resume(one.to_owned())).unwrap(), format!("{one}\n"));
        let both = format!("[{one},\n{two}]");
        assert_eq!(said(TurnInput::Resume(both.clone())).unwrap(), format!("{one}\n{two}\n"));
        assert_eq!((answered(one), answered(&both)), (vec!["r1".to_owned()], vec!["r1".into(), "r2".into()]));
        assert_eq!(answered("null"), [""; 0]);
    }

    #[test]
    fn a_process_is_started_where_the_turn_begins() {
        let added = |head| StandAt(head).arguments()[SPEAK.len()..].join(" ");
        assert_eq!(added(None), "");
        assert_eq!(added(Some("s:e")), "--resume s --resume-session-at e --fork-session");
        assert_eq!(added(Some("s")), "--resume s --fork-session");
    }
}
