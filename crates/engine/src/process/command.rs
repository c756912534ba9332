//! The command of a worker: placeholders filled in so that they are safe as file names, and an environment that holds
//! what it was given and nothing else.
//!
//! Refuses words it does not know: a misspelt `{conversatoin}` would put all conversations into one file.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use tokio::process::Command;

use crate::config::{ProcessConfig, Scope};
use causeway_store::model::Owner;

use crate::harness::Turn;

/// Why a command cannot be right.
#[non_exhaustive]
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Fault {
    /// There is nothing to run.
    #[error("the command is empty")]
    Empty,
    /// No such placeholder.
    #[error(
        "the command holds {{{word}}}, which is no placeholder; there are {{data_dir}}, {{agent}}, {{conversation}}, {{epoch}} and {{run}}"
    )]
    UnknownPlaceholder {
        /// The word in braces.
        word: String,
    },
    /// `{run}` where a worker serves more than one.
    #[error(
        "the command holds {{run}}, but a worker serves all runs of its conversation; set scope = \"run\" or use {{conversation}}"
    )]
    RunOfMany,
    /// `max_workers = 0`.
    #[error("max_workers is 0, so nothing could ever run")]
    NoWorkers,
}

/// Environment variables that a worker inherits.
const INHERITED: [&str; 3] = ["PATH", "HOME", "LANG"];

/// The variable that names the gateway's directory of workers, for [`super::record::reap`].
pub(super) const MARK: &str = "CAUSEWAY_WORKERS";

/// The value of [`MARK`]: the directory's full path, so that two gateways never take each other's workers.
pub(super) fn mark(workers: &Path) -> OsString {
    std::path::absolute(workers).unwrap_or_else(|_| workers.to_path_buf()).into_os_string()
}

/// Checks what can be checked before anything runs.
pub(super) fn check(config: &ProcessConfig) -> Result<(), Fault> {
    if config.command.first().is_none_or(String::is_empty) {
        return Err(Fault::Empty);
    }
    if config.max_workers == 0 {
        return Err(Fault::NoWorkers);
    }
    for word in config.command.iter().flat_map(|argument| words(argument)) {
        match Placeholder::parse(word) {
            None => return Err(Fault::UnknownPlaceholder { word: word.to_owned() }),
            Some(Placeholder::Run) if config.scope == Scope::Conversation => return Err(Fault::RunOfMany),
            Some(_) => {}
        }
    }
    Ok(())
}

/// The command for a turn, without its pipes.
pub(super) fn build(config: &ProcessConfig, data_dir: &Path, agent_id: &str, turn: &Turn) -> Command {
    let fill = |argument: &str| fill(argument, data_dir, agent_id, &Whose::of(turn));
    let mut arguments = config.command.iter();
    let program = fill(arguments.next().map_or("", String::as_str));
    clean(program, arguments.map(|argument| fill(argument)), &config.env, data_dir)
}

/// A command whose environment is empty but for what is inherited by name, what is given, and the mark by which it is found.
pub(crate) fn clean(
    program: impl AsRef<OsStr>,
    arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
    env: &BTreeMap<String, String>,
    data_dir: &Path,
) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).env_clear();
    for name in INHERITED {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command.envs(env);
    // Last, so that nothing configured hides it: a process is known by it even if its gateway died before it was written down.
    command.env(MARK, mark(&workers_dir(data_dir)));
    command
}

/// Where processes are written down, and where workers keep their states if their command says so.
pub(crate) fn workers_dir(data_dir: &Path) -> PathBuf {
    data_dir.join("workers")
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Placeholder {
    DataDir,
    Agent,
    Conversation,
    Epoch,
    Run,
}

impl Placeholder {
    fn parse(word: &str) -> Option<Self> {
        match word {
            "data_dir" => Some(Self::DataDir),
            "agent" => Some(Self::Agent),
            "conversation" => Some(Self::Conversation),
            "epoch" => Some(Self::Epoch),
            "run" => Some(Self::Run),
            _ => None,
        }
    }
}

/// An argument in pieces: texts and the words of its placeholders, in turns. `{` and `}` that enclose anything but a word are text, so
/// JSON may stand in an argument.
fn pieces(argument: &str) -> Vec<(&str, Option<&str>)> {
    let mut pieces = Vec::new();
    let (mut text, mut rest) = (0, 0);
    while let Some(open) = argument.get(rest..).and_then(|tail| tail.find('{')).map(|at| rest + at) {
        let inside = argument.get(open + 1..).unwrap_or_default();
        let word = inside.split('}').next().unwrap_or_default();
        let is_word = !word.is_empty()
            && word.len() < inside.len()
            && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        rest = open + 1;
        if is_word {
            pieces.push((argument.get(text..open).unwrap_or_default(), Some(word)));
            rest += word.len() + 1;
            text = rest;
        }
    }
    pieces.push((argument.get(text..).unwrap_or_default(), None));
    pieces
}

fn words(argument: &str) -> Vec<&str> {
    pieces(argument).into_iter().filter_map(|(_, word)| word).collect()
}

/// Whom a command is filled in for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Whose<'a> {
    pub owner: &'a Owner,
    pub conversation: &'a str,
    pub epoch: u64,
    pub run: &'a str,
}

impl<'a> Whose<'a> {
    fn of(turn: &'a Turn) -> Self {
        let (conversation, run) = (turn.conversation_id.as_str(), turn.run_id.as_str());
        Self { owner: &turn.owner, conversation, epoch: turn.epoch, run }
    }
}

/// What in the directory of workers has its name of a conversation or of a run of it: below that directory, and as far as
/// the part with that name.
pub(super) fn places(config: &ProcessConfig, agent_id: &str, whose: &Whose<'_>) -> Vec<PathBuf> {
    config.command.iter().filter_map(|argument| place(argument, agent_id, whose)).collect()
}

fn place(argument: &str, agent_id: &str, whose: &Whose<'_>) -> Option<PathBuf> {
    const WORKERS: &str = "{data_dir}/workers/";
    let (_, below) = argument.split_once(WORKERS)?;
    let mut place = PathBuf::new();
    for part in below.split('/') {
        let name = fill(part, Path::new(""), agent_id, whose);
        if name.is_empty() || name == "." || name == ".." || words(part).contains(&"data_dir") {
            return None;
        }
        place.push(name);
        if words(part).iter().any(|word| matches!(*word, "conversation" | "run")) {
            return Some(place);
        }
    }
    // It is everybody's.
    None
}

fn fill(argument: &str, data_dir: &Path, agent_id: &str, whose: &Whose<'_>) -> OsString {
    let mut out = OsString::new();
    for (text, word) in pieces(argument) {
        out.push(text);
        match word.and_then(Placeholder::parse) {
            None => {}
            Some(Placeholder::DataDir) => out.push(data_dir),
            Some(Placeholder::Agent) => out.push(file_name(agent_id)),
            Some(Placeholder::Conversation) => {
                out.push(conversation_name(whose.owner, whose.conversation));
            }
            Some(Placeholder::Epoch) => out.push(whose.epoch.to_string()),
            Some(Placeholder::Run) => out.push(file_name(whose.run)),
        }
    }
    out
}

/// The longest a name may become, so that a suffix still fits into the 255 bytes of a file name.
const LONGEST_NAME: usize = 96;

/// An id as a file name: different ids give different names, on file systems that ignore case too; none is `..`, an option or a path.
pub(crate) fn file_name(id: &str) -> String {
    let mut name = String::with_capacity(id.len());
    for (at, byte) in id.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'_' => name.push(char::from(byte)),
            b'-' | b'.' if at > 0 => name.push(char::from(byte)),
            _ => {
                let _ = write!(name, "={byte:02x}"); // writing to a string does not fail
            }
        }
    }
    if name.len() <= LONGEST_NAME {
        return name;
    }
    // "=-" follows from no id above, so a shortened name is never the name of another id.
    name.truncate(LONGEST_NAME - 34);
    name.push_str("=-");
    for byte in Sha256::digest(id.as_bytes()).iter().take(16) {
        let _ = write!(name, "{byte:02x}");
    }
    name
}

/// A conversation as a file name: of different owners too. The one owner of a gateway without authentication is not named.
fn conversation_name(owner: &Owner, conversation: &str) -> String {
    if *owner == Owner::local() {
        return file_name(conversation);
    }
    // "=." stands in no name of a single id.
    let name = format!("{}=.{}", file_name(owner.as_str()), file_name(conversation));
    if name.len() <= LONGEST_NAME {
        return name;
    }
    let mut digest = Sha256::new();
    for id in [owner.as_str(), conversation] {
        digest.update((id.len() as u64).to_le_bytes());
        digest.update(id.as_bytes());
    }
    let mut name = String::from("=-");
    for byte in digest.finalize().iter().take(16) {
        let _ = write!(name, "{byte:02x}");
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::TurnInput;
    use causeway_contract::id::{ConversationId, Name, RunId};

    fn turn(conversation: &str) -> Turn {
        Turn {
            owner: Owner::local(),
            agent_id: Name::new("Helper".to_owned()).unwrap(),
            conversation_id: ConversationId::new(conversation.to_owned()).unwrap(),
            epoch: 3,
            run_id: RunId::new("run-1".to_owned()).unwrap(),
            thread_id: "t".into(),
            base: None,
            input: TurnInput::Resume("null".to_owned()),
            traceparent: None,
            forget: Vec::new(),
            tools: None,
        }
    }

    fn config(command: &[&str], scope: Scope) -> ProcessConfig {
        let mut config = ProcessConfig::new(command.iter().map(|&word| word.to_owned()).collect());
        config.scope = scope;
        config
    }

    #[test]
    fn placeholders_are_filled_in_and_other_braces_are_kept() {
        let turn = turn("a/../b");
        let fill = |argument: &str| fill(argument, Path::new("/d"), "Helper", &Whose::of(&turn));
        assert_eq!(
            fill("{data_dir}/workers/{agent}.{conversation}.{epoch}"),
            "/d/workers/=48elper.a=2f..=2fb.3"
        );
        assert_eq!(fill("--run={run}!"), "--run=run-1!");
        assert_eq!(fill(r#"{"a":{"b":{}}} {run"#), r#"{"a":{"b":{}}} {run"#);
        assert_eq!(fill("{{epoch}}{"), "{3}{");
    }

    #[test]
    fn what_has_its_name_of_a_conversation_is_known() {
        let turn = turn("a/../b");
        let place = |argument: &str| {
            let found = place(argument, "Helper", &Whose::of(&turn))?;
            Some(found.to_string_lossy().into_owned())
        };
        let one = |path: &str| Some(path.to_owned());
        assert_eq!(
            place("{data_dir}/workers/{agent}.{conversation}.{epoch}.db"),
            one("=48elper.a=2f..=2fb.3.db")
        );
        assert_eq!(place("--db={data_dir}/workers/{run}.db"), one("run-1.db"));
        assert_eq!(place("{data_dir}/workers/{agent}/{conversation}/{epoch}.db"), one("=48elper/a=2f..=2fb"));
        for others in [
            "{data_dir}/workers/{agent}.db",
            "{data_dir}/workers/../{conversation}",
            "{data_dir}/workers//{conversation}",
            "{data_dir}/{conversation}.db",
            "/elsewhere/workers/{conversation}.db",
            "{conversation}",
        ] {
            assert_eq!(place(others), None, "{others}");
        }
    }

    #[test]
    fn a_command_that_cannot_be_right_is_refused() {
        let verdict = |command: &[&str], scope| check(&config(command, scope));
        assert_eq!(verdict(&["w", "{conversation}"], Scope::Conversation), Ok(()));
        assert_eq!(verdict(&["w", "{run}"], Scope::Run), Ok(()));
        assert_eq!(verdict(&["w", "{run}"], Scope::Conversation), Err(Fault::RunOfMany));
        assert_eq!(verdict(&[], Scope::Run), Err(Fault::Empty));
        assert_eq!(verdict(&[""], Scope::Run), Err(Fault::Empty));
        let unknown = Fault::UnknownPlaceholder { word: "conversatoin".to_owned() };
        assert_eq!(verdict(&["w", "x{conversatoin}"], Scope::Run), Err(unknown));
        let none = ProcessConfig { max_workers: 0, ..config(&["w"], Scope::Run) };
        assert_eq!(check(&none), Err(Fault::NoWorkers));
    }

    #[test]
    fn different_ids_have_different_names_that_are_safe() {
        let long = "x".repeat(256);
        let longer = format!("{}y", "x".repeat(255));
        let shout = "A".repeat(250);
        let ids = [
            "..",
            ".",
            "-rf",
            "a/b",
            "a=2fb",
            "A",
            "a",
            "=41",
            "\u{e9}",
            "a b",
            "%",
            long.as_str(),
            &longer,
            &shout,
        ];
        let mut names: Vec<_> = ids.iter().map(|id| file_name(id)).collect();
        for name in &names {
            assert!(name.len() <= LONGEST_NAME, "{name}");
            assert!(
                !name.starts_with(['.', '-']) && !name.contains(['/', '%', ' ']) && name.is_ascii(),
                "{name}"
            );
            assert_eq!(*name, name.to_lowercase());
        }
        for owner in ["a", "A", "a=.b", "", &long] {
            names.extend(ids.iter().map(|id| conversation_name(&Owner::new(owner), id)));
        }
        assert!(names.iter().all(|name| name.len() <= LONGEST_NAME && !name.starts_with(['.', '-'])));
        assert_eq!(conversation_name(&Owner::local(), "a"), "a");
        assert_eq!(conversation_name(&Owner::new("eve"), "a"), "eve=.a");
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!((names.len(), count), (ids.len() * 6, ids.len() * 6));
    }
}
