//! Runs and events as lines for people. Refuses raw control characters: everything goes through an escape.

use anyhow::Context as _;
use serde_json::Value;

use super::brief;

/// The most characters of a payload on one line.
const PAYLOAD: usize = 160;

/// The head of the list.
pub fn run_heads() -> String {
    row("RUN", "STATUS", "CREATED", "AGENT", "CONVERSATION")
}

/// A run on one line; one that is uncertain on three, with why and what to do.
///
/// # Errors
/// `json` is no run.
pub fn run_line(json: &str) -> anyhow::Result<String> {
    let run: Value = serde_json::from_str(json).context("a run that is no JSON")?;
    let of = |key: &str| text(&run, key);
    let mut line =
        row(&of("run_id"), &of("status"), &of("created_at"), &of("agent_id"), &of("conversation_id"));
    if let Some(uncertain) = run.get("uncertain") {
        let of = |key: &str| text(uncertain, key);
        line.push_str(&format!("\n    why   {}: {}\n    next  {}", of("cause"), of("happened"), of("next")));
    }
    Ok(line)
}

/// A run, one line a field.
///
/// # Errors
/// `json` is no run.
pub fn run(json: &str) -> anyhow::Result<String> {
    let mut run: serde_json::Map<String, Value> =
        serde_json::from_str(json).context("a run that is no JSON")?;
    // The decision is what an auditor looks for: a line of its own.
    let decision = run
        .get_mut("interrupt")
        .and_then(Value::as_object_mut)
        .and_then(|interrupt| interrupt.remove("decision"));
    run.extend(decision.map(|decision| ("decision".to_owned(), decision)));
    if let Some(Value::Object(uncertain)) = run.remove("uncertain") {
        run.extend(
            uncertain.into_iter().filter(|(key, _)| ["cause", "happened", "next"].contains(&key.as_str())),
        );
    }
    let lines: Vec<String> = run
        .iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(key, value)| {
            let value = match value {
                Value::String(text) => brief(text, 4 * PAYLOAD),
                other => brief(&other.to_string(), 4 * PAYLOAD),
            };
            format!("{key:<16} {value}")
        })
        .collect();
    Ok(lines.join("\n"))
}

/// An event on one line.
///
/// # Errors
/// `json` is no event.
pub fn event(json: &str) -> anyhow::Result<String> {
    let event: Value = serde_json::from_str(json).context("an event that is no JSON")?;
    let sequence = event.get("sequence").and_then(Value::as_u64).unwrap_or(0);
    let path: Vec<String> = event
        .get("namespace")
        .and_then(Value::as_array)
        .map(|path| path.iter().filter_map(Value::as_str).map(|element| brief(element, 40)).collect())
        .unwrap_or_default();
    let path = if path.is_empty() { String::new() } else { format!("[{}] ", path.join("/")) };
    let data = event.get("data").map(ToString::to_string).unwrap_or_default();
    Ok(format!(
        "{sequence:>6}  {}  {:<20} {path}{}",
        text(&event, "timestamp"),
        text(&event, "type"),
        brief(&data, PAYLOAD)
    ))
}

fn row(run: &str, status: &str, created: &str, agent: &str, conversation: &str) -> String {
    format!("{run:<40}  {status:<11}  {created:<30}  {agent:<16}  {conversation}")
}

fn text(value: &Value, key: &str) -> String {
    brief(value.get(key).and_then(Value::as_str).unwrap_or("-"), 256)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_that_steers_no_terminal() {
        let json = r#"{"version":1,"type":"text.delta","run_id":"r","conversation_id":"c","sequence":3,"timestamp":"2026-08-17T00:00:00Z","namespace":["a","b"],"data":{"message_id":"m","delta":"\u001b[31mred\n"}}"#;
        let line = event(json).unwrap();
        assert!(
            line.starts_with("     3  2026-08-17T00:00:00Z  text.delta           [a/b] {\"message_id\""),
            "{line}"
        );
        assert!(!line.chars().any(char::is_control));
    }

    #[test]
    fn a_run_shows_its_fields_and_leaves_out_what_is_null() {
        let text =
            run(r#"{"run_id":"r","ended_at":null,"last_sequence":4,"request":{"message":"hé"}}"#).unwrap();
        assert_eq!(text, "run_id           r\nlast_sequence    4\nrequest          {\"message\":\"hé\"}");
        let text =
            run(r#"{"run_id":"r","interrupt":{"status":"consumed","decision":{"answered_by":"local"}}}"#);
        assert_eq!(
            text.unwrap(),
            "run_id           r\ninterrupt        {\"status\":\"consumed\"}\ndecision         {\"answered_by\":\"local\"}"
        );
    }
}
