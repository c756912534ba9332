//! What an interrupted run leaves for its answer: which native interrupt asked what, in the harness's order.
//!
//! Stored with the interrupt and never shown. It keeps arguments as the harness gave them, also where the events hide
//! secrets in them.

use crate::calls;
use crate::json::{Json, write_string};

/// What a native interrupt waits for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    /// A decision on a call.
    Approval,
    /// A decision on a call of `request_user_input`.
    Form,
    /// Any value.
    Pause,
}

impl Kind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Approval => "approval",
            Self::Form => "form",
            Self::Pause => "pause",
        }
    }
}

/// One thing that waits for an answer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Pause {
    /// The native interrupt; several decisions may belong to one.
    pub interrupt: String,
    /// What is awaited.
    pub kind: Kind,
    /// What the names of its fields start with when several were merged into one form.
    pub prefix: String,
    /// The call it belongs to, by its canonical id.
    pub call: Option<String>,
    /// The tool.
    pub name: String,
    /// The arguments of the call, as JSON.
    pub arguments: String,
}

/// The private part of a state.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Snapshot {
    /// In the harness's order.
    pub pauses: Vec<Pause>,
    /// Native ids of open calls whose canonical id differs, with that.
    pub aliases: Vec<(String, String)>,
}

impl Snapshot {
    /// As JSON.
    pub(super) fn to_json(&self) -> String {
        let mut out = String::from("{\"pauses\":[");
        for (n, pause) in self.pauses.iter().enumerate() {
            if n > 0 {
                out.push(',');
            }
            let members = [
                ("interrupt", Some(&*pause.interrupt)),
                ("kind", Some(pause.kind.as_str())),
                ("prefix", Some(&*pause.prefix)),
                ("call", pause.call.as_deref()),
                ("name", Some(&*pause.name)),
            ];
            out.push('{');
            for (key, value) in members {
                if let Some(value) = value {
                    write_string(key, &mut out);
                    out.push(':');
                    write_string(value, &mut out);
                    out.push(',');
                }
            }
            out.push_str("\"arguments\":");
            out.push_str(&pause.arguments);
            out.push('}');
        }
        out.push_str("],\"aliases\":");
        calls::write_aliases(&self.aliases, &mut out);
        out.push('}');
        out
    }

    /// From JSON; `None` if it is not what [`to_json`](Self::to_json) wrote.
    pub(super) fn from_json(text: &str) -> Option<Self> {
        let json = Json::parse(text.as_bytes()).ok()?;
        let owned = |value: &Json<'_>, key: &str| Some(value.str(key)?.lossy().into_owned());
        let mut snapshot = Self::default();
        for pause in json.list("pauses") {
            snapshot.pauses.push(Pause {
                interrupt: owned(pause, "interrupt")?,
                kind: match pause.text("kind")? {
                    "approval" => Kind::Approval,
                    "form" => Kind::Form,
                    "pause" => Kind::Pause,
                    _ => return None,
                },
                prefix: owned(pause, "prefix")?,
                call: owned(pause, "call"),
                name: owned(pause, "name")?,
                arguments: pause.get("arguments")?.to_text(),
            });
        }
        snapshot.aliases = calls::read_aliases(json.list("aliases"))?;
        Some(snapshot)
    }

    /// The native interrupts with their pauses, in order.
    pub(super) fn interrupts(&self) -> Vec<(&str, Vec<&Pause>)> {
        let mut groups: Vec<(&str, Vec<&Pause>)> = Vec::new();
        for pause in &self.pauses {
            match groups.iter_mut().find(|(id, _)| *id == pause.interrupt) {
                Some((_, group)) => group.push(pause),
                None => groups.push((&pause.interrupt, vec![pause])),
            }
        }
        groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_reads_back() {
        let pause = |kind, call: Option<&str>| Pause {
            interrupt: "i\"1".to_owned(),
            kind,
            prefix: "2.".to_owned(),
            call: call.map(str::to_owned),
            name: "tool".to_owned(),
            arguments: r#"{"n":1.0,"big":12345678901234567890123}"#.to_owned(),
        };
        let snapshot = Snapshot {
            pauses: vec![
                pause(Kind::Approval, Some("c#2")),
                pause(Kind::Form, Some("d")),
                pause(Kind::Pause, None),
            ],
            aliases: vec![("c".to_owned(), "c#2".to_owned())],
        };
        assert_eq!(Snapshot::from_json(&snapshot.to_json()), Some(snapshot));
        assert_eq!(Snapshot::from_json("{}"), Some(Snapshot::default()));
        assert_eq!(Snapshot::from_json("{"), None);
    }
}
