//! What an interrupted run leaves for its answer: the control request that waits, and what the next run must know.
//!
//! Stored with the interrupt and never shown. It keeps the input as the harness gave it, also where the events hide
//! secrets in it.

use crate::json::{Json, write_string};
use crate::usage::Counts;

/// The private part of a state.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Snapshot {
    /// The id of the control request.
    pub request: String,
    /// The call it asks about, by its canonical id.
    pub call: String,
    /// Whether it is a form and not an approval.
    pub form: bool,
    /// The input of the call, as JSON.
    pub input: String,
    /// The message that was being streamed.
    pub message: Option<String>,
    /// What the runs of this native turn counted so far.
    pub counted: Counts,
}

impl Snapshot {
    /// As JSON.
    pub(super) fn to_json(&self) -> String {
        let mut out = String::from("{\"request\":");
        write_string(&self.request, &mut out);
        out.push_str(",\"call\":");
        write_string(&self.call, &mut out);
        out.push_str(if self.form { ",\"form\":true" } else { ",\"form\":false" });
        if let Some(message) = &self.message {
            out.push_str(",\"message\":");
            write_string(message, &mut out);
        }
        let Counts { input, output, cached_input } = self.counted;
        for (key, count) in
            [("input_tokens", input), ("output_tokens", output), ("cached_input_tokens", cached_input)]
        {
            if let Some(count) = count {
                out.push_str(&format!(",\"{key}\":{count}"));
            }
        }
        out.push_str(",\"input\":");
        out.push_str(&self.input);
        out.push('}');
        out
    }

    /// From JSON; `None` if it is not what [`to_json`](Self::to_json) wrote.
    pub(super) fn from_json(text: &str) -> Option<Self> {
        let json = Json::parse(text.as_bytes()).ok()?;
        let owned = |key: &str| Some(json.str(key)?.lossy().into_owned());
        let count = |key: &str| json.get(key).and_then(Json::as_u64);
        Some(Self {
            request: owned("request")?,
            call: owned("call")?,
            form: json.get("form") == Some(&Json::Bool(true)),
            input: json.get("input")?.to_text(),
            message: owned("message"),
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
        let snapshot = Snapshot {
            request: "r\"1".to_owned(),
            call: "c#2".to_owned(),
            form: true,
            input: r#"{"n":1.0,"big":12345678901234567890123}"#.to_owned(),
            message: Some("m".to_owned()),
            counted: Counts { input: Some(1), output: None, cached_input: Some(2) },
        };
        assert_eq!(Snapshot::from_json(&snapshot.to_json()), Some(snapshot));
        assert_eq!(Snapshot::from_json("{}"), None);
    }
}
