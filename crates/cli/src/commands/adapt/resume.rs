//! `--resume-from FILE`: what the interrupted run left and what was answered.

use std::path::Path;

use anyhow::{Context as _, bail};
use causeway_adapter::json::Json;
use causeway_adapter::turn::{Answer, Decided, OpenCall, Resume};
use causeway_contract::event::Decision;
use causeway_contract::id::{InvocationId, Name, ToolCallId};
use causeway_contract::json::JsonObject;
use causeway_contract::limits::Limits;

/// Reads the file.
///
/// # Errors
/// It cannot be read, or does not say what is needed.
pub fn read(path: &Path) -> anyhow::Result<Resume> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    parse(&bytes).with_context(|| format!("{}", path.display()))
}

fn parse(bytes: &[u8]) -> anyhow::Result<Resume> {
    const KNOWN: [&str; 6] =
        ["open_calls", "delegations", "interrupt_id", "decisions", "values", "dismissed"];
    let json = Json::parse(bytes)?;
    if !json.is_object() {
        bail!("an object was expected");
    }
    for (key, _) in json.members() {
        if !KNOWN.iter().any(|known| key == *known) {
            bail!("unknown key `{}`; known: {}", key.lossy(), KNOWN.join(", "));
        }
    }
    let open_calls = json.list("open_calls").iter().map(open_call).collect::<anyhow::Result<Vec<_>>>()?;
    let delegations =
        json.list("delegations").iter().map(|id| call_id(id, "delegations")).collect::<Result<_, _>>()?;
    let answers =
        ["decisions", "values", "dismissed"].into_iter().filter(|key| json.get(key).is_some()).count();
    if answers != 1 {
        bail!("exactly one of `decisions`, `values` and `dismissed` was expected");
    }
    let answer = if json.get("values").is_some() {
        Answer::Values(object(&json, "values")?)
    } else if json.get("dismissed").is_some() {
        if json.get("dismissed") != Some(&Json::Bool(true)) {
            bail!("`dismissed` can only be true");
        }
        Answer::Dismissed
    } else {
        Answer::Decisions(json.list("decisions").iter().map(decided).collect::<anyhow::Result<_>>()?)
    };
    Ok(Resume { open_calls, delegations, answer: Some(answer), private: None })
}

fn open_call(json: &Json<'_>) -> anyhow::Result<OpenCall> {
    let id = json.get("id").context("an open call has no `id`")?;
    let path = json.list("namespace").iter().map(|element| {
        let text = element.as_str().context("`namespace` holds something that is no string")?;
        InvocationId::new(text.lossy().into_owned()).context("an element of `namespace`")
    });
    Ok(OpenCall {
        id: call_id(id, "open_calls")?,
        name: Name::new(text(json, "name")?).context("the `name` of an open call")?,
        arguments: if json.get("arguments").is_some() {
            object(json, "arguments")?
        } else {
            JsonObject::EMPTY
        },
        namespace: path.collect::<anyhow::Result<_>>()?,
    })
}

fn decided(json: &Json<'_>) -> anyhow::Result<Decided> {
    let id = json.get("tool_call_id").context("a decision has no `tool_call_id`")?;
    let decision = text(json, "decision")?;
    Ok(Decided {
        tool_call_id: call_id(id, "tool_call_id")?,
        decision: Decision::parse(&decision).context("a `decision` is approve, edit or reject")?,
        edited_args: if json.get("edited_args").is_some() {
            Some(object(json, "edited_args")?)
        } else {
            None
        },
        message: json.str("message").map(|message| message.lossy().into_owned()),
    })
}

fn text(json: &Json<'_>, key: &str) -> anyhow::Result<String> {
    let text = json.str(key).with_context(|| format!("`{key}`, a string, is missing"))?;
    Ok(text.lossy().into_owned())
}

fn call_id(json: &Json<'_>, what: &str) -> anyhow::Result<ToolCallId<'static>> {
    let text = json.as_str().with_context(|| format!("a call id in `{what}` is no string"))?;
    ToolCallId::new(text.lossy().into_owned()).with_context(|| format!("a call id in `{what}`"))
}

fn object(json: &Json<'_>, key: &str) -> anyhow::Result<JsonObject<'static>> {
    let value = json.get(key).filter(|value| value.is_object());
    let text = value.with_context(|| format!("`{key}`, an object, is missing"))?.to_text();
    JsonObject::parse(text, &Limits::DEFAULT).with_context(|| format!("`{key}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_read_and_what_is_wrong_with_it_is_named() {
        let resume = parse(
            br#"{"open_calls":[{"id":"c","name":"t","arguments":{"n":1.0},"namespace":["k"]}],"delegations":["k"],
                "interrupt_id":"i","decisions":[{"tool_call_id":"c","decision":"reject","message":"no"}]}"#,
        )
        .unwrap();
        assert_eq!(resume.open_calls[0].arguments.as_str(), r#"{"n":1.0}"#);
        assert_eq!(resume.delegations[0].as_str(), "k");
        let Some(Answer::Decisions(decisions)) = resume.answer else { panic!("decisions") };
        assert_eq!((decisions[0].decision, decisions[0].message.as_deref()), (Decision::Reject, Some("no")));
        for (text, fault) in [
            (&b"[]"[..], "an object was expected"),
            (br#"{"decision":[]}"#, "unknown key `decision`"),
            (br#"{"open_calls":[]}"#, "exactly one of"),
            (br#"{"dismissed":true,"values":{}}"#, "exactly one of"),
            (br#"{"decisions":[{"tool_call_id":"c","decision":"maybe"}]}"#, "approve, edit or reject"),
        ] {
            let error = format!("{:#}", parse(text).unwrap_err());
            assert!(error.contains(fault), "{error}");
        }
    }
}
