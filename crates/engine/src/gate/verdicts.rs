//! What was decided about the calls of an interrupted run: each decision lets one call through, once, with the arguments that
//! were seen.
//!
//! Refuses to guess: where the gate itself had asked, the print of the very arguments stands in the stored state.

use std::collections::BTreeMap;

use causeway_adapter::json::Json;
use causeway_adapter::turn::{Answer, Edited, Resume};
use causeway_contract::event::Decision;

use super::arguments::Print;

/// The member of the stored state that is the gate's.
const MEMBER: &str = "gate";

/// What may become of a call.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// These arguments may run.
    Exactly(Print),
    /// What is shown as these arguments may run: the gate had not seen them when they were approved.
    ShownAs(Print),
    /// Nothing may.
    Rejected,
}

/// The verdicts of an answer, by call; `edits` are what its edits make of the arguments.
pub fn of(resume: &Resume, edits: &[Edited]) -> BTreeMap<String, Verdict> {
    let Some(Answer::Decisions(decisions)) = &resume.answer else { return BTreeMap::new() };
    let seen = resume.private.as_deref().map(prints).unwrap_or_default();
    let mut verdicts = BTreeMap::new();
    for one in decisions {
        let id = one.tool_call_id.as_str();
        let verdict = match one.decision {
            Decision::Reject => Some(Verdict::Rejected),
            Decision::Approve => match seen.get(id) {
                Some(print) => Some(Verdict::Exactly(print.clone())),
                None => {
                    let call = resume.open_calls.iter().find(|call| call.id.as_str() == id);
                    call.and_then(|call| Print::of(call.arguments.as_str())).map(Verdict::ShownAs)
                }
            },
            Decision::Edit => edits.iter().find_map(|edit| match edit {
                Edited::Arguments { tool_call_id, arguments } if tool_call_id.as_str() == id => {
                    Print::of(arguments).map(Verdict::Exactly)
                }
                Edited::Arguments { .. } | Edited::Form { .. } => None,
            }),
        };
        if let Some(verdict) = verdict {
            verdicts.insert(id.to_owned(), verdict);
        }
    }
    verdicts
}

/// The stored state with the prints of the calls that wait for an answer; `private` is the adapter's, a JSON object.
pub fn stored<'p>(private: String, waiting: impl IntoIterator<Item = (&'p str, &'p Print)>) -> String {
    let waiting: serde_json::Map<String, serde_json::Value> =
        waiting.into_iter().map(|(id, print)| (id.to_owned(), print.as_str().into())).collect();
    let Some(rest) = private.trim_start().strip_prefix('{').filter(|_| !waiting.is_empty()) else {
        return private;
    };
    let comma = if rest.trim_start().starts_with('}') { "" } else { "," };
    format!("{{\"{MEMBER}\":{}{comma}{rest}", serde_json::Value::Object(waiting))
}

fn prints(private: &str) -> BTreeMap<String, Print> {
    let Ok(json) = Json::parse(private.as_bytes()) else { return BTreeMap::new() };
    let members = json.get(MEMBER).map_or(&[][..], Json::members);
    members
        .iter()
        .filter_map(|(id, print)| {
            Some((id.as_plain()?.to_owned(), Print::stored(print.as_str()?.as_plain()?)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use causeway_adapter::turn::{Decided, OpenCall};
    use causeway_contract::id::{Name, ToolCallId};
    use causeway_contract::json::JsonObject;
    use causeway_contract::limits::Limits;
    use causeway_contract::namespace::Namespace;

    use super::*;

    fn id(id: &str) -> ToolCallId<'static> {
        ToolCallId::new(id.to_owned()).unwrap()
    }

    fn print(text: &str) -> Print {
        Print::of(text).unwrap()
    }

    fn decided(call: &str, decision: Decision) -> Decided {
        Decided { tool_call_id: id(call), decision, edited_args: None, message: None }
    }

    #[test]
    fn the_prints_stand_in_the_stored_state_and_leave_the_rest_alone() {
        let seen = print("{}");
        assert_eq!(stored(r#"{"pauses":[]}"#.to_owned(), []), r#"{"pauses":[]}"#);
        for private in ["{}", r#"{"pauses":[],"n":1.0}"#] {
            let with = stored(private.to_owned(), [("c\"1", &seen)]);
            assert_eq!(prints(&with).get("c\"1"), Some(&seen), "{with}");
            let all: serde_json::Value = serde_json::from_str(&with).unwrap();
            let rest: serde_json::Value = serde_json::from_str(private).unwrap();
            for (key, value) in rest.as_object().unwrap() {
                assert_eq!(all.get(key), Some(value));
            }
        }
        assert_eq!(prints("nothing").len(), 0);
    }

    #[test]
    fn each_decision_is_for_its_call_and_its_arguments() {
        let open = |call: &str, arguments: &'static str| OpenCall {
            id: id(call),
            name: Name::new("t").unwrap(),
            arguments: JsonObject::parse(arguments, &Limits::DEFAULT).unwrap(),
            namespace: Namespace::root(),
        };
        let asked = print(r#"{"secret":1}"#);
        let resume = Resume {
            open_calls: vec![open("a", r#"{"n":1}"#), open("b", "{}"), open("c", "{}"), open("d", "{}")],
            answer: Some(Answer::Decisions(vec![
                decided("a", Decision::Approve),
                decided("b", Decision::Approve),
                decided("c", Decision::Edit),
                decided("d", Decision::Reject),
            ])),
            private: Some(stored("{}".to_owned(), [("b", &asked)])),
            ..Resume::default()
        };
        let edits = [Edited::Arguments { tool_call_id: id("c"), arguments: r#"{"n":2}"#.to_owned() }];
        let expected = BTreeMap::from([
            ("a".to_owned(), Verdict::ShownAs(print(r#"{"n":1}"#))),
            ("b".to_owned(), Verdict::Exactly(asked)),
            ("c".to_owned(), Verdict::Exactly(print(r#"{"n":2}"#))),
            ("d".to_owned(), Verdict::Rejected),
        ]);
        assert_eq!(of(&resume, &edits), expected);
        assert_eq!(of(&Resume::default(), &edits), BTreeMap::new());
    }
}
