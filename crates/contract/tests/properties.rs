//! Properties of the decoder: what it accepts is stable, what it refuses it refuses calmly, and its grammar is JSON's.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::disallowed_methods)] // tests read their data

#[path = "../../../fuzz/bodies/decode.rs"]
mod body;
mod support;

use std::time::{Duration, Instant};

use causeway_contract::event::{Decision, Durability, EventData};
use causeway_contract::event::{
    FormField, InterruptRequest, InterruptRequested, RunError, RunFinished, RunStarted, SideEffectStatus,
    TextDelta, ThreadState, ToolApproval, ToolFinished, ToolStarted, UsageUpdated,
};
use causeway_contract::id::{
    Code, ConversationId, HarnessId, InterruptId, InvocationId, MessageId, Name, Reference, RunId, ToolCallId,
};
use causeway_contract::json::{JsonNumber, JsonObject, check_object};
use causeway_contract::namespace::Namespace;
use causeway_contract::timestamp::Timestamp;
use causeway_contract::{Event, EventDraft, Limits, Sequence, decode};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde_json::Value;

use crate::support::{golden_events, one_line_each, to_json};

/// A string that may be an id or a name: also not ASCII, quotes and backslashes included.
fn id() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9_\"\\\\/é😀-]{1,24}( [a-z.]{1,8})?"
}

fn content() -> impl Strategy<Value = String> {
    vec(prop_oneof![4 => any::<char>(), 4 => prop::char::range('a', 'z'), 1 => prop::sample::select(vec!['"', '\\', '\n', '\u{1f}', '\u{7f}', '\u{2028}', '/'])], 0..40)
        .prop_map(|chars| chars.into_iter().filter(|&c| c != '\0').collect())
}

/// A JSON value in some legal spelling, white space and escapes included.
fn json(levels: u32) -> impl Strategy<Value = String> {
    let space = || prop::sample::select(vec!["", "", "", " ", "\n\t"]);
    let key = prop::sample::select(vec!["\"a\"", "\"b\\n\"", "\"\\u00e9\"", "\"\"", "\"ключ\""]);
    let leaf = prop::sample::select(vec![
        "null",
        "true",
        "false",
        "0",
        "-0",
        "1.0",
        "2E3",
        "9007199254740993",
        "1e-400",
        "\"\"",
        "\"x\\u0041\"",
        "\"\\ud83d\\ude00\"",
        "\"\\/\"",
        "\"größe\"",
        "{}",
        "[ ]",
    ])
    .prop_map(str::to_owned);
    leaf.prop_recursive(levels, 24, 4, move |inner| {
        let pair = (key.clone(), space(), inner.clone())
            .prop_map(|(key, space, value)| format!("{key}{space}:{value}"));
        prop_oneof![
            (vec(inner, 0..4), space())
                .prop_map(|(items, space)| format!("[{}]", items.join(&format!(",{space}")))),
            (vec(pair, 0..4), space()).prop_map(|(pairs, space)| format!("{{{space}{}}}", pairs.join(","))),
        ]
    })
}

fn object() -> impl Strategy<Value = JsonObject<'static>> {
    vec(json(3), 0..3).prop_map(|values| {
        let members: Vec<String> =
            values.iter().enumerate().map(|(n, value)| format!("\"k{n}\": {value}")).collect();
        JsonObject::parse(format!("{{{}}}", members.join(" , ")), &Limits::DEFAULT).unwrap()
    })
}

fn number() -> impl Strategy<Value = JsonNumber<'static>> {
    "(0|[1-9][0-9]{0,20})(\\.[0-9]{1,6})?([eE][+-]?[0-9]{1,2})?"
        .prop_map(|text| JsonNumber::parse(text).unwrap())
}

macro_rules! made {
    ($type:ident) => {
        id().prop_map(|text| $type::new(text).unwrap())
    };
}

fn call_id() -> impl Strategy<Value = ToolCallId<'static>> {
    made!(ToolCallId)
}

fn approvals() -> impl Strategy<Value = InterruptRequest<'static>> {
    let decisions = prop::sample::subsequence(Decision::ALL.to_vec(), 0..=3).prop_shuffle();
    vec((made!(Name), object(), decisions), 1..4).prop_map(|entries| {
        let entry = |(n, (tool_name, tool_args, allowed_decisions)): (usize, _)| {
            let tool_call_id = ToolCallId::new(format!("call {n}")).unwrap();
            ToolApproval { tool_call_id, tool_name, tool_args, allowed_decisions }
        };
        InterruptRequest::Approvals(entries.into_iter().enumerate().map(entry).collect())
    })
}

fn form() -> impl Strategy<Value = InterruptRequest<'static>> {
    let field = (json(2), any::<bool>()).prop_map(|(extra, required)| {
        let text =
            format!("{{\"x\":{extra},\"required\":{required},\"field_type\":\"text\",\"field_name\":\"n\"}}");
        FormField::from_object(JsonObject::parse(text, &Limits::DEFAULT).unwrap(), &Limits::DEFAULT).unwrap()
    });
    (content(), vec(field, 0..4))
        .prop_map(|(prompt, fields)| InterruptRequest::Form { prompt: prompt.into(), fields })
}

fn data() -> impl Strategy<Value = EventData<'static>> {
    prop_oneof![
        (made!(MessageId), content()).prop_map(|(message_id, delta)| TextDelta {
            message_id,
            delta: delta.into()
        }
        .into()),
        (call_id(), content(), option::of(made!(Reference))).prop_map(
            |(tool_call_id, result, result_ref)| {
                ToolFinished { tool_call_id, result: result.into(), result_ref }.into()
            }
        ),
        (call_id(), made!(Name), object(), option::of(made!(MessageId))).prop_map(
            |(tool_call_id, tool_name, arguments, parent_message_id)| {
                ToolStarted { tool_call_id, tool_name, arguments, parent_message_id }.into()
            }
        ),
        (made!(Name), option::of(made!(MessageId)), option::of(made!(Reference))).prop_map(
            |(adapter_version, message_id, provider_run_id)| {
                let harness_id = HarnessId::new("deep-agents").unwrap();
                RunStarted { harness_id, adapter_version, message_id, provider_run_id }.into()
            }
        ),
        (option::of(content()), option::of((any::<u64>(), made!(Reference)))).prop_map(
            |(stop_reason, state)| {
                let thread_state = state.map(|(durable_revision, head_ref)| ThreadState {
                    durability: Durability::Committed,
                    durable_revision,
                    head_ref,
                });
                RunFinished { stop_reason: stop_reason.map(Into::into), thread_state }.into()
            }
        ),
        ("[a-z é.]{0,30}", any::<bool>(), option::of(number())).prop_map(
            |(message, retryable, retry_after_seconds)| {
                RunError {
                    code: Code::new("engine_restarted").unwrap(),
                    message: message.into(),
                    retryable,
                    retry_after_seconds,
                    side_effect_status: SideEffectStatus::Known,
                }
                .into()
            }
        ),
        (option::of(any::<u64>()), option::of(number()), option::of("[A-Z]{3}"), any::<bool>()).prop_map(
            |(input_tokens, cost, currency, is_final)| {
                let currency = currency.map(Into::into);
                UsageUpdated { input_tokens, cost, currency, is_final, ..UsageUpdated::default() }.into()
            }
        ),
        (made!(Name), prop_oneof![form(), approvals()]).prop_map(|(agent_id, request)| {
            InterruptRequested { interrupt_id: InterruptId::new("i").unwrap(), agent_id, request }.into()
        }),
    ]
}

fn event() -> impl Strategy<Value = Event<'static>> {
    let timestamp = (-62_167_219_200i64..253_402_300_800, 0u32..1_000_000_000)
        .prop_map(|(seconds, nanoseconds)| Timestamp::from_unix(seconds, nanoseconds));
    let namespace = vec(made!(InvocationId), 0..5).prop_map(Namespace::from_iter);
    (made!(RunId), made!(ConversationId), 0..=Sequence::MAX.value(), timestamp, namespace, data()).prop_map(
        |(run_id, conversation_id, sequence, timestamp, namespace, data)| {
            let sequence = Sequence::new(sequence).unwrap();
            EventDraft { namespace, data }.into_event(run_id, conversation_id, sequence, timestamp)
        },
    )
}

/// `event` without the white space of its free-form JSON, which the canonical form drops.
fn meaning(event: &Event<'_>) -> Value {
    serde_json::from_str(&to_json(event)).unwrap()
}

/// The members of the envelope and of `data`, written in another order, with escapes and white space.
fn respelled(line: &str, rotate: usize) -> String {
    let value: Value = serde_json::from_str(line).unwrap();
    let raw = |object: &Value, rotate: usize, render: &dyn Fn(&str, &Value) -> String| {
        let mut members: Vec<String> = object
            .as_object()
            .unwrap()
            .iter()
            .map(|(key, value)| {
                format!(" \"\\u{:04x}{}\"\t: {}", u32::from(key.as_bytes()[0]), &key[1..], render(key, value))
            })
            .collect();
        let places = members.len().max(1);
        members.rotate_left(rotate % places);
        format!("{{{} }}\n", members.join(","))
    };
    raw(&value, rotate, &|key, member| {
        if key == "data" { raw(member, rotate, &|_, value| value.to_string()) } else { member.to_string() }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_written_event_decodes_to_the_same_event(event in event()) {
        let limits = Limits::DEFAULT;
        prop_assert_eq!(event.check(&limits), Ok(()));
        let line = to_json(&event);
        prop_assert_eq!(line.len(), event.encoded_len());
        let decoded = decode::decode_line(line.as_bytes(), &limits).unwrap().into_owned();
        prop_assert_eq!(to_json(&decoded), line.clone());
        prop_assert_eq!(meaning(&decoded), meaning(&event));
        let draft = EventDraft { namespace: decoded.namespace, data: decoded.data };
        prop_assert_eq!(draft.check(&limits), Ok(()));
    }

    #[test]
    fn neither_order_nor_escapes_nor_white_space_change_an_event(index in any::<prop::sample::Index>(), rotate in 0usize..8) {
        // serde_json respells them: it keeps the last of repeated keys, and some numbers in its own spelling.
        let exact = ["\"options\"", "\"n\":{}", "2.50", "0.10"];
        let lines: Vec<String> =
            one_line_each().into_iter().filter(|line| !exact.iter().any(|text| line.contains(text))).collect();
        let line = &lines[index.index(lines.len())];
        let limits = Limits::DEFAULT;
        let other = respelled(line, rotate);
        let decoded = decode::decode_line(other.as_bytes(), &limits);
        prop_assert_eq!(decoded.map(|event| to_json(&event)), Ok(line.clone()), "{}", other);
    }

    #[test]
    fn a_free_form_object_is_json_as_serde_json_sees_it(text in json(5)) {
        let ours = check_object(&text, &Limits::DEFAULT).is_ok();
        prop_assert_eq!(ours, serde_json::from_str::<Value>(&text).is_ok_and(|value| value.is_object()), "{}", text);
    }

    #[test]
    fn the_grammar_is_that_of_serde_json(text in "[\\[\\]{}:,\"\\\\0-9eE+.\\- utrfalsn\n\u{1}é]{0,24}") {
        body::grammar(&text);
    }

    #[test]
    fn mutated_text_is_judged_as_serde_json_judges_it(text in json(4), at in any::<prop::sample::Index>(), to in any::<char>()) {
        let mut chars: Vec<char> = text.chars().collect();
        let place = at.index(chars.len());
        chars[place] = to;
        body::grammar(&chars.iter().collect::<String>());
        chars.remove(place);
        body::grammar(&chars.iter().collect::<String>());
    }

    #[test]
    fn any_bytes_are_answered(bytes in vec(any::<u8>(), 0..200)) {
        body::decode(&bytes);
    }
}

/// Seconds of the mutation run; longer ones by the environment.
fn budget() -> Duration {
    let seconds = std::env::var("CAUSEWAY_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(2);
    Duration::from_secs(seconds)
}

#[test]
fn mutated_lines_are_refused_or_stable() {
    let mut corpus = one_line_each();
    corpus.extend(golden_events().into_iter().map(|(_, event)| event.to_string()));
    let mut mutator = body::Mutator::new(0x0c0f_fee1);
    let end = Instant::now() + budget();
    let mut accepted = 0u64;
    let mut rounds = 0u64;
    while Instant::now() < end {
        for _ in 0..200 {
            let line = mutator.mutate(&corpus);
            accepted += u64::from(body::decode(&line));
            rounds += 1;
        }
    }
    assert!(accepted > 0 && accepted < rounds, "{accepted} of {rounds} mutated lines were accepted");
}
