//! The agent: the part to replace. What happens in a turn, as canonical events.
//!
//! To ask a person, say `interrupt.requested` last; the answer comes as `turn.answer` in a turn of its own. Where time passes,
//! call [`Turn::wait`], so that a cancel is noticed.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{Left, Turn};

/// One turn.
pub fn agent(turn: &mut Turn) -> Result<(), Left> {
    if let Some(answer) = turn.answer.clone() {
        let asked = turn.state.remove("asked").unwrap_or_default();
        if answer["interrupt_id"] != asked["pause"] {
            return Err(Left::Failed("LookupError", "this pause was not asked for".to_owned()));
        }
        return answered(turn, &answer, asked["call"].as_str());
    }
    let said = turn.text.clone();
    if let Value::Array(all) = turn.state.entry("said").or_insert_with(|| json!([])) {
        all.push(json!(said));
    }
    if said.contains("approval") {
        text(turn, &[], "That needs your approval.")?;
        let (call, pause) = (turn.new_id("call"), turn.new_id("ask"));
        turn.state.insert("asked".to_owned(), json!({"pause": pause, "call": call}));
        let arguments = json!({"name": "api"});
        start(turn, &[], &call, "restart_service", arguments.clone())?;
        let approval = json!({
            "tool_call_id": call, "tool_name": "restart_service", "tool_args": arguments,
            "allowed_decisions": ["approve", "edit", "reject"],
        });
        turn.say(
            "interrupt.requested",
            &[],
            json!({
                "interrupt_id": pause, "interrupt_type": "tool_approval", "agent_id": "template",
                "tool_approvals": [approval],
            }),
        )
    } else if said.contains("form") {
        let pause = turn.new_id("ask");
        turn.state.insert("asked".to_owned(), json!({"pause": pause, "call": null}));
        let fields = json!([{"field_name": "city", "field_type": "text", "required": true}]);
        turn.say(
            "interrupt.requested",
            &[],
            json!({
                "interrupt_id": pause, "interrupt_type": "form_input", "agent_id": "template",
                "prompt": "Which city?", "fields": fields,
            }),
        )
    } else if said.contains("tool_error") {
        let call = turn.new_id("call");
        start(turn, &[], &call, "get_weather", json!({"city": "Atlantis"}))?;
        let error = json!({
            "tool_call_id": call, "code": "tool_error", "message": "There is no such city.", "retryable": false,
        });
        turn.say("tool.error", &[], error)?;
        text(turn, &[], "I could not find it.")
    } else if said.contains("subagent") {
        let (call, inner) = (turn.new_id("call"), turn.new_id("call"));
        start(turn, &[], &call, "task", json!({"what": "compare"}))?;
        let agent =
            json!({"agent_id": "researcher", "agent_name": "Researcher", "parent_tool_call_id": call});
        turn.say("namespace.entered", &[&call], agent)?;
        start(turn, &[&call], &inner, "get_weather", json!({"city": "Oslo"}))?;
        finish(turn, &[&call], &inner, "18 degrees")?;
        text(turn, &[&call], "Oslo is mild.")?;
        let exit = json!({"agent_id": "researcher", "parent_tool_call_id": call, "outcome": "success"});
        turn.say("namespace.exited", &[&call], exit)?;
        finish(turn, &[], &call, "Oslo is mild.")?;
        text(turn, &[], "The researcher says: mild.")
    } else if said.contains("large") {
        let call = turn.new_id("call");
        start(turn, &[], &call, "list_rows", json!({}))?;
        let rows: Vec<String> = (0..20_000).map(|n| format!("row {n}")).collect();
        finish(turn, &[], &call, &rows.join("\n"))?;
        text(turn, &[], "Those are all.")
    } else if said.contains("tool") {
        let call = turn.new_id("call");
        start(turn, &[], &call, "get_weather", json!({"city": "Paris"}))?;
        finish(turn, &[], &call, "18 degrees")?;
        text(turn, &[], "It is mild in Paris.")?;
        turn.say("usage.updated", &[], json!({"input_tokens": 30, "output_tokens": 12, "final": true}))
    } else if said.contains("reasoning") {
        let message = turn.new_id("msg");
        turn.say("reasoning.started", &[], json!({"message_id": message}))?;
        turn.say("reasoning.delta", &[], json!({"message_id": message, "delta": "Let me think."}))?;
        turn.say("reasoning.finished", &[], json!({"message_id": message}))?;
        text(turn, &[], "Forty-two.")
    } else if said.contains("slow") {
        text(turn, &[], "This takes a while.")?;
        let call = turn.new_id("call");
        start(turn, &[], &call, "slow_lookup", json!({"seconds": 30}))?;
        turn.wait(Duration::from_secs(30))?;
        finish(turn, &[], &call, "found")
    } else if said.contains("secret") || said.contains("error") {
        Err(Left::Failed("ConnectionError", format!("cannot reach https://user:{said}@internal.example/v1")))
    } else if said.contains("recall") {
        let all = turn.state.get("said").map(Value::to_string).unwrap_or_default();
        text(turn, &[], &format!("You said: {all}"))
    } else {
        text(turn, &[], &format!("You said: {said}"))
    }
}

/// Goes on after a pause. Causeway has started the open calls again and ended those that were refused.
fn answered(turn: &mut Turn, answer: &Value, call: Option<&str>) -> Result<(), Left> {
    match call {
        None => match answer["values"]["city"].as_str() {
            Some(city) => text(turn, &[], &format!("You chose {city}.")),
            None => text(turn, &[], "Never mind."),
        },
        Some(_) if answer["decisions"][0]["decision"] == "reject" => text(turn, &[], "Then I will not."),
        Some(call) => {
            finish(turn, &[], call, "restarted")?;
            text(turn, &[], "Done.")
        }
    }
}

/// A message, in pieces as a model would give it.
fn text(turn: &mut Turn, namespace: &[&str], words: &str) -> Result<(), Left> {
    let message = turn.new_id("msg");
    turn.say("text.started", namespace, json!({"message_id": message, "role": "assistant"}))?;
    let letters: Vec<char> = words.chars().collect();
    for piece in letters.chunks(1000) {
        let delta: String = piece.iter().collect();
        turn.say("text.delta", namespace, json!({"message_id": message, "delta": delta}))?;
    }
    turn.say("text.finished", namespace, json!({"message_id": message}))
}

fn start(turn: &mut Turn, namespace: &[&str], call: &str, name: &str, arguments: Value) -> Result<(), Left> {
    let data = json!({"tool_call_id": call, "tool_name": name, "arguments": arguments});
    turn.say("tool.started", namespace, data)
}

fn finish(turn: &mut Turn, namespace: &[&str], call: &str, result: &str) -> Result<(), Left> {
    turn.say("tool.finished", namespace, json!({"tool_call_id": call, "result": result}))
}
