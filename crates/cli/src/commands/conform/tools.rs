//! Whether a worker that says that it asks for tools does so as the protocol has it.
//!
//! Refuses to run anything: what a tool says is made up here.

use serde_json::{Value, json};

use super::raw::{Raw, Turn};
use super::report::{Stop, broke, fail, skip};
use super::scenario::Scenario;

/// The generation that is offered; a worker that counts for itself says another.
const GENERATION: u64 = 7;

/// Offers tools, and answers in every way there is.
pub fn asked(raw: &mut Raw, scenario: &Scenario, message: &str) -> Result<(), Stop> {
    if !raw.hello.tools {
        return skip("`hello` does not say that it asks for tools");
    }
    if scenario.tools.is_empty() {
        return skip("the scenario names no `tools`");
    }
    let request = raw.request(None, message);
    let turn = raw.turn(&request)?;
    if !turn.asked.is_empty() {
        return broke("W0", "it asks for a tool in a turn that offers none");
    }
    let ok = |_: &Value| json!({"status": "ok", "result": "done"});
    let turn = answered(raw, scenario, message, &ok)?;
    scenario.came("gated", !turn.asked.is_empty(), "`tool` line")?;
    if turn.kind() != "end" || turn.paused() {
        return fail(format!("a result brought {}", turn.told()));
    }
    let error = |_: &Value| json!({"status": "error", "code": "tool_failed", "message": "It failed.", "output": "half"});
    let turn = answered(raw, scenario, message, &error)?;
    if turn.kind() != "end" || turn.paused() {
        return fail(format!("the failure of a tool brought {}", turn.told()));
    }
    let approval = |line: &Value| {
        let text = line["arguments"].as_str().unwrap_or("{}");
        let arguments: Value = serde_json::from_str(text).unwrap_or_else(|_| json!({}));
        json!({"status": "approval_required", "arguments": arguments})
    };
    let turn = answered(raw, scenario, message, &approval)?;
    if turn.kind() == "end" && turn.paused() {
        Ok(())
    } else {
        fail(format!("a call that needs an approval brought {} without a pause", turn.told()))
    }
}

/// A turn whose tools are answered so.
fn answered(
    raw: &mut Raw,
    scenario: &Scenario,
    message: &str,
    answer: &dyn Fn(&Value) -> Value,
) -> Result<Turn, Stop> {
    let mut request = raw.request(None, message);
    request["tools"] = json!({"generation": GENERATION, "names": scenario.tools});
    let mut turn =
        Turn { run_id: request["run_id"].as_str().unwrap_or_default().to_owned(), ..Turn::default() };
    raw.send(&request);
    let mut seen = 0;
    while !raw.hear(&mut turn, raw.timeout())? {
        for line in turn.asked.iter().skip(seen) {
            sound(line, scenario)?;
            let mut reply = answer(line);
            reply["op"] = json!("tool_result");
            reply["run_id"] = line["run_id"].clone();
            reply["call_id"] = line["call_id"].clone();
            raw.send(&reply);
        }
        seen = turn.asked.len();
    }
    Ok(turn)
}

fn sound(line: &Value, scenario: &Scenario) -> Result<(), Stop> {
    if line["call_id"].as_str().is_none_or(|id| id.is_empty() || id.len() > 256) {
        return broke("W0", "a `tool` line names no call");
    }
    if !line["name"].as_str().is_some_and(|name| scenario.tools.iter().any(|known| known == name)) {
        return broke("W0", "it asks for a tool that was not offered");
    }
    if line["generation"] != GENERATION {
        return broke("W0", "a `tool` line does not carry the generation of its request");
    }
    let pieces = line["deltas"].as_array().map(|pieces| pieces.iter().all(Value::is_string));
    match (line["arguments"].is_string(), pieces) {
        (true, None) | (false, Some(true)) => Ok(()),
        (_, _) => broke(
            "W0",
            "the arguments of a `tool` line are no text: `arguments` is a string, `deltas` a list of them",
        ),
    }
}
