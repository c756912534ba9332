//! The two formats that demand everything closed: `agui-spec` and `ui-message`.
//!
//! Every legal stream becomes one that a reader of the published rules accepts, with the same texts, calls and end.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail loudly")]

mod parts;
mod rules;

use std::collections::BTreeMap;

use causeway_contract::event::{
    Decision, Event, EventData, InterruptRequest, InterruptRequested, RunFinished, ToolApproval, UsageUpdated,
};
use causeway_contract::id::{InterruptId, Name, ToolCallId};
use causeway_contract::json::{JsonNumber, JsonObject};
use causeway_contract::namespace::Namespace;
use causeway_encode::{AguiSpecSse, Encoder, Options, Protocol, Seed, UiMessageSse};
use causeway_lifecycle::Boundary;
use causeway_lifecycle::testing::event;
use causeway_lifecycle::testing::legal::legal;
use causeway_lifecycle::testing::script::script;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::parts::Message;
use crate::rules::Reader;

fn encode(mut encoder: Box<dyn Encoder + Send>, events: &[Event<'_>]) -> String {
    let mut out = Vec::new();
    events.iter().for_each(|event| encoder.encode(event, &mut out));
    String::from_utf8(out).unwrap()
}

/// The JSON of each frame; the frames themselves are one `data:` line each.
fn frames(text: &str) -> Vec<&str> {
    let frames: Vec<&str> = text.split_terminator("\n\n").collect();
    frames
        .iter()
        .map(|frame| frame.strip_prefix("data: ").filter(|data| !data.contains('\n')).unwrap())
        .collect()
}

fn agui(options: &Options, seed: &Seed, events: &[Event<'_>]) -> Vec<Value> {
    let text = encode(Protocol::AguiSpec.encoder_for(seed, options), events);
    frames(&text).into_iter().map(|data| serde_json::from_str(data).unwrap()).collect()
}

/// What a run said and did, by message and call: from the events, and from what a client makes of the frames.
#[derive(Debug, Default, Eq, PartialEq)]
struct Told {
    texts: BTreeMap<String, String>,
    thoughts: BTreeMap<String, String>,
    /// Name, arguments, result.
    calls: BTreeMap<String, (String, String, Option<String>)>,
}

fn told(events: &[Event<'_>]) -> Told {
    let mut told = Told::default();
    for event in events {
        match &event.data {
            EventData::TextStarted(data) => {
                told.texts.insert(data.message_id.to_string(), String::new());
            }
            EventData::TextDelta(data) => {
                told.texts.get_mut(data.message_id.as_str()).unwrap().push_str(&data.delta);
            }
            EventData::ReasoningStarted(data) => {
                told.thoughts.insert(data.message_id.to_string(), String::new());
            }
            EventData::ReasoningDelta(data) => {
                told.thoughts.get_mut(data.message_id.as_str()).unwrap().push_str(&data.delta);
            }
            EventData::ToolStarted(data) => {
                let arguments = if data.arguments.is_empty() { "" } else { data.arguments.as_str() };
                let call = (data.tool_name.to_string(), arguments.to_owned(), None);
                told.calls.insert(data.tool_call_id.to_string(), call);
            }
            EventData::ToolArgumentsDelta(data) => {
                told.calls.get_mut(data.tool_call_id.as_str()).unwrap().1.push_str(&data.delta);
            }
            EventData::ToolFinished(data) => {
                told.calls.get_mut(data.tool_call_id.as_str()).unwrap().2 = Some(data.result.to_string());
            }
            EventData::ToolError(data) => {
                told.calls.get_mut(data.tool_call_id.as_str()).unwrap().2 = Some(data.message.to_string());
            }
            _ => {}
        }
    }
    for (_, arguments, _) in told.calls.values_mut() {
        if arguments.is_empty() {
            "{}".clone_into(arguments);
        }
    }
    told
}

fn read(frames: &[Value]) -> Told {
    let mut told = Told::default();
    let id = |frame: &Value, key: &str| frame[key].as_str().unwrap_or_default().to_owned();
    for frame in frames {
        let (message, call) = (id(frame, "messageId"), id(frame, "toolCallId"));
        let thought = message.strip_prefix("reasoning:").unwrap_or_default().to_owned();
        match frame["type"].as_str().unwrap() {
            "TEXT_MESSAGE_START" => drop(told.texts.insert(message, String::new())),
            "TEXT_MESSAGE_CONTENT" => told.texts.get_mut(&message).unwrap().push_str(&id(frame, "delta")),
            "REASONING_MESSAGE_START" => drop(told.thoughts.insert(thought, String::new())),
            "REASONING_MESSAGE_CONTENT" => {
                told.thoughts.get_mut(&thought).unwrap().push_str(&id(frame, "delta"));
            }
            "TOOL_CALL_START" => {
                told.calls.insert(call, (id(frame, "toolCallName"), String::new(), None));
            }
            "TOOL_CALL_ARGS" => told.calls.get_mut(&call).unwrap().1.push_str(&id(frame, "delta")),
            "TOOL_CALL_RESULT" => told.calls.get_mut(&call).unwrap().2 = Some(id(frame, "content")),
            _ => {}
        }
    }
    told
}

fn seed_of(events: &[Event<'_>], every: usize) -> Seed {
    let calls = events.iter().filter_map(|event| match &event.data {
        EventData::ToolStarted(data) => Some(data.tool_call_id.clone().into_owned()),
        _ => None,
    });
    Seed { open_tool_calls: calls.step_by(every).collect(), ..Seed::new() }
}

fn choices() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..300)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_legal_stream_keeps_the_ordering_rules_of_agui(bytes in choices(), declared in any::<bool>(), every in 1..4usize) {
        let events = legal(&bytes, Boundary::Commit);
        let options = Options::new().agui_version(if declared { "1.0" } else { "" });
        for seed in [Seed::new(), seed_of(&events, every)] {
            let mut reader = Reader::after(seed.open_tool_calls.iter().map(ToString::to_string));
            for frame in agui(&options, &seed, &events) {
                prop_assert_eq!(reader.read(&frame), Ok(()));
            }
            prop_assert_eq!(reader.end(), Ok(()));
        }
    }

    #[test]
    fn an_agui_client_reads_what_the_events_say(bytes in choices()) {
        let events = legal(&bytes, Boundary::Commit);
        let frames = agui(&Options::new().agui_version("1.0"), &Seed::new(), &events);
        let (mut expected, mut actual) = (told(&events), read(&frames));
        // A failed run closes nothing: calls without arguments were announced, and no more.
        if matches!(events.last().unwrap().data, EventData::RunError(_)) {
            for told in [&mut expected, &mut actual] {
                told.calls.values_mut().for_each(|call| if call.1.is_empty() { "{}".clone_into(&mut call.1) });
            }
        }
        prop_assert_eq!(actual, expected);
    }

    #[test]
    fn every_legal_stream_is_a_ui_message_with_the_same_content(bytes in choices(), sdk in 5..8u32) {
        let events = legal(&bytes, Boundary::Commit);
        let text = encode(Protocol::UiMessage.encoder_for(&Seed::new(), &Options::new().sdk(sdk)), &events);
        let mut message = Message::default();
        for frame in frames(&text) {
            prop_assert_eq!(message.read(frame, sdk), Ok(()));
        }
        prop_assert!(message.done);
        let told = told(&events);
        let joined = |texts: &BTreeMap<String, String>| texts.values().map(String::len).sum::<usize>();
        prop_assert_eq!(&message.texts, &told.texts.into_iter().collect());
        prop_assert_eq!(joined(&message.thoughts), joined(&told.thoughts));
        for (id, (name, arguments, result)) in told.calls {
            let part = &message.calls[&id];
            prop_assert_eq!(&part.name, &name);
            // Arguments that never became an object are told instead of the end, or come whole with an approval.
            if let (Some(input), Ok(arguments)) = (&part.input, serde_json::from_str::<Value>(&arguments)) {
                prop_assert!(*input == arguments || matches!(events.last().unwrap().data, EventData::RunInterrupted(_)));
            }
            prop_assert_eq!(&part.output, &result);
        }
    }

    #[test]
    fn a_resumed_ui_message_goes_on_with_the_one_before(bytes in choices(), every in 1..4usize) {
        let events = legal(&bytes, Boundary::Commit);
        let seed = seed_of(&events, every);
        let mut message = Message::default();
        for call in &seed.open_tool_calls {
            message.calls.insert(call.to_string(), parts::Call::default());
        }
        for frame in frames(&encode(Protocol::UiMessage.encoder(&seed), &events)) {
            let frame_value: Value = serde_json::from_str(frame).unwrap_or(Value::Null);
            let announces = frame_value["type"].as_str().is_some_and(|kind| kind.starts_with("tool-input"));
            let call = frame_value["toolCallId"].as_str().unwrap_or_default();
            prop_assert!(!announces || !seed.open_tool_calls.iter().any(|open| open.as_str() == call));
            prop_assert_eq!(message.read(frame, 5), Ok(()));
        }
    }
}

/// The frames of a script without their timestamps, one a line.
fn shown(options: &Options, seed: &Seed, text: &str) -> String {
    let stream = encode(Protocol::AguiSpec.encoder_for(seed, options), &script(text));
    let lines: Vec<String> = frames(&stream)
        .into_iter()
        .map(|data| {
            let (body, stamp) = data.rsplit_once(",\"timestamp\":").unwrap();
            assert!(stamp.trim_end_matches('}').bytes().all(|byte| byte.is_ascii_digit()), "{stamp}");
            format!("{body}}}")
        })
        .collect();
    lines.join("\n")
}

#[test]
fn a_call_is_announced_whole_before_its_result() {
    let run = "run.started; text.started m1; text.delta m1 Hi; tool.started t1:find {\"q\":1}; \
               tool.started t2:list; tool.finished t1 three; tool.error t2; run.finished";
    let expected = r#"{"type":"RUN_STARTED","threadId":"conv-1","runId":"run-1","protocolVersion":"1.0"}
{"type":"TEXT_MESSAGE_START","messageId":"m1","role":"assistant"}
{"type":"TEXT_MESSAGE_CONTENT","messageId":"m1","delta":"Hi"}
{"type":"TOOL_CALL_START","toolCallId":"t1","toolCallName":"find"}
{"type":"TOOL_CALL_ARGS","toolCallId":"t1","delta":"{\"q\":1}"}
{"type":"TOOL_CALL_END","toolCallId":"t1"}
{"type":"TOOL_CALL_START","toolCallId":"t2","toolCallName":"list"}
{"type":"TOOL_CALL_RESULT","messageId":"result:run-1:t1","toolCallId":"t1","content":"three","role":"tool"}
{"type":"TOOL_CALL_ARGS","toolCallId":"t2","delta":"{}"}
{"type":"TOOL_CALL_END","toolCallId":"t2"}
"#;
    let shown = shown(&Options::new(), &Seed::new(), run);
    assert_eq!(&shown[..expected.len().min(shown.len())], expected);
    let rest: Vec<Value> =
        shown[expected.len()..].lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rest[0]["content"], rest[0]["content"].as_str().unwrap());
    assert_eq!(rest[0]["metadata"]["causeway"]["error"]["retryable"], json!(false));
    assert_eq!(rest[1], json!({"type": "TEXT_MESSAGE_END", "messageId": "m1"}));
    assert_eq!(rest[2]["outcome"], json!({"type": "success"}));
    assert_eq!(rest.len(), 3);
}

#[test]
fn a_resumed_run_shows_only_the_results_of_calls_that_were_announced_before() {
    let seed = Seed { open_tool_calls: vec![ToolCallId::new("t1").unwrap()], ..Seed::new() };
    let run = "run.started; tool.started t1:find {\"q\":2}; tool.finished t1 three; tool.started t2:x {\"a\":1}; run.finished";
    assert_eq!(
        shown(&Options::new(), &seed, run),
        r#"{"type":"RUN_STARTED","threadId":"conv-1","runId":"run-1","protocolVersion":"1.0"}
{"type":"TOOL_CALL_RESULT","messageId":"result:run-1:t1","toolCallId":"t1","content":"three","role":"tool"}
{"type":"TOOL_CALL_START","toolCallId":"t2","toolCallName":"x"}
{"type":"TOOL_CALL_ARGS","toolCallId":"t2","delta":"{\"a\":1}"}
{"type":"TOOL_CALL_END","toolCallId":"t2"}
{"type":"RUN_FINISHED","threadId":"conv-1","runId":"run-1","outcome":{"type":"success"},"metadata":{"causeway":{"stopReason":"end_turn"}}}"#
    );
}

#[test]
fn calls_that_wait_for_the_client_are_named_to_clients_that_know_of_them() {
    let run = "run.started; tool.started t1:find {\"q\":2}; run.finished";
    let outcome =
        |options: &Options| agui(options, &Seed::new(), &script(run)).last().unwrap()["outcome"].clone();
    assert_eq!(outcome(&Options::new()), json!({"type": "success"}));
    let declared = Options::new().agui_version("1.0");
    assert_eq!(outcome(&declared), json!({"type": "success", "pendingToolCallIds": ["t1"]}));
}

#[test]
fn a_cancelled_run_is_an_outcome_only_where_the_client_knows_it() {
    let run = "run.started; text.started m1; run.cancelled";
    let last = |options: &Options| {
        let frames = agui(options, &Seed::new(), &script(run));
        (frames.len(), frames.last().unwrap().clone())
    };
    let (count, frame) = last(&Options::new().agui_version("0.9"));
    assert_eq!((count, &frame["type"], &frame["code"]), (3, &json!("RUN_ERROR"), &json!("cancelled")));
    for version in ["1.0", "1.7", "2.0"] {
        let (count, frame) = last(&Options::new().agui_version(version));
        assert_eq!((count, &frame["type"]), (4, &json!("RUN_FINISHED")), "the text is closed first");
        assert_eq!(frame["outcome"], json!({"type": "cancelled"}));
    }
}

#[test]
fn the_client_reads_its_own_name_of_the_run() {
    let run = script("run.started; run.finished");
    let frames = agui(&Options::new().run_id("mine"), &Seed::new(), &run);
    assert_eq!(frames[0]["runId"], "mine");
    assert_eq!(frames[0]["metadata"], json!({"causeway": {"runId": "run-1"}}));
    assert_eq!(frames[1]["runId"], "mine");
}

#[test]
fn a_subagent_is_named_on_all_that_is_its_own() {
    let run = "run.started; tool.started t1:task {\"a\":1}; @n1 namespace.entered helper t1; @n1 text.started m1; \
               text.delta m1 from-elsewhere; @n1 tool.started t2:x {\"a\":1}; @n1/n2 namespace.entered inner t2; \
               @n1/n2 namespace.exited inner t2; @n1 tool.finished t2 ok; @n1 namespace.exited helper t1; \
               text.finished m1; tool.finished t1 done; run.finished";
    let frames = agui(&Options::new(), &Seed::new(), &script(run));
    let owners: Vec<String> = frames
        .iter()
        .map(|frame| {
            format!("{} {}", frame["type"].as_str().unwrap(), frame["subagentRunId"].as_str().unwrap_or("-"))
        })
        .collect();
    assert_eq!(
        owners,
        [
            "RUN_STARTED -",
            "TOOL_CALL_START -",
            "TOOL_CALL_ARGS -",
            "TOOL_CALL_END -",
            "SUBAGENT_STARTED n1",
            "TEXT_MESSAGE_START n1",
            "TEXT_MESSAGE_CONTENT n1",
            "TOOL_CALL_START n1",
            "TOOL_CALL_ARGS n1",
            "TOOL_CALL_END n1",
            "SUBAGENT_STARTED n2",
            "SUBAGENT_FINISHED n2",
            "TOOL_CALL_RESULT n1",
            "SUBAGENT_FINISHED n1",
            "TEXT_MESSAGE_END n1",
            "TOOL_CALL_RESULT -",
            "RUN_FINISHED -",
        ]
    );
    assert_eq!(frames[10]["parentSubagentRunId"], "n1");
    assert_eq!(frames[10]["parentToolCallId"], "t2");
    assert!(frames[4].get("parentSubagentRunId").is_none());
}

#[test]
fn each_approval_is_an_interrupt_with_the_shape_of_its_answer() {
    let run = "run.started; tool.started t1:find {\"q\":1}; tool.started t2:list {\"q\":2}; \
               interrupt.requested i1 t1:find t2:list; run.interrupted i1";
    let frames = agui(&Options::new(), &Seed::new(), &script(run));
    let interrupts = frames.last().unwrap()["outcome"]["interrupts"].as_array().unwrap().clone();
    let ids: Vec<&Value> = interrupts.iter().map(|interrupt| &interrupt["id"]).collect();
    assert_eq!(ids, ["i1:t1", "i1:t2"]);
    assert_eq!(interrupts[0]["reason"], "tool_call");
    assert_eq!(interrupts[0]["toolCallId"], "t1");
    assert_eq!(
        interrupts[0]["responseSchema"],
        json!({
            "type": "object",
            "properties": {"approved": {"type": "boolean"}, "message": {"type": "string"}},
            "required": ["approved"],
        })
    );
    let form = script("run.started; interrupt.requested i1 form; run.interrupted i1 human_input");
    let frames = agui(&Options::new(), &Seed::new(), &form);
    let interrupt = &frames.last().unwrap()["outcome"]["interrupts"][0];
    assert_eq!((&interrupt["id"], &interrupt["reason"]), (&json!("i1"), &json!("input_required")));
    assert_eq!(interrupt["responseSchema"]["type"], "object");
}

#[test]
fn usage_stands_on_the_terminal_frame() {
    let usage = UsageUpdated {
        input_tokens: Some(10),
        cached_input_tokens: Some(1 << 53),
        cost: Some(JsonNumber::parse("0.50").unwrap()),
        currency: Some("EUR".into()),
        ..UsageUpdated::default()
    };
    let mut events = script("run.started");
    events.push(event(1, Namespace::root(), usage.into()));
    events.push(event(2, Namespace::root(), RunFinished::default().into()));
    let text = encode(Box::new(AguiSpecSse::new()), &events);
    assert!(
        text.contains(
            r#""usage":[{"inputTokens":10}],"metadata":{"causeway":{"cost":0.50,"currency":"EUR"}}"#
        )
    );
    let text = encode(Box::new(UiMessageSse::new()), &events);
    assert!(
        text.contains(r#"{"causeway":{"usage":{"inputTokens":10,"cost":0.50,"currency":"EUR"}}}"#),
        "{text}"
    );
}

#[test]
fn an_older_sdk_is_sent_nothing_that_it_would_fail_on() {
    let run = "run.started; tool.started t1:find {\"q\":1}; tool.started t2:list; \
               interrupt.requested i1 t1:find t2:list; run.interrupted i1";
    let kinds = |options: &Options| {
        let text = encode(Protocol::UiMessage.encoder_for(&Seed::new(), options), &script(run));
        let kinds: Vec<String> = frames(&text)
            .into_iter()
            .map(|data| {
                let value: Value = serde_json::from_str(data).unwrap_or(json!({"type": data}));
                format!(
                    "{}{}",
                    value["type"].as_str().unwrap(),
                    value.get("finishReason").map_or("", |_| "!")
                )
            })
            .collect();
        kinds.join(" ")
    };
    let common = "start tool-input-available tool-input-start tool-input-available data-interrupt";
    assert_eq!(kinds(&Options::new()), format!("{common} finish [DONE]"));
    assert_eq!(kinds(&Options::new().sdk(5)), format!("{common} finish [DONE]"));
    for sdk in [6, 7] {
        let more = "tool-approval-request tool-approval-request finish! [DONE]";
        assert_eq!(kinds(&Options::new().sdk(sdk)), format!("{common} {more}"));
    }
}

#[test]
fn the_buttons_of_the_sdk_are_offered_only_where_a_plain_yes_is_an_answer() {
    let approval = |id: &'static str, allowed: &[Decision]| ToolApproval {
        tool_call_id: ToolCallId::new(id).unwrap(),
        tool_name: Name::new("ask").unwrap(),
        tool_args: JsonObject::EMPTY,
        allowed_decisions: allowed.to_vec(),
    };
    let request = InterruptRequested {
        interrupt_id: InterruptId::new("i1").unwrap(),
        agent_id: Name::new("helper").unwrap(),
        request: InterruptRequest::Approvals(vec![
            approval("t1", &[Decision::Edit, Decision::Reject]),
            approval("t2", &[]),
        ]),
    };
    let mut events = script("run.started; tool.started t1:ask; tool.started t2:ask");
    events.push(event(3, Namespace::root(), request.into()));
    events.extend(script("#4 run.interrupted i1"));
    let text = encode(Protocol::UiMessage.encoder_for(&Seed::new(), &Options::new().sdk(6)), &events);
    let asked: Vec<&str> =
        frames(&text).into_iter().filter(|frame| frame.contains("approval-request")).collect();
    assert_eq!(asked, [r#"{"type":"tool-approval-request","approvalId":"i1:t2","toolCallId":"t2"}"#]);
    let interrupts =
        agui(&Options::new(), &Seed::new(), &events).pop().unwrap()["outcome"]["interrupts"].clone();
    let schema = |at: usize| interrupts[at]["responseSchema"]["properties"]["editedArgs"].clone();
    assert_eq!((schema(0), schema(1)), (json!({"type": "object"}), json!({"type": "object"})));
    assert_eq!(interrupts[0]["metadata"]["causeway"]["allowedDecisions"], json!(["edit", "reject"]));
}

#[test]
fn a_resumed_ui_message_has_no_id_of_its_own() {
    let run = script("run.started; run.error provider_stream_closed");
    let first = |seed: &Seed, options: &Options| {
        let text = encode(Protocol::UiMessage.encoder_for(seed, options), &run);
        frames(&text)[0].to_owned()
    };
    let fresh = r#"{"type":"start","messageId":"run-1","messageMetadata":{"causeway":{"runId":"run-1"}}}"#;
    let resumed = r#"{"type":"start","messageMetadata":{"causeway":{"runId":"run-1"}}}"#;
    assert_eq!(first(&Seed::new(), &Options::new()), fresh);
    assert_eq!(first(&Seed::new(), &Options::new().resumed(true)), resumed);
    let seed = Seed { open_tool_calls: vec![ToolCallId::new("t1").unwrap()], ..Seed::new() };
    assert_eq!(first(&seed, &Options::new().sdk(6)), resumed);
}
