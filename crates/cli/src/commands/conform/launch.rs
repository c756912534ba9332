//! Starting a worker as the gateway does: the same placeholders, the same empty environment, a process group of its own.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};

use super::raw::Raw;
use super::report::{Stop, broke};

/// How a worker is started, and how long it is waited for.
#[derive(Clone, Debug)]
pub struct Launch {
    /// Program and arguments, with placeholders.
    pub words: Vec<String>,
    /// What its environment holds besides what it inherits.
    pub env: BTreeMap<String, String>,
    /// `{data_dir}`.
    pub directory: PathBuf,
    /// For each answer.
    pub timeout: Duration,
    /// For leaving a turn, and for leaving.
    pub grace: Duration,
}

/// What a worker says of itself.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Hello {
    /// Its harness.
    pub harness: String,
    /// Whether it can start from an earlier state.
    pub restore: bool,
    /// Whether it takes `forget`.
    pub forget: bool,
    /// Whether it asks for tools.
    pub tools: bool,
}

impl Launch {
    /// # Errors
    /// The command is empty, or its quotes are not closed.
    pub fn new(
        command: &str,
        env: BTreeMap<String, String>,
        directory: &Path,
        timeout: Duration,
        grace: Duration,
    ) -> anyhow::Result<Self> {
        let words = split(command)?;
        if words.is_empty() {
            bail!("--command is empty");
        }
        let directory = directory.to_path_buf();
        Ok(Self { words, env, directory, timeout, grace })
    }

    /// Starts a worker only to hear its first line; it may not be one that a check can be made with.
    ///
    /// # Errors
    /// The command cannot be run at all.
    pub fn hello(&self) -> anyhow::Result<Hello> {
        let found = self.spawn("hello").with_context(|| format!("cannot run {}", self.words.join(" ")))?;
        let started = Raw::start(found, self);
        // What is wrong with it is the first check's to say.
        Ok(started.map_or(
            Hello { harness: "canonical".to_owned(), restore: true, forget: false, tools: false },
            |raw| raw.hello.clone(),
        ))
    }

    /// Starts a worker for a conversation and hears its `hello`.
    ///
    /// # Errors
    /// It does not say a valid one in time.
    pub fn start(&self, conversation: &str) -> Result<Raw, Stop> {
        match self.spawn(conversation) {
            Ok(child) => Raw::start(child, self),
            Err(error) => broke("W0", format!("the worker cannot be started: {}", error.kind())),
        }
    }

    fn spawn(&self, conversation: &str) -> std::io::Result<Child> {
        let fill = |word: &String| {
            word.replace("{data_dir}", &self.directory.to_string_lossy())
                .replace("{agent}", "conform")
                .replace("{conversation}", &format!("raw-{conversation}"))
                .replace("{epoch}", "0")
                .replace("{run}", conversation)
        };
        let mut words = self.words.iter().map(fill);
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).env_clear();
        for name in ["PATH", "HOME", "LANG"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command.envs(&self.env).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()
    }
}

/// The words of a command line: blanks part them, quotes of either kind hold them together, a backslash takes the next
/// character as it is. No shell is asked.
fn split(line: &str) -> anyhow::Result<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            ('\\', None | Some('"')) => word.get_or_insert_default().extend(chars.next()),
            ('"' | '\'', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (c, None) if c.is_whitespace() => words.extend(word.take()),
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        bail!("a quote of --command is not closed");
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_is_cut_into_words_without_a_shell() {
        assert_eq!(split(r#"a  'b c' "d \" e"f g\ h ''"#).unwrap(), ["a", "b c", "d \" ef", "g h", ""]);
        assert_eq!(split("  ").unwrap(), Vec::<String>::new());
        assert!(split("a 'b").is_err());
    }
}
