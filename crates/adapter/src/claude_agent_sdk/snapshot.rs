//! What an interrupted run leaves for its answer: the control requests that wait, and what the next run must know.
//!
//! Stored with the interrupt and never shown. It keeps the inputs as the harness gave them, also where the events hide
//! secrets in them.

use crate::json::{Json, write_string};
use crate::usage::Counts;

/// The private part of a state.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Snapshot {
    /// The requests that wait, in the order in which they came.
    pub asked: Vec<Asked>,
    /// The message that was being streamed.
    pub message: Option<String>,
    /// What the runs of this native turn counted so far.
    pub counted: Counts,
    /// Where the conversation stands.
    pub head: Option<String>,
}

/// A request that waits for its response.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Asked {
    /// The id of the control request.
    pub request: String,
    /// The call it asks about, by its canonical id.
    pub call: String,
    /// Whether it is a form and not an approval.
    pub form: bool,
    /// What the names of its fields begin with.
    pub prefix: String,
    /// The input of the call, as JSON.
    pub input: String,
}

impl Snapshot {
    /// What is asked about a call.
    pub(super) fn about(&self, call: &str) -> Option<&Asked> {
        self.asked.iter().find(|asked| asked.call == call)
    }

    /// Whether the one request for all of them is a form.
    pub(super) fn is_form(&self) -> bool {
        self.asked.iter().all(|asked| asked.form)
    }

    /// As JSON.
    pub(super) fn to_json(&self) -> String {
        let mut out = String::from("{\"asked\":[");
        for (at, asked) in self.asked.iter().enumerate() {
            out.push_str(if at > 0 { ",{\"request\":" } else { "{\"request\":" });
            write_string(&asked.request, &mut out);
            out.push_str(",\"call\":");
            write_string(&asked.call, &mut out);
            out.push_str(if asked.form {
                ",\"form\":true,\"prefix\":"
            } else {
                ",\"form\":false,\"prefix\":"
            });
            write_string(&asked.prefix, &mut out);
            out.push_str(",\"input\":");
            out.push_str(&asked.input);
            out.push('}');
        }
        out.push(']');
        if let Some(message) = &self.message {
            out.push_str(",\"message\":");
            write_string(message, &mut out);
        }
        if let Some(head) = &self.head {
            out.push_str(",\"head\":");
            write_string(head, &mut out);
        }
        let Counts { input, output, cached_input } = self.counted;
        for (key, count) in
            [("input_tokens", input), ("output_tokens", output), ("cached_input_tokens", cached_input)]
        {
            if let Some(count) = count {
                out.push_str(&format!(",\"{key}\":{count}"));
            }
        }
        out.push('}');
        out
    }

    /// From JSON; `None` if it is not what [`to_json`](Self::to_json) wrote.
    pub(super) fn from_json(text: &str) -> Option<Self> {
        let json = Json::parse(text.as_bytes()).ok()?;
        let owned = |json: &Json<'_>, key: &str| Some(json.str(key)?.lossy().into_owned());
        let count = |key: &str| json.get(key).and_then(Json::as_u64);
        let asked = |one: &Json<'_>| {
            Some(Asked {
                request: owned(one, "request")?,
                call: owned(one, "call")?,
                form: one.get("form") == Some(&Json::Bool(true)),
                prefix: owned(one, "prefix")?,
                input: one.get("input")?.to_text(),
            })
        };
        let asked: Vec<Asked> = json.list("asked").iter().map(asked).collect::<Option<_>>()?;
        (!asked.is_empty()).then(|| Self {
            asked,
            message: owned(&json, "message"),
            head: owned(&json, "head"),
            counted: Counts {
                input: count("input_tokens"),
                output: count("output_tokens"),
                cached_input: count("cached_input_tokens"),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_reads_back() {
        let form = Asked {
            request: "r\"1".to_owned(),
            call: "c#2".to_owned(),
            form: true,
            prefix: "2.".to_owned(),
            input: r#"{"n":1.0,"big":12345678901234567890123}"#.to_owned(),
        };
        let approval = Asked { call: "c3".to_owned(), input: "{}".to_owned(), ..Asked::default() };
        let snapshot = Snapshot {
            asked: vec![form.clone(), approval],
            message: Some("m".to_owned()),
            counted: Counts { input: Some(1), output: None, cached_input: Some(2) },
            head: Some("s:e".to_owned()),
        };
        assert_eq!((snapshot.about("c#2"), snapshot.is_form()), (Some(&form), false));
        assert_eq!(Snapshot::from_json(&snapshot.to_json()), Some(snapshot));
        assert_eq!(Snapshot::from_json("{}"), None);
    }
}
