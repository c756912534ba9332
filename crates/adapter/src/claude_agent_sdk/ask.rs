//! Questions of the tool `AskUserQuestion` as a form, and a form's values as answers.
//!
//! The harness knows a question by its text and an answer by the label of an option; several labels are joined by a comma.

use causeway_contract::event::FormField;
use causeway_contract::id::Name;

use crate::adapter::ItemError;
use crate::json::{Json, write_string};
use crate::project;
use crate::text;
use crate::turn::Options;

/// The longest name of a field; a longer question is cut, and stays whole in the field's `question`.
const NAME: usize = 200;

/// Prompt and fields of a form; `prefix` tells the fields of several forms in one request apart.
///
/// # Errors
/// A question cannot stand in an event.
pub(super) fn form(
    input: &Json<'_>,
    prefix: &str,
    options: &Options,
) -> Result<(String, Vec<FormField<'static>>), ItemError> {
    let questions = input.list("questions");
    let mut names = Vec::new();
    let mut fields = Vec::new();
    let mut prompt = String::new();
    for question in questions {
        if let Some(text) = question.str("question") {
            prompt.push_str(if prompt.is_empty() { "" } else { "\n" });
            prompt.push_str(&text::content(&text::whole([text], options), options));
        }
        let name = name_of(question, &names);
        fields.push(field(question, &format!("{prefix}{name}"), options)?);
        names.push(name);
    }
    Ok((text::cut(&prompt, options.limits.prompt_bytes).into_owned(), fields))
}

/// The name of a question's field: its text as far as it can be one, and unlike those before it.
fn name_of(question: &Json<'_>, before: &[String]) -> String {
    let text = question.str("question").map(|text| text.lossy().into_owned()).unwrap_or_default();
    let base = text::call_id(&text, NAME).map_or_else(|| "question".to_owned(), |id| id.as_str().to_owned());
    let mut name = base.clone();
    let mut n = 1;
    while before.contains(&name) {
        n += 1;
        name = format!("{base} ({n})");
    }
    name
}

fn field(question: &Json<'_>, name: &str, options: &Options) -> Result<FormField<'static>, ItemError> {
    let many = question.get("multiSelect") == Some(&Json::Bool(true));
    let kind = if many { "multiselect" } else { "select" };
    let mut out = String::from("{\"field_name\":");
    write_string(name, &mut out);
    out.push_str(",\"field_type\":\"");
    out.push_str(kind);
    out.push_str("\",\"field_values\":[");
    let labels =
        question.list("options").iter().filter_map(|option| option.str("label").or_else(|| option.as_str()));
    for (n, label) in labels.enumerate() {
        out.push_str(if n > 0 { "," } else { "" });
        write_string(&text::content(&text::whole([label], options), options), &mut out);
    }
    out.push_str("],\"required\":true");
    for (n, (key, value)) in question.members().iter().enumerate() {
        let ours = ["field_name", "field_type", "field_values", "required"].iter().any(|name| key == *name);
        let later = question.members().iter().skip(n + 1).any(|(other, _)| other == key);
        if ours || later {
            continue;
        }
        out.push(',');
        write_string(&key.lossy(), &mut out);
        out.push(':');
        value.write_with(&mut out, &mut |text, out| out.push_str(&text::content(text, options)));
    }
    out.push('}');
    let name_of = |text: &str| {
        Name::new(text.to_owned())
            .map_err(|fault| ItemError::Value { what: "a question", why: fault.to_string() })
    };
    Ok(FormField {
        object: project::checked(out, "a question", &options.limits)?,
        field_name: name_of(name)?,
        field_type: name_of(kind)?,
        required: true,
    })
}

/// The input with the `answers` that a form's values are; the name of a field without one is the error.
pub(super) fn answered(input: &Json<'_>, values: &Json<'_>, prefix: &str) -> Result<String, String> {
    let mut out = String::from("{");
    for (key, value) in input.members().iter().filter(|(key, _)| key != "answers") {
        write_string(&key.lossy(), &mut out);
        out.push(':');
        value.write(&mut out);
        out.push(',');
    }
    out.push_str("\"answers\":{");
    let mut names: Vec<String> = Vec::new();
    for question in input.list("questions") {
        let name = name_of(question, &names);
        let field = format!("{prefix}{name}");
        let value =
            values.members().iter().rev().find(|(key, _)| key == field.as_str()).map(|(_, value)| value);
        let answer = match value {
            Some(Json::String(text)) => text.lossy().into_owned(),
            Some(Json::Array(items)) => items.iter().map(plain).collect::<Vec<_>>().join(", "),
            Some(other @ (Json::Number(_) | Json::Bool(_) | Json::Object(_))) => other.to_text(),
            Some(Json::Null) | None => return Err(field),
        };
        out.push_str(if names.is_empty() { "" } else { "," });
        write_string(&question.str("question").map(|text| text.lossy()).unwrap_or_default(), &mut out);
        out.push(':');
        write_string(&answer, &mut out);
        names.push(name);
    }
    out.push_str("}}");
    Ok(out)
}

fn plain(value: &Json<'_>) -> String {
    value.as_str().map_or_else(|| value.to_text(), |text| text.lossy().into_owned())
}

/// The values of the form behind the `answers` of an input, written behind those of the forms before; `None` if there
/// are none.
pub(super) fn values(input: &Json<'_>, prefix: &str, out: &mut String) -> Option<()> {
    let answers = input.get("answers")?;
    let mut names: Vec<String> = Vec::new();
    for question in input.list("questions") {
        let name = name_of(question, &names);
        let text = question.str("question").map(|text| text.lossy()).unwrap_or_default();
        let given = answers.members().iter().rev().find(|(key, _)| *key.lossy() == *text);
        if let Some((_, value)) = given {
            out.push_str(if out.len() > 1 { "," } else { "" });
            write_string(&format!("{prefix}{name}"), out);
            out.push(':');
            value.write(out);
        }
        names.push(name);
    }
    Some(())
}
