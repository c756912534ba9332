//! Answers: ours to the control responses that the living process waits for, and back where only those are known.
//!
//! Every request of an interrupt gets a response: a resume value is the one control response, or a list of them.

use causeway_contract::event::Decision;
use causeway_contract::id::ToolCallId;
use causeway_contract::json::JsonObject;
use causeway_contract::limits::Limits;

use super::ask;
use super::snapshot::{Asked, Snapshot};
use crate::json::{Json, write_string};
use crate::project::restored;
use crate::turn::{Answer, AnswerError, Decided, Edited};

/// What the model is told when a reviewer gives no reason.
const REFUSED: &str = "The user does not want to proceed with this tool call.";
/// What the model is told when a form is closed.
const CLOSED: &str = "The user closed the question without an answer.";

/// The control response for an answer; a list where several requests wait.
///
/// # Errors
/// The answer does not fit what was asked.
pub(super) fn resume_value(snapshot: &Snapshot, answer: &Answer) -> Result<String, AnswerError> {
    let replies = replies(snapshot, answer)?;
    let responses: Vec<String> =
        snapshot.asked.iter().zip(&replies).map(|(asked, reply)| control_response(asked, reply)).collect();
    Ok(match responses.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(",")),
    })
}

fn control_response(asked: &Asked, reply: &Reply<'_>) -> String {
    let mut out =
        String::from("{\"type\":\"control_response\",\"response\":{\"subtype\":\"success\",\"request_id\":");
    write_string(&asked.request, &mut out);
    match reply {
        Reply::Allow(input) => {
            out.push_str(",\"response\":{\"behavior\":\"allow\",\"updatedInput\":");
            out.push_str(input);
        }
        Reply::Deny(message) => {
            out.push_str(",\"response\":{\"behavior\":\"deny\",\"message\":");
            write_string(message, &mut out);
        }
    }
    out.push_str("}}}");
    out
}

/// What is answered to one request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Reply<'a> {
    /// The tool runs with this input.
    Allow(String),
    /// It does not, and the model is told this.
    Deny(&'a str),
}

/// The replies that an answer is, one for each request.
///
/// # Errors
/// The answer does not fit what was asked.
pub(super) fn replies<'a>(snapshot: &Snapshot, answer: &'a Answer) -> Result<Vec<Reply<'a>>, AnswerError> {
    let decisions = match (snapshot.is_form(), answer) {
        (true, Answer::Values(values)) => {
            let values = Json::parse(values.as_str().as_bytes()).map_err(|_| AnswerError::Unreadable)?;
            let fill = |asked: &Asked| {
                let filled = ask::answered(&input(asked)?, &values, &asked.prefix);
                filled.map(Reply::Allow).map_err(|field_name| AnswerError::MissingField { field_name })
            };
            return snapshot.asked.iter().map(fill).collect();
        }
        (true, Answer::Dismissed) => return Ok(snapshot.asked.iter().map(|_| Reply::Deny(CLOSED)).collect()),
        (true, Answer::Decisions(_)) | (false, Answer::Values(_) | Answer::Dismissed) => {
            return Err(AnswerError::WrongKind);
        }
        (false, Answer::Decisions(decisions)) => decisions,
    };
    if let Some(other) =
        decisions.iter().find(|decided| snapshot.about(decided.tool_call_id.as_str()).is_none())
    {
        return Err(AnswerError::Unknown { tool_call_id: other.tool_call_id.clone() });
    }
    snapshot.asked.iter().map(|asked| decided(asked, decisions)).collect()
}

fn input(asked: &Asked) -> Result<Json<'_>, AnswerError> {
    Json::parse(asked.input.as_bytes()).map_err(|_| AnswerError::Unreadable)
}

fn decided<'a>(asked: &Asked, decisions: &'a [Decided]) -> Result<Reply<'a>, AnswerError> {
    let mine = decisions.iter().rfind(|decided| decided.tool_call_id == *asked.call.as_str());
    let Some(decided) = mine else {
        return Err(AnswerError::Undecided { tool_call_id: asked.call.clone() });
    };
    let (input, call) = (input(asked)?, &decided.tool_call_id);
    match decided.decision {
        Decision::Approve if asked.form => {
            Err(AnswerError::NotAllowed { tool_call_id: call.clone(), decision: decided.decision })
        }
        Decision::Approve => Ok(Reply::Allow(input.to_text())),
        Decision::Reject => {
            Ok(Reply::Deny(decided.message.as_deref().unwrap_or(if asked.form { CLOSED } else { REFUSED })))
        }
        Decision::Edit => {
            let missing = || AnswerError::NoArguments { tool_call_id: call.clone() };
            let edited = decided.edited_args.as_ref().ok_or_else(missing)?;
            let edited = Json::parse(edited.as_str().as_bytes()).map_err(|_| missing())?;
            if asked.form && edited.get("answers").is_none_or(|answers| !answers.is_object()) {
                return Err(missing()); // the form's values are what is asked for
            }
            let mut out = String::new();
            restored(&edited, Some(&input), &mut out);
            Ok(Reply::Allow(out))
        }
    }
}

/// What the edits of an answer make of their calls.
pub(super) fn edits(snapshot: &Snapshot, answer: &Answer) -> Vec<Edited> {
    let (Answer::Decisions(decisions), Ok(replies)) = (answer, replies(snapshot, answer)) else {
        return Vec::new();
    };
    let edit = |(asked, reply): (&Asked, Reply<'_>)| {
        let of = |one: &&Decided| one.decision == Decision::Edit && one.tool_call_id == *asked.call.as_str();
        let edited = decisions.iter().find(of).filter(|_| !asked.form)?;
        match reply {
            Reply::Allow(arguments) => {
                Some(Edited::Arguments { tool_call_id: edited.tool_call_id.clone(), arguments })
            }
            Reply::Deny(_) => None,
        }
    };
    snapshot.asked.iter().zip(replies).filter_map(edit).collect()
}

/// The answer behind control responses, whole or their inner part; `None` where it cannot be told.
pub(super) fn answer_of(snapshot: &Snapshot, value: &Json<'_>, limits: &Limits) -> Option<Answer> {
    let given = match value {
        Json::Array(items) => items.as_slice(),
        one => std::slice::from_ref(one),
    };
    let of = |asked: &Asked| {
        let named = |one: &&Json<'_>| {
            let request = one.get("response").and_then(|outer| outer.str("request_id"));
            request.is_some_and(|id| id == asked.request.as_str())
        };
        let only = || given.first().filter(|_| given.len() == 1 && snapshot.asked.len() == 1);
        response(given.iter().find(named).or_else(only)?)
    };
    let responses: Vec<(bool, &Json<'_>)> = snapshot.asked.iter().map(of).collect::<Option<_>>()?;
    let all = || snapshot.asked.iter().zip(&responses);
    if !snapshot.is_form() {
        return all()
            .map(|(asked, (allowed, given))| decision(asked, *allowed, given, limits))
            .collect::<Option<_>>()
            .map(Answer::Decisions);
    }
    if responses.iter().any(|(allowed, _)| !allowed) {
        return Some(Answer::Dismissed);
    }
    let mut values = String::from("{");
    for (asked, (_, given)) in all() {
        ask::values(updated(given)?, &asked.prefix, &mut values)?;
    }
    values.push('}');
    Some(Answer::Values(JsonObject::parse(values, limits).ok()?))
}

/// Whether a control response allows, and its inner part.
fn response<'j, 'a>(whole: &'j Json<'a>) -> Option<(bool, &'j Json<'a>)> {
    let outer = whole.get("response");
    let found = [Some(whole), outer, outer.and_then(|outer| outer.get("response"))];
    let given = found.into_iter().flatten().find(|json| json.get("behavior").is_some())?;
    match given.text("behavior")? {
        "allow" => Some((true, given)),
        "deny" => Some((false, given)),
        _ => None,
    }
}

fn updated<'j, 'a>(given: &'j Json<'a>) -> Option<&'j Json<'a>> {
    given.get("updatedInput").filter(|updated| updated.is_object())
}

fn decision(asked: &Asked, allowed: bool, given: &Json<'_>, limits: &Limits) -> Option<Decided> {
    let input = input(asked).ok()?;
    let edited = updated(given).filter(|updated| allowed && !updated.same(&input));
    Some(Decided {
        tool_call_id: ToolCallId::new(asked.call.clone()).ok()?,
        decision: match (allowed, edited) {
            (true, None) => Decision::Approve,
            (true, Some(_)) => Decision::Edit,
            (false, _) => Decision::Reject,
        },
        edited_args: match edited {
            Some(edited) => Some(JsonObject::parse(edited.to_text(), limits).ok()?),
            None => None,
        },
        message: if allowed { None } else { given.str("message").map(|text| text.lossy().into_owned()) },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(n: u8, form: bool, prefix: &str, input: &str) -> Asked {
        Asked {
            request: format!("r{n}"),
            call: format!("c{n}"),
            form,
            prefix: prefix.to_owned(),
            input: input.to_owned(),
        }
    }

    fn of(asked: Vec<Asked>) -> Snapshot {
        Snapshot { asked, ..Snapshot::default() }
    }

    fn snapshot(form: bool, input: &str) -> Snapshot {
        of(vec![asked(1, form, "", input)])
    }

    fn on(call: &'static str, decision: Decision, edited: Option<&str>, message: Option<&str>) -> Decided {
        Decided {
            tool_call_id: ToolCallId::new(call).unwrap(),
            decision,
            edited_args: edited.map(|text| JsonObject::parse(text.to_owned(), &Limits::DEFAULT).unwrap()),
            message: message.map(str::to_owned),
        }
    }

    fn decide(decision: Decision, edited: Option<&str>, message: Option<&str>) -> Answer {
        Answer::Decisions(vec![on("c1", decision, edited, message)])
    }

    fn values(text: &str) -> Answer {
        Answer::Values(JsonObject::parse(text.to_owned(), &Limits::DEFAULT).unwrap())
    }

    fn round(snapshot: &Snapshot, answer: &Answer) -> (String, Option<Answer>) {
        let line = resume_value(snapshot, answer).unwrap();
        let json = Json::parse(line.as_bytes()).unwrap();
        let response = json.get("response").unwrap();
        assert_eq!(response.text("request_id"), Some("r1"));
        (response.get("response").unwrap().to_text(), answer_of(snapshot, &json, &Limits::DEFAULT))
    }

    #[test]
    fn decisions_become_the_response_of_the_control_protocol_and_read_back() {
        let asked = snapshot(false, r#"{"path":"a","key":"sk-1"}"#);
        let approve = decide(Decision::Approve, None, None);
        let expected = r#"{"behavior":"allow","updatedInput":{"path":"a","key":"sk-1"}}"#;
        assert_eq!(round(&asked, &approve), (expected.to_owned(), Some(approve)));
        let edit = decide(Decision::Edit, Some(r#"{"path":"b","key":"[redacted]"}"#), None);
        let (value, back) = round(&asked, &edit);
        assert_eq!(value, r#"{"behavior":"allow","updatedInput":{"path":"b","key":"sk-1"}}"#);
        assert_eq!(back, Some(decide(Decision::Edit, Some(r#"{"path":"b","key":"sk-1"}"#), None)));
        let reject = decide(Decision::Reject, None, Some("no"));
        assert_eq!(
            round(&asked, &reject),
            (r#"{"behavior":"deny","message":"no"}"#.to_owned(), Some(reject))
        );
        assert_eq!(replies(&asked, &Answer::Dismissed), Err(AnswerError::WrongKind));
        let nothing = Answer::Decisions(Vec::new());
        assert_eq!(replies(&asked, &nothing), Err(AnswerError::Undecided { tool_call_id: "c1".to_owned() }));
    }

    #[test]
    fn a_form_is_answered_by_the_texts_of_its_questions() {
        let asked =
            snapshot(true, r#"{"questions":[{"question":"A?"},{"question":"B?","multiSelect":true}]}"#);
        let (value, back) = round(&asked, &values(r#"{"A?":"x","B?":["y","z"]}"#));
        let expected = r#"{"behavior":"allow","updatedInput":{"questions":[{"question":"A?"},{"question":"B?","multiSelect":true}],"answers":{"A?":"x","B?":"y, z"}}}"#;
        assert_eq!(value, expected);
        assert_eq!(back, Some(values(r#"{"A?":"x","B?":"y, z"}"#)));
        let missing = replies(&asked, &values(r#"{"A?":"x"}"#)).map(|_| ());
        assert_eq!(missing, Err(AnswerError::MissingField { field_name: "B?".to_owned() }));
        assert_eq!(round(&asked, &Answer::Dismissed).1, Some(Answer::Dismissed));
    }

    #[test]
    fn each_of_several_requests_gets_a_response_of_its_own() {
        let question = r#"{"questions":[{"question":"A?"}]}"#;
        let forms = of(vec![asked(1, true, "", question), asked(2, true, "2.", question)]);
        let both = values(r#"{"A?":"x","2.A?":"y"}"#);
        let value = resume_value(&forms, &both).unwrap();
        let json = Json::parse(value.as_bytes()).unwrap();
        let answers: Vec<_> = json.items().iter().map(|one| response(one).unwrap().1.to_text()).collect();
        let expected = |answer: &str| {
            format!(
                r#"{{"behavior":"allow","updatedInput":{{"questions":[{{"question":"A?"}}],"answers":{{"A?":"{answer}"}}}}}}"#
            )
        };
        assert_eq!(answers, [expected("x"), expected("y")]);
        assert_eq!(answer_of(&forms, &json, &Limits::DEFAULT), Some(both));

        let mixed = of(vec![asked(1, false, "", r#"{"n":1}"#), asked(2, true, "", question)]);
        let filled = r#"{"questions":[{"question":"A?"}],"answers":{"A?":"x"}}"#;
        let answer = Answer::Decisions(vec![
            on("c1", Decision::Reject, None, Some("no")),
            on("c2", Decision::Edit, Some(filled), None),
        ]);
        let value = resume_value(&mixed, &answer).unwrap();
        let json = Json::parse(value.as_bytes()).unwrap();
        assert_eq!(answer_of(&mixed, &json, &Limits::DEFAULT), Some(answer));
        let with = |decided| {
            let decisions = Answer::Decisions(vec![on("c1", Decision::Approve, None, None), decided]);
            replies(&mixed, &decisions).map(|_| ()).unwrap_err().to_string()
        };
        assert_eq!(with(on("c2", Decision::Approve, None, None)), "call c2 does not allow `approve`");
        assert_eq!(
            with(on("c2", Decision::Edit, Some(question), None)),
            "the edit of call c2 has no arguments to go on with"
        );
        let half = Json::parse(value.as_bytes()).unwrap().items()[..1].to_vec();
        assert_eq!(answer_of(&mixed, &Json::Array(half), &Limits::DEFAULT), None);
    }
}
