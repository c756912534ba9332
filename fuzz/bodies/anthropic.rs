//! Fuzz body: whatever lines come, the adapters of the Claude Agent SDK and of the Anthropic Messages API do not panic,
//! and what they yield obeys every rule of the yield boundary, with one terminal or none.
//!
//! The first byte chooses the harness, the turn and the options; the rest is split at line breaks.

use causeway_adapter::adapter::{Adapter, Close, Output};
use causeway_adapter::anthropic_messages::AnthropicMessages;
use causeway_adapter::claude_agent_sdk::ClaudeAgentSdk;
use causeway_adapter::ids::SeededIds;
use causeway_adapter::turn::{Answer, OpenCall, Options, Resume, Turn};
use causeway_contract::error::Check;
use causeway_contract::id::{Name, ToolCallId};
use causeway_contract::json::JsonObject;
use causeway_contract::limits::Limits;
use causeway_contract::namespace::Namespace;
use causeway_lifecycle::{Boundary, Rule, Thread, Validator, Verdict};

const PRIVATE: &str =
    r#"{"request":"r","call":"toolu_q1","form":true,"message":"msg_any_1","input":{"questions":[]}}"#;

/// Feeds the bytes.
pub fn anthropic(data: &[u8]) {
    let Some((&choice, lines)) = data.split_first() else { return };
    let (Ok(agent), Ok(id), Ok(name)) =
        (Name::new("agent"), ToolCallId::new("toolu_q1"), Name::new("AskUserQuestion"))
    else {
        return;
    };
    let open = OpenCall { id, name, arguments: JsonObject::EMPTY, namespace: Namespace::root() };
    let turn = match choice >> 1 & 3 {
        0 | 1 => Turn::Start,
        2 => Turn::Resume(Resume {
            open_calls: vec![open],
            private: Some(PRIVATE.to_owned()),
            ..Resume::default()
        }),
        _ => Turn::Resume(Resume {
            open_calls: vec![open],
            private: Some(PRIVATE.to_owned()),
            answer: Some(Answer::Dismissed),
            ..Resume::default()
        }),
    };
    let options = Options::new(agent)
        .stream_arguments(choice & 8 != 0)
        .strip_escapes(choice & 16 != 0)
        .redact_content(choice & 32 != 0);
    let ids = Box::new(SeededIds::new(1));
    let mut adapter: Box<dyn Adapter> = if choice & 1 == 0 {
        Box::new(ClaudeAgentSdk::new(turn, options, ids))
    } else {
        Box::new(AnthropicMessages::new(&turn, options, ids))
    };
    let mut validator = Validator::new(Boundary::Yield, Thread::Durable, Limits::DEFAULT).offline();
    for line in lines.split(|byte| *byte == b'\n') {
        let _refused = adapter.handle(line);
        if !drain(&mut *adapter, &mut validator) {
            return;
        }
    }
    adapter.close(Close::End);
    drain(&mut *adapter, &mut validator);
}

/// Holds what was yielded against the rules; false once a limit is reached, which ends a run.
fn drain(adapter: &mut dyn Adapter, validator: &mut Validator) -> bool {
    while let Some(output) = adapter.poll() {
        let Output::Draft(draft) = output else { continue };
        let verdict = match draft.check(&Limits::DEFAULT) {
            Err(error) => Some((Verdict::from(error.check()), error.to_string())),
            Ok(()) => match validator.accept_draft(&draft, draft.data.encoded_len()) {
                Err(violation) => Some((violation.rule(), violation.to_string())),
                Ok(()) => None,
            },
        };
        match verdict {
            None => {}
            // Too much is the only thing a projection may leave to the validator.
            Some((Verdict::Check(Check::Bounds) | Verdict::Rule(Rule::R11Sums), _)) => return false,
            Some((verdict, message)) => panic!("the adapter broke {verdict}: {message}\n{draft:?}"),
        }
    }
    true
}
