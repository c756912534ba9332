//! One turn as the body of a request, in the shape that the endpoint takes.
//!
//! Refuses what a shape has no words for: an answer to a pause where the endpoint knows none, files where it takes none.

use causeway_adapter::json::{Json, write_string};
use causeway_store::model::Owner;
use sha2::{Digest, Sha256};

use super::config::Shape;
use crate::harness::{Turn, TurnInput};
use crate::process::request as worker;

/// Between the thread and the run in a head that an adapter took from a stream.
const HEAD_SEPARATOR: char = '/';

/// The body; `None` when the shape cannot say it. `extra` is a JSON object whose members come first.
pub(super) fn body(shape: Shape, turn: &Turn, thread: &str, extra: Option<&str>) -> Option<Vec<u8>> {
    let mut body = Body::new(extra);
    match shape {
        Shape::Worker => return worker::turn(turn),
        Shape::AgUi => agui(turn, thread, &mut body)?,
        Shape::AgentCoreRuntime => {
            let (text, context) = message(turn)?;
            body.text("prompt", text);
            if let Some(context) = context {
                body.json("context", context);
            }
        }
        Shape::AgentCoreHarness | Shape::Converse => {
            let (text, _) = message(turn)?;
            let mut messages = String::from("[{\"role\":\"user\",\"content\":[{\"text\":");
            write_string(text, &mut messages);
            messages.push_str("}]}]");
            body.json("messages", &messages);
        }
        Shape::Messages => {
            let (text, _) = message(turn)?;
            let mut messages = String::from("[{\"role\":\"user\",\"content\":");
            write_string(text, &mut messages);
            messages.push_str("}]");
            body.json("messages", &messages);
            body.json("stream", "true");
        }
        Shape::Responses => {
            let (text, _) = message(turn)?;
            body.text("input", text);
            body.json("stream", "true");
        }
    }
    Some(body.finish())
}

/// The name of the endpoint's thread: the same for all runs of a conversation where the endpoint keeps threads, else
/// one for each run. It tells nothing of what it was made from.
pub(super) fn thread(turn: &Turn, keeps_threads: bool) -> String {
    let mut hash = Sha256::new();
    // Without authentication there is one owner, and names stay as they were.
    let owner = if turn.owner == Owner::local() { None } else { Some(turn.owner.as_str()) };
    for part in [turn.agent_id.as_str(), turn.conversation_id.as_str()].into_iter().chain(owner) {
        hash.update(part.len().to_le_bytes());
        hash.update(part.as_bytes());
    }
    hash.update(turn.epoch.to_le_bytes());
    if !keeps_threads {
        hash.update(turn.run_id.as_str().as_bytes());
    }
    let hex: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("causeway-{hex}")
}

/// `RunAgentInput`. `parentRunId` is the run whose end was committed last, as AG-UI names a point to go on from.
fn agui(turn: &Turn, thread: &str, body: &mut Body) -> Option<()> {
    body.text("threadId", thread);
    body.text("runId", turn.run_id.as_str());
    body.text("protocolVersion", "1.0");
    if let Some((_, run)) = turn.base.as_ref().and_then(|head| head.as_str().rsplit_once(HEAD_SEPARATOR)) {
        body.text("parentRunId", run);
    }
    let mut messages = String::from("[");
    let mut context = String::from("[");
    match &turn.input {
        TurnInput::Message { files: Some(_), .. } => return None,
        TurnInput::Message { text, context: given, .. } => {
            messages.push_str("{\"id\":");
            write_string(&format!("{}-user", turn.run_id.as_str()), &mut messages);
            messages.push_str(",\"role\":\"user\",\"content\":");
            write_string(text, &mut messages);
            messages.push('}');
            if let Some(given) = given {
                context.push_str("{\"description\":\"context of the request\",\"value\":");
                write_string(given, &mut context);
                context.push('}');
            }
        }
        TurnInput::Resume(_) => {}
    }
    messages.push(']');
    context.push(']');
    body.default("state", "{}");
    body.json("messages", &messages);
    body.default("tools", "[]");
    body.json("context", &context);
    body.default("forwardedProps", "{}");
    if let TurnInput::Resume(value) = &turn.input {
        body.json("resume", value);
    }
    Some(())
}

/// The text and the context of a message that carries nothing else.
fn message(turn: &Turn) -> Option<(&str, Option<&str>)> {
    match &turn.input {
        TurnInput::Message { text, context, files: None } => Some((text, context.as_deref())),
        TurnInput::Message { files: Some(_), .. } | TurnInput::Resume(_) => None,
    }
}

/// A JSON object on its way; members of the configuration come first, those that the driver writes replace them.
struct Body {
    members: Vec<(String, String)>,
}

impl Body {
    fn new(extra: Option<&str>) -> Self {
        let extra = extra.and_then(|text| Json::parse(text.as_bytes()).ok());
        let members = extra.iter().flat_map(Json::members);
        Self { members: members.map(|(key, value)| (key.lossy().into_owned(), value.to_text())).collect() }
    }

    fn text(&mut self, key: &str, value: &str) {
        let mut text = String::new();
        write_string(value, &mut text);
        self.json(key, &text);
    }

    fn json(&mut self, key: &str, value: &str) {
        self.members.retain(|(name, _)| name != key);
        self.members.push((key.to_owned(), value.to_owned()));
    }

    /// Only where the configuration says nothing.
    fn default(&mut self, key: &str, value: &str) {
        if !self.members.iter().any(|(name, _)| name == key) {
            self.json(key, value);
        }
    }

    fn finish(self) -> Vec<u8> {
        let mut out = String::from("{");
        for (at, (key, value)) in self.members.iter().enumerate() {
            if at > 0 {
                out.push(',');
            }
            write_string(key, &mut out);
            out.push(':');
            out.push_str(value);
        }
        out.push('}');
        out.into_bytes()
    }
}

/// Whether a text is a JSON object, so that it can stand as `body`.
pub fn is_object(text: &str) -> bool {
    Json::parse(text.as_bytes()).is_ok_and(|json| json.is_object())
}

#[cfg(test)]
mod tests {
    use causeway_contract::id::{ConversationId, Name, Reference, RunId};

    use super::*;

    fn turn(input: TurnInput) -> Turn {
        Turn {
            owner: Owner::local(),
            agent_id: Name::new("helper").unwrap(),
            conversation_id: ConversationId::new("c").unwrap(),
            epoch: 0,
            run_id: RunId::new("r1").unwrap(),
            thread_id: "t1".into(),
            base: Some(Reference::new("thread/r0").unwrap()),
            input,
            traceparent: None,
            forget: Vec::new(),
            tools: None,
        }
    }

    fn says(context: Option<&str>, files: Option<&str>) -> Turn {
        let owned = |text: &str| text.to_owned();
        let (context, files) = (context.map(owned), files.map(owned));
        turn(TurnInput::Message { text: "say \"hi\"".to_owned(), context, files })
    }

    fn written(shape: Shape, turn: &Turn, extra: Option<&str>) -> Option<String> {
        Some(String::from_utf8(body(shape, turn, "T", extra)?).unwrap())
    }

    #[test]
    fn each_shape_says_the_message_in_its_own_words() {
        let expected = [
            (Shape::AgentCoreRuntime, r#"{"prompt":"say \"hi\"","context":{"k":1.0}}"#),
            (Shape::AgentCoreHarness, r#"{"messages":[{"role":"user","content":[{"text":"say \"hi\""}]}]}"#),
            (Shape::Converse, r#"{"messages":[{"role":"user","content":[{"text":"say \"hi\""}]}]}"#),
            (Shape::Messages, r#"{"messages":[{"role":"user","content":"say \"hi\""}],"stream":true}"#),
            (Shape::Responses, r#"{"input":"say \"hi\"","stream":true}"#),
            (
                Shape::AgUi,
                r#"{"threadId":"T","runId":"r1","protocolVersion":"1.0","parentRunId":"r0","state":{},"messages":[{"id":"r1-user","role":"user","content":"say \"hi\""}],"tools":[],"context":[{"description":"context of the request","value":"{\"k\":1.0}"}],"forwardedProps":{}}"#,
            ),
        ];
        for (shape, body) in expected {
            let turn = says(Some(r#"{"k":1.0}"#), None);
            assert_eq!(written(shape, &turn, None).as_deref(), Some(body), "{}", shape.as_str());
            assert_eq!(
                written(shape, &says(None, Some("{}")), None),
                None,
                "{} takes no files",
                shape.as_str()
            );
        }
        assert!(written(Shape::Worker, &says(None, Some("{}")), None).unwrap().contains(r#""files":{}"#));
    }

    #[test]
    fn an_answer_is_said_only_where_there_are_words_for_it() {
        let resume = turn(TurnInput::Resume(r#"[{"interruptId":"i"}]"#.to_owned()));
        for shape in Shape::ALL {
            let said = written(*shape, &resume, None);
            match shape {
                Shape::AgUi => assert!(said.unwrap().ends_with(r#","resume":[{"interruptId":"i"}]}"#)),
                Shape::Worker => assert!(said.unwrap().contains(r#""base":"thread/r0""#)),
                Shape::AgentCoreRuntime
                | Shape::AgentCoreHarness
                | Shape::Messages
                | Shape::Responses
                | Shape::Converse => assert_eq!(said, None, "{}", shape.as_str()),
            }
        }
    }

    #[test]
    fn the_configuration_adds_members_and_replaces_none_of_the_drivers() {
        let extra = r#"{"model":"m","max_tokens":9,"messages":"no","stream":false}"#;
        assert_eq!(
            written(Shape::Messages, &says(None, None), Some(extra)).as_deref(),
            Some(
                r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"say \"hi\""}],"stream":true}"#
            )
        );
        let state =
            written(Shape::AgUi, &says(None, None), Some(r#"{"state":{"a":1},"tools":[1]}"#)).unwrap();
        assert!(
            state.starts_with(r#"{"state":{"a":1},"tools":[1],"#) && !state.contains("\"state\":{},"),
            "{state}"
        );
    }

    #[test]
    fn a_thread_is_the_conversations_or_the_runs_and_tells_nothing() {
        let (mut first, mut second) = (says(None, None), says(None, None));
        second.run_id = RunId::new("r2").unwrap();
        assert_eq!(thread(&first, true), thread(&second, true));
        assert_ne!(thread(&first, false), thread(&second, false));
        second.epoch = 1;
        assert_ne!(thread(&first, true), thread(&second, true), "a cleared conversation begins anew");
        first.agent_id = Name::new("other").unwrap();
        assert_ne!(thread(&first, true), thread(&says(None, None), true));
        let name = thread(&first, true);
        assert!(
            (33..=100).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        );
    }
}
