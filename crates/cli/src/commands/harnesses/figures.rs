//! What recordings show of each harness, counted: the table of docs/harnesses.md.
//!
//! Refuses to count what is not committed: every recording goes through adapter, coordinator and store.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, bail};
use causeway_adapter::registry::{self, HARNESSES, Harness};
use causeway_contract::decode::decode_line;
use causeway_contract::event::{Event, EventData};
use causeway_contract::limits::Limits;
use serde_json::Value;

use crate::commands::adapt::captured;

/// A recording that an index names.
pub struct Recording {
    /// Its harness.
    pub harness: &'static Harness,
    /// `FOLDER/FILE`.
    pub name: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// What was sent to the harness.
    pub sidecar: Vec<u8>,
}

/// All recordings of a directory of folders with an `index.json` each; `harnesses.json` beside them gives the names that
/// the registry does not know.
///
/// # Errors
/// A file cannot be read, or an index names a harness that has no adapter.
pub fn recordings(directory: &Path) -> anyhow::Result<Vec<Recording>> {
    let json = |path: &Path| -> anyhow::Result<Value> {
        let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        serde_json::from_slice(&bytes).with_context(|| format!("cannot read {}", path.display()))
    };
    let names = json(&directory.join("harnesses.json"))?;
    let mut folders: Vec<_> = std::fs::read_dir(directory)
        .with_context(|| format!("cannot read {}", directory.display()))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join("index.json").is_file())
        .collect();
    folders.sort();
    let mut all = Vec::new();
    for folder in folders {
        let index = json(&folder.join("index.json"))?;
        for entry in index.as_array().context("an index is a list")? {
            let native = entry["harness"].as_str().unwrap_or_default();
            let name = names[native].as_str().unwrap_or(native);
            let Some(harness) = registry::find(name) else {
                bail!("{}: no adapter for `{native}`", folder.display());
            };
            let file = entry["file"].as_str().context("an entry of an index names no file")?;
            let path = folder.join(file);
            all.push(Recording {
                harness,
                name: format!("{}/{file}", folder.file_name().unwrap_or_default().to_string_lossy()),
                bytes: std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?,
                sidecar: std::fs::read(path.with_extension("stdin.jsonl")).unwrap_or_default(),
            });
        }
    }
    Ok(all)
}

/// The runs of a stream.
///
/// # Errors
/// It cannot be played.
pub fn runs(recording: &Recording, stream_arguments: bool) -> anyhow::Result<Vec<Vec<Event<'static>>>> {
    let lines = captured(recording.harness, &recording.bytes, &recording.sidecar, stream_arguments)?;
    let mut runs: Vec<Vec<Event<'static>>> = Vec::new();
    for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let event = decode_line(line, &Limits::DEFAULT)
            .with_context(|| format!("{}: an event that is none", recording.name))?;
        let event = event.into_owned();
        match runs.last_mut().filter(|run| run.first().is_some_and(|first| first.run_id == event.run_id)) {
            Some(run) => run.push(event),
            None => runs.push(vec![event]),
        }
    }
    Ok(runs)
}

/// Counts of one harness.
#[derive(Default)]
struct Figures {
    recordings: usize,
    runs: usize,
    events: usize,
    text: usize,
    reasoning: usize,
    calls: usize,
    results: usize,
    failures: usize,
    interrupts: usize,
    subagents: usize,
    finished: usize,
    interrupted: usize,
    cancelled: usize,
    errors: usize,
    totals: usize,
}

impl Figures {
    fn count(&mut self, runs: &[Vec<Event<'static>>]) {
        self.recordings += 1;
        self.runs += runs.len();
        for run in runs {
            self.events += run.len();
            self.totals +=
                usize::from(run.iter().any(|event| matches!(event.data, EventData::UsageUpdated(_))));
            for event in run {
                match &event.data {
                    EventData::TextDelta(delta) => self.text += delta.delta.len(),
                    EventData::ReasoningDelta(delta) => self.reasoning += delta.delta.len(),
                    EventData::ToolStarted(_) => self.calls += 1,
                    EventData::ToolFinished(_) => self.results += 1,
                    EventData::ToolError(_) => self.failures += 1,
                    EventData::InterruptRequested(_) => self.interrupts += 1,
                    EventData::NamespaceEntered(_) => self.subagents += 1,
                    EventData::RunFinished(_) => self.finished += 1,
                    EventData::RunInterrupted(_) => self.interrupted += 1,
                    EventData::RunCancelled(_) => self.cancelled += 1,
                    EventData::RunError(_) => self.errors += 1,
                    EventData::RunStarted(_)
                    | EventData::TextStarted(_)
                    | EventData::TextFinished(_)
                    | EventData::ReasoningStarted(_)
                    | EventData::ReasoningFinished(_)
                    | EventData::ToolArgumentsDelta(_)
                    | EventData::NamespaceExited(_)
                    | EventData::Warning(_)
                    | EventData::UsageUpdated(_)
                    | EventData::ProviderMetadata(_) => {}
                }
            }
        }
    }
}

/// The table, in Markdown.
///
/// # Errors
/// As [`recordings`] and [`runs`].
pub fn table(directory: &Path) -> anyhow::Result<String> {
    let mut all: BTreeMap<&str, Figures> = BTreeMap::new();
    for recording in recordings(directory)? {
        all.entry(recording.harness.id).or_default().count(&runs(&recording, false)?);
    }
    let mut out = String::from(
        "| harness | recordings | runs | events | text bytes | reasoning bytes | calls | results | tool errors | interrupts | \
         subagents | finished | interrupted | cancelled | errors | runs with token totals |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for harness in HARNESSES {
        let Some(counts) = all.get(harness.id) else { continue };
        let Figures { recordings, runs, events, text, reasoning, calls, results, failures, .. } = counts;
        let Figures { interrupts, subagents, finished, interrupted, cancelled, errors, totals, .. } = counts;
        out.push_str(&format!(
            "| `{}` | {recordings} | {runs} | {events} | {text} | {reasoning} | {calls} | {results} | {failures} | {interrupts} \
             | {subagents} | {finished} | {interrupted} | {cancelled} | {errors} | {totals} |\n",
            harness.id
        ));
    }
    Ok(out)
}

/// The capabilities of every harness with the recordings that show them, in Markdown.
pub fn capabilities() -> String {
    let mut out = String::new();
    for harness in HARNESSES {
        out.push_str(&format!(
            "### {} (`{}`)\n\n| capability | | how | shown by |\n|---|---|---|---|\n",
            harness.title, harness.id
        ));
        for can in harness.capabilities {
            let proof = can
                .proof
                .map_or_else(String::new, |proof| format!("[{proof}](../tests/data/recordings/{proof})"));
            out.push_str(&format!("| {} | {} | {} | {proof} |\n", can.name, can.level.as_str(), can.note));
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::PathBuf;

    use causeway_adapter::registry::Level;
    use causeway_contract::event::InterruptRequest;

    use super::*;

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
    }

    fn directory() -> PathBuf {
        root().join("tests/data/recordings")
    }

    /// The capabilities that runs show.
    fn shown(runs: &[Vec<Event<'static>>]) -> BTreeSet<&'static str> {
        let mut shown = BTreeSet::new();
        let mut before: Option<&Vec<Event<'static>>> = None;
        for run in runs {
            for event in run {
                match &event.data {
                    EventData::TextDelta(_) => shown.extend(["text"]),
                    EventData::ReasoningDelta(_) => shown.extend(["reasoning"]),
                    EventData::ToolStarted(_) => shown.extend(["tools"]),
                    EventData::ToolArgumentsDelta(_) => shown.extend(["tool_arguments_stream"]),
                    EventData::NamespaceEntered(_) => shown.extend(["subagents"]),
                    EventData::InterruptRequested(asked) => match asked.request {
                        InterruptRequest::Approvals(_) => shown.extend(["tool_approval"]),
                        InterruptRequest::Form { .. } => shown.extend(["form_input"]),
                    },
                    EventData::RunCancelled(_) => shown.extend(["cancel"]),
                    EventData::UsageUpdated(usage) => {
                        shown.extend(["usage"]);
                        shown.extend(usage.cost.as_ref().map(|_| "cost"));
                    }
                    EventData::RunStarted(_)
                    | EventData::RunFinished(_)
                    | EventData::RunInterrupted(_)
                    | EventData::RunError(_)
                    | EventData::TextStarted(_)
                    | EventData::TextFinished(_)
                    | EventData::ReasoningStarted(_)
                    | EventData::ReasoningFinished(_)
                    | EventData::ToolFinished(_)
                    | EventData::ToolError(_)
                    | EventData::NamespaceExited(_)
                    | EventData::Warning(_)
                    | EventData::ProviderMetadata(_) => {}
                }
            }
            // A run that goes on where another one of the conversation stopped.
            if let Some(last) = before.and_then(|run| run.last())
                && run.last().is_some_and(|end| matches!(end.data, EventData::RunFinished(_)))
                && run.first().is_some_and(|first| first.conversation_id == last.conversation_id)
            {
                match &last.data {
                    EventData::RunInterrupted(_) => shown.extend(["resume", "restore"]),
                    EventData::RunFinished(_) => shown.extend(["restore"]),
                    _ended => {}
                }
            }
            before = Some(run);
        }
        shown
    }

    /// What no recording shows: closing a connection leaves no trace in a stream; and reasoning where no stream of the harness
    /// that holds some was recorded (unit tests of the adapters have made-up ones).
    const UNSHOWN: &[(&str, &str)] = &[
        ("anthropic-messages", "cancel"),
        ("bedrock-converse", "cancel"),
        ("agentcore", "cancel"),
        ("openai-responses", "cancel"),
        ("openai-chat", "cancel"),
        ("agui", "cancel"),
        ("agui", "restore"),
        ("bedrock-converse", "reasoning"),
        ("openai-agents", "reasoning"),
    ];

    #[test]
    fn the_recording_named_for_a_capability_shows_it() {
        let all = recordings(&directory()).unwrap();
        let seen: BTreeMap<&str, BTreeSet<&str>> = all
            .iter()
            .map(|recording| {
                let mut kinds = shown(&runs(recording, false).unwrap());
                kinds.extend(shown(&runs(recording, true).unwrap()));
                (recording.name.as_str(), kinds)
            })
            .collect();
        let mut wrong = Vec::new();
        for harness in HARNESSES {
            for can in harness.capabilities {
                let does = matches!(can.level, Level::Native | Level::Emulated);
                let unshown = UNSHOWN.contains(&(harness.id, can.name));
                let found: Vec<&str> = all
                    .iter()
                    .filter(|one| one.harness.id == harness.id && seen[one.name.as_str()].contains(can.name))
                    .map(|one| one.name.as_str())
                    .collect();
                match can.proof {
                    Some(proof) if !does || !found.contains(&proof) => {
                        wrong.push(format!(
                            "{}: {}: {proof} does not show it; these do: {found:?}",
                            harness.id, can.name
                        ));
                    }
                    None if does && !unshown => {
                        wrong.push(format!(
                            "{}: {}: no recording is named; these show it: {found:?}",
                            harness.id, can.name
                        ));
                    }
                    Some(_) | None => {}
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn the_page_of_harnesses_is_what_the_command_prints() {
        let page = std::fs::read_to_string(root().join("docs/harnesses.md")).unwrap();
        let table = table(&directory()).unwrap();
        assert!(
            page.contains(&table) && page.contains(capabilities().trim_end()),
            "docs/harnesses.md is old; put this there (causeway harnesses --figures tests/data/recordings):\n{table}\n{}",
            capabilities()
        );
    }

    #[test]
    fn what_an_adapter_drops_stands_in_the_page_in_its_own_words() {
        let words = |text: &str| {
            text.split_whitespace().collect::<Vec<_>>().join(" ").replace("[`", "`").replace("`]", "`")
        };
        let page = words(&std::fs::read_to_string(root().join("docs/harnesses.md")).unwrap());
        let sources = root().join("crates/adapter/src");
        let mut checked = 0;
        for harness in HARNESSES {
            let name = harness.id.replace('-', "_");
            let short = harness.id.rsplit('-').next().unwrap();
            let files = [
                sources.join(format!("{name}/mod.rs")),
                sources.join(format!("{}/{short}.rs", harness.id.split('-').next().unwrap())),
            ];
            let source = files.iter().find_map(|file| std::fs::read_to_string(file).ok()).unwrap();
            let lines: Vec<&str> =
                source.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim).collect();
            let from = lines.iter().position(|line| line.starts_with("Deliberately dropped:")).unwrap();
            let paragraph: Vec<&str> =
                lines[from..].iter().take_while(|line| !line.is_empty()).copied().collect();
            let dropped = words(&paragraph.join(" "));
            let dropped = dropped.strip_prefix("Deliberately dropped: ").unwrap();
            assert!(page.contains(dropped), "docs/harnesses.md: {}: {dropped}", harness.id);
            checked += 1;
        }
        assert_eq!(checked, HARNESSES.len());
    }
}
