//! What to say to a worker to see it do something: a small vocabulary, each word of which a scenario file may map to a message
//! that the worker understands.
//!
//! Refuses words it does not know. Without a file every word stands for the message `kit:WORD`, and what then does not come is
//! skipped; what a file promises has to come.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, bail};

use super::report::{Stop, fail, skip};

/// The vocabulary.
pub const WORDS: &[(&str, &str)] = &[
    ("text", "answer in words"),
    ("reasoning", "think aloud first"),
    ("tool", "call a tool that succeeds"),
    ("tool_error", "call a tool that fails"),
    ("subagent", "hand a task to a subagent"),
    ("approval", "ask a person about one call, then go on"),
    ("form", "ask a person to fill in a form, then go on"),
    ("slow", "say something, then work for at least 15 seconds"),
    ("remember", "keep the message in the conversation: {word} stands in it"),
    ("recall", "say the messages of the conversation so far"),
    ("error", "fail"),
    ("secret", "fail with an error whose text holds {word}"),
    ("large", "call a tool whose result is larger than 64 KiB"),
    ("gated", "ask the gateway for a tool, one of `tools`"),
];

/// What to say.
#[derive(Debug, Default)]
pub struct Scenario {
    /// The harness that the file names.
    pub harness: Option<String>,
    /// The tools that the worker asks the gateway for.
    pub tools: Vec<String>,
    /// By word; `None` where there is no file.
    says: Option<BTreeMap<String, String>>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    harness: Option<String>,
    #[serde(default)]
    tools: Vec<String>,
    #[serde(default)]
    say: BTreeMap<String, String>,
}

impl Scenario {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or holds a word that is not of the vocabulary.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("{}", path.display()))
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let File { harness, tools, say } = toml::from_str(text)?;
        for word in say.keys() {
            if !WORDS.iter().any(|(known, _)| known == word) {
                let known: Vec<&str> = WORDS.iter().map(|(known, _)| *known).collect();
                bail!("`{word}` is no word of the vocabulary; there are {}", known.join(", "));
            }
        }
        Ok(Self { harness, tools, says: Some(say) })
    }

    /// The message for a word; `mark` takes the place of `{word}`.
    ///
    /// # Errors
    /// The worker does not offer it.
    pub fn say(&self, word: &str, mark: &str) -> Result<String, Stop> {
        let message = match &self.says {
            None => format!("kit:{word} {{word}}"),
            Some(says) => match says.get(word) {
                Some(message) => message.clone(),
                None => return skip(format!("the scenario has no `{word}`")),
            },
        };
        Ok(message.replace("{word}", mark).trim_end().to_owned())
    }

    /// Whether something came that this word asks for: not coming is a failure only where it was promised.
    ///
    /// # Errors
    /// It did not.
    pub fn came(&self, word: &str, came: bool, what: &str) -> Result<(), Stop> {
        match (came, &self.says) {
            (true, _) => Ok(()),
            (false, Some(_)) => fail(format!("the scenario's `{word}` brought no {what}")),
            (false, None) => {
                skip(format!("the message `kit:{word}` brought no {what}; map it with --scenario"))
            }
        }
    }
}

/// A word that nothing else contains.
pub fn mark() -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    format!("mark{:03}x{:05}", NEXT.fetch_add(1, Ordering::Relaxed), std::process::id() % 100_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_what_is_offered_and_how_to_ask_for_it() {
        let file = "harness = \"mine\"\n[say]\ntool = \"what is the weather?\"\nremember = \"keep {word}, {word}\"\n";
        let scenario = Scenario::parse(file).unwrap();
        assert_eq!(scenario.say("tool", "m"), Ok("what is the weather?".to_owned()));
        assert_eq!(scenario.say("remember", "m"), Ok("keep m, m".to_owned()));
        assert_eq!(scenario.say("form", "m"), skip("the scenario has no `form`"));
        assert!(matches!(scenario.came("tool", false, "call"), Err(Stop::Fail(..))));
        assert!(Scenario::parse("[say]\ntools = \"x\"\n").unwrap_err().to_string().contains("`tools`"));
    }

    #[test]
    fn without_a_file_the_vocabulary_itself_is_said() {
        let scenario = Scenario::default();
        assert_eq!(scenario.say("remember", "m"), Ok("kit:remember m".to_owned()));
        assert!(matches!(scenario.came("tool", false, "call"), Err(Stop::Skip(_))));
    }
}
