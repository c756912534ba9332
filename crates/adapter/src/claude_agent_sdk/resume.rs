//! Answers: ours to the control response that the living process waits for, and back where only that is known.

use causeway_contract::event::Decision;
use causeway_contract::id::ToolCallId;
use causeway_contract::json::JsonObject;
use causeway_contract::limits::Limits;

use super::ask;
use super::snapshot::Snapshot;
use crate::json::{Json, write_string};
use crate::project::restored;
use crate::turn::{Answer, AnswerError, Decided};

/// What the model is told when a reviewer gives no reason.
const REFUSED: &str = "The user does not want to proceed with this tool call.";
/// What the model is told when a form is closed.
const CLOSED: &str = "The user closed the question without an answer.";

/// The control response for an answer.
///
/// # Errors
/// The answer does not fit what was asked.
pub(super) fn control_response(snapshot: &Snapshot, answer: &Answer) -> Result<String, AnswerError> {
    let response = match reply(snapshot, answer)? {
        Reply::Allow(input) => format!("{{\"behavior\":\"allow\",\"updatedInput\":{input}}}"),
        Reply::Deny(message) => {
            let mut out = String::from("{\"behavior\":\"deny\",\"message\":");
            write_string(message, &mut out);
            out.push('}');
            out
        }
    };
    let mut out =
        String::from("{\"type\":\"control_response\",\"response\":{\"subtype\":\"success\",\"request_id\":");
    write_string(&snapshot.request, &mut out);
    out.push_str(",\"response\":");
    out.push_str(&response);
    out.push_str("}}");
    Ok(out)
}

/// What is answered.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Reply<'a> {
    /// The tool runs with this input.
    Allow(String),
    /// It does not, and the model is told this.
    Deny(&'a str),
}

/// The reply that an answer is.
///
/// # Errors
/// The answer does not fit what was asked.
pub(super) fn reply<'a>(snapshot: &Snapshot, answer: &'a Answer) -> Result<Reply<'a>, AnswerError> {
    let input = Json::parse(snapshot.input.as_bytes()).map_err(|_| AnswerError::Unreadable)?;
    let decisions = match (snapshot.form, answer) {
        (true, Answer::Values(values)) => {
            let values = Json::parse(values.as_str().as_bytes()).map_err(|_| AnswerError::Unreadable)?;
            let answered = ask::answered(&input, &values);
            return answered.map(Reply::Allow).map_err(|field_name| AnswerError::MissingField { field_name });
        }
        (true, Answer::Dismissed) => return Ok(Reply::Deny(CLOSED)),
        (true, Answer::Decisions(_)) | (false, Answer::Values(_) | Answer::Dismissed) => {
            return Err(AnswerError::WrongKind);
        }
        (false, Answer::Decisions(decisions)) => decisions,
    };
    if let Some(other) = decisions.iter().find(|decided| decided.tool_call_id != *snapshot.call.as_str()) {
        return Err(AnswerError::Unknown { tool_call_id: other.tool_call_id.clone() });
    }
    let Some(decided) = decisions.last() else {
        return Err(AnswerError::Undecided { tool_call_id: snapshot.call.clone() });
    };
    match decided.decision {
        Decision::Approve => Ok(Reply::Allow(input.to_text())),
        Decision::Reject => Ok(Reply::Deny(decided.message.as_deref().unwrap_or(REFUSED))),
        Decision::Edit => {
            let missing = || AnswerError::NoArguments { tool_call_id: decided.tool_call_id.clone() };
            let edited = decided.edited_args.as_ref().ok_or_else(missing)?;
            let edited = Json::parse(edited.as_str().as_bytes()).map_err(|_| missing())?;
            let mut out = String::new();
            restored(&edited, Some(&input), &mut out);
            Ok(Reply::Allow(out))
        }
    }
}

/// The answer behind a control response, whole or its inner part; `None` where it cannot be told.
pub(super) fn answer_of(snapshot: &Snapshot, response: &Json<'_>, limits: &Limits) -> Option<Answer> {
    let inner = |json: &Json<'_>| json.get("behavior").is_some();
    let outer = response.get("response");
    let found = [Some(response), outer, outer.and_then(|outer| outer.get("response"))];
    let given = found.into_iter().flatten().find(|json| inner(json))?;
    let allowed = match given.text("behavior")? {
        "allow" => true,
        "deny" => false,
        _ => return None,
    };
    let input = Json::parse(snapshot.input.as_bytes()).ok()?;
    let updated = given.get("updatedInput").filter(|updated| updated.is_object());
    if snapshot.form {
        return if allowed {
            let values = ask::values(updated?)?;
            Some(Answer::Values(JsonObject::parse(values, limits).ok()?))
        } else {
            Some(Answer::Dismissed)
        };
    }
    let edited = updated.filter(|updated| allowed && !updated.same(&input));
    let decided = Decided {
        tool_call_id: ToolCallId::new(snapshot.call.clone()).ok()?,
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
    };
    Some(Answer::Decisions(vec![decided]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(form: bool, input: &str) -> Snapshot {
        Snapshot {
            request: "r1".to_owned(),
            call: "c1".to_owned(),
            form,
            input: input.to_owned(),
            ..Snapshot::default()
        }
    }

    fn decide(decision: Decision, edited: Option<&str>, message: Option<&str>) -> Answer {
        Answer::Decisions(vec![Decided {
            tool_call_id: ToolCallId::new("c1").unwrap(),
            decision,
            edited_args: edited.map(|text| JsonObject::parse(text.to_owned(), &Limits::DEFAULT).unwrap()),
            message: message.map(str::to_owned),
        }])
    }

    fn round(snapshot: &Snapshot, answer: &Answer) -> (String, Option<Answer>) {
        let line = control_response(snapshot, answer).unwrap();
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
        assert_eq!(reply(&asked, &Answer::Dismissed), Err(AnswerError::WrongKind));
        let nothing = Answer::Decisions(Vec::new());
        assert_eq!(reply(&asked, &nothing), Err(AnswerError::Undecided { tool_call_id: "c1".to_owned() }));
    }

    #[test]
    fn a_form_is_answered_by_the_texts_of_its_questions() {
        let asked =
            snapshot(true, r#"{"questions":[{"question":"A?"},{"question":"B?","multiSelect":true}]}"#);
        let values =
            |text: &str| Answer::Values(JsonObject::parse(text.to_owned(), &Limits::DEFAULT).unwrap());
        let (value, back) = round(&asked, &values(r#"{"A?":"x","B?":["y","z"]}"#));
        let expected = r#"{"behavior":"allow","updatedInput":{"questions":[{"question":"A?"},{"question":"B?","multiSelect":true}],"answers":{"A?":"x","B?":"y, z"}}}"#;
        assert_eq!(value, expected);
        assert_eq!(back, Some(values(r#"{"A?":"x","B?":"y, z"}"#)));
        let missing = reply(&asked, &values(r#"{"A?":"x"}"#)).map(|_| ());
        assert_eq!(missing, Err(AnswerError::MissingField { field_name: "B?".to_owned() }));
        assert_eq!(round(&asked, &Answer::Dismissed).1, Some(Answer::Dismissed));
    }
}
