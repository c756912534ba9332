//! Requests of worker protocol 1 as bytes, line break included.
//!
//! Refuses a request that is longer than a line may be: no worker would read it.

use std::fmt::Write as _;

use causeway_adapter::json::write_string;
use causeway_adapter::worker::MAX_LINE;

use crate::harness::{Turn, TurnInput};

/// `run` or `resume`; `None` when it does not fit into a line.
pub(crate) fn turn(turn: &Turn) -> Option<Vec<u8>> {
    let mut out = String::from("{\"op\":");
    match &turn.input {
        TurnInput::Message { .. } => out.push_str("\"run\""),
        TurnInput::Resume(_) => out.push_str("\"resume\""),
    }
    text(&mut out, "run_id", turn.run_id.as_str());
    text(&mut out, "thread_id", &turn.thread_id);
    match &turn.base {
        Some(head) => text(&mut out, "base", head.as_str()),
        None => out.push_str(",\"base\":null"),
    }
    match &turn.input {
        TurnInput::Message { text: message, context, files } => {
            out.push_str(",\"input\":{\"text\":");
            write_string(message, &mut out);
            for (key, value) in [("context", context), ("files", files)] {
                if let Some(value) = value {
                    json(&mut out, key, value);
                }
            }
            out.push('}');
        }
        TurnInput::Resume(value) => json(&mut out, "resume", value),
    }
    if let Some(traceparent) = &turn.traceparent {
        text(&mut out, "traceparent", traceparent);
    }
    if let Some(offer) = &turn.tools {
        let _ = write!(out, ",\"tools\":{{\"generation\":{},\"names\":", offer.generation); // to a string: never fails
        list(&mut out, offer.names.iter().map(String::as_str));
        out.push('}');
    }
    out.push_str("}\n");
    (out.len() <= MAX_LINE).then(|| out.into_bytes())
}

/// `cancel`.
pub(super) fn cancel(turn: &Turn) -> Vec<u8> {
    let mut out = String::from("{\"op\":\"cancel\"");
    text(&mut out, "run_id", turn.run_id.as_str());
    out.push_str("}\n");
    out.into_bytes()
}

/// `forget`.
pub(super) fn forget(turn: &Turn) -> Vec<u8> {
    let mut out = String::from("{\"op\":\"forget\",\"thread_ids\":");
    list(&mut out, turn.forget.iter().map(|thread| &**thread));
    out.push_str("}\n");
    out.into_bytes()
}

fn list<'t>(out: &mut String, texts: impl Iterator<Item = &'t str>) {
    out.push('[');
    for (at, one) in texts.enumerate() {
        if at > 0 {
            out.push(',');
        }
        write_string(one, out);
    }
    out.push(']');
}

fn text(out: &mut String, key: &str, value: &str) {
    out.push_str(",\"");
    out.push_str(key);
    out.push_str("\":");
    write_string(value, out);
}

/// A value that is JSON already. Line breaks in it stand between tokens, where a space means the same.
fn json(out: &mut String, key: &str, value: &str) {
    out.push_str(",\"");
    out.push_str(key);
    out.push_str("\":");
    out.extend(value.chars().map(|c| if c == '\n' || c == '\r' { ' ' } else { c }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use crate::harness::Offer;
    use causeway_contract::id::{ConversationId, Name, Reference, RunId};

    fn example(input: TurnInput) -> Turn {
        Turn {
            owner: causeway_store::model::Owner::local(),
            agent_id: Name::new("helper".to_owned()).unwrap(),
            conversation_id: ConversationId::new("c".to_owned()).unwrap(),
            epoch: 0,
            run_id: RunId::new("r\"1".to_owned()).unwrap(),
            thread_id: "t1".into(),
            base: None,
            input,
            traceparent: None,
            forget: vec!["t0".into(), "t-1".into()],
            tools: None,
        }
    }

    fn line(turn_: &Turn) -> String {
        String::from_utf8(turn(turn_).unwrap()).unwrap()
    }

    #[test]
    fn a_message_is_one_line_whatever_is_in_it() {
        let input = TurnInput::Message {
            text: "a\nb\u{2028}\u{0}\"".to_owned(),
            context: Some("{\n \"k\": 1.0}".to_owned()),
            files: None,
        };
        let written = line(&example(input));
        assert_eq!(written.matches('\n').count(), 1);
        assert!(written.starts_with("{\"op\":\"run\",\"run_id\":\"r\\\"1\",\"thread_id\":\"t1\",\"base\":null,\"input\":{\"text\":\"a\\nb"));
        assert!(written.ends_with(",\"context\":{  \"k\": 1.0}}}\n"), "{written}");
    }

    #[test]
    fn an_answer_names_its_base() {
        let mut resume = example(TurnInput::Resume("{\"decisions\":[]}".to_owned()));
        resume.base = Some(Reference::new("t0:h".to_owned()).unwrap());
        resume.traceparent = Some("00-aa-bb-01".to_owned());
        assert_eq!(
            line(&resume),
            "{\"op\":\"resume\",\"run_id\":\"r\\\"1\",\"thread_id\":\"t1\",\"base\":\"t0:h\",\"resume\":{\"decisions\":[]},\"traceparent\":\"00-aa-bb-01\"}\n"
        );
    }

    #[test]
    fn tools_are_offered_with_the_generation_of_the_run() {
        let mut turn = example(TurnInput::Resume("1".to_owned()));
        turn.base = Some(Reference::new("h".to_owned()).unwrap());
        turn.tools = Some(Offer { generation: 3, names: Arc::from(["a".to_owned(), "b\"".to_owned()]) });
        assert!(
            line(&turn)
                .ends_with(",\"resume\":1,\"tools\":{\"generation\":3,\"names\":[\"a\",\"b\\\"\"]}}\n"),
            "{}",
            line(&turn)
        );
    }

    #[test]
    fn cancel_and_forget_name_what_they_mean() {
        let turn = example(TurnInput::Resume("1".to_owned()));
        assert_eq!(cancel(&turn), b"{\"op\":\"cancel\",\"run_id\":\"r\\\"1\"}\n");
        assert_eq!(forget(&turn), b"{\"op\":\"forget\",\"thread_ids\":[\"t0\",\"t-1\"]}\n");
    }

    #[test]
    fn a_request_that_no_worker_would_read_is_not_written() {
        let input = |len: usize| TurnInput::Message { text: "x".repeat(len), context: None, files: None };
        assert!(turn(&example(input(MAX_LINE))).is_none());
        assert!(turn(&example(input(MAX_LINE - 200))).is_some());
    }
}
