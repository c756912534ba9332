//! What this gateway sends as `agui` and `agui-spec`, read back: a gateway behind a gateway.

use std::path::Path;

use causeway_adapter::json::Json;
use causeway_adapter::turn::Turn;
use causeway_contract::decode::decode_line;
use causeway_contract::event::{Event, EventData, NamespaceOutcome};
use causeway_contract::limits::Limits;
use causeway_encode::{Protocol, Seed};

use crate::support::{Run, options};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/goldens");

/// Name, canonical events as lines, and the established stream of every golden that is no resumed run.
fn goldens() -> Vec<(String, Vec<String>, String)> {
    let mut all = Vec::new();
    let mut files: Vec<_> = std::fs::read_dir(FOLDER).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for file in files.iter().filter(|file| file.extension().is_some_and(|kind| kind == "json")) {
        let bytes = std::fs::read(file).unwrap();
        let golden = Json::parse(&bytes).unwrap();
        if golden.get("resume").is_some_and(|resume| *resume != Json::Null) {
            continue;
        }
        let events = golden.list("canonical_events").iter().map(Json::to_text).collect();
        let sse = golden.str("agui_sse").unwrap().lossy().into_owned();
        let name = Path::new(file).file_stem().unwrap().to_string_lossy().into_owned();
        all.push((name, events, sse));
    }
    assert!(all.len() > 20, "{} goldens", all.len());
    all
}

fn read(name: &str, sse: &str) -> Run {
    let mut run = Run::new("agui", Turn::Start, options());
    for line in sse.split('\n') {
        run.line(line.as_bytes()).unwrap_or_else(|error| panic!("{name}: {line}: {error}"));
    }
    run.close()
}

/// What both formats carry of a run: text by outermost place, calls with how they ended, the end.
#[derive(Debug, Default, Eq, PartialEq)]
struct Gist {
    text: String,
    calls: Vec<String>,
    end: String,
}

fn gist<'a, 'e: 'a>(events: impl Iterator<Item = &'a EventData<'e>>, established: bool) -> Gist {
    let mut gist = Gist::default();
    for data in events {
        match data {
            EventData::TextDelta(piece) => gist.text.push_str(&piece.delta),
            EventData::ToolStarted(call) if !call.tool_call_id.as_str().starts_with("node:") => {
                let mut arguments = String::new();
                Json::parse(call.arguments.as_str().as_bytes()).unwrap().write(&mut arguments);
                let numbers = arguments.contains(|digit: char| digit.is_ascii_digit());
                // The established format prints numbers by its own rules.
                let arguments = if established && numbers { "…".to_owned() } else { arguments };
                gist.calls.push(format!("{} {} {arguments}", call.tool_call_id, call.tool_name));
            }
            EventData::ToolFinished(end) if end.tool_call_id.as_str().starts_with("node:") => {}
            // The established format hides ends that hold the word.
            EventData::ToolFinished(end) if established && says_rejected(&end.result) => {}
            EventData::ToolError(end) if established && says_rejected(&end.message) => {}
            EventData::ToolFinished(end) => {
                let shown: String = end.result.chars().take(1000).collect();
                gist.calls.push(format!("{} = {shown}", end.tool_call_id));
            }
            EventData::ToolError(end) => {
                let shown: String = end.message.chars().take(1000).collect();
                gist.calls.push(format!("{} ! {shown}", end.tool_call_id));
            }
            EventData::RunFinished(_) => gist.end = "finished".to_owned(),
            EventData::RunError(_) => gist.end = "error".to_owned(),
            EventData::RunCancelled(_) => gist.end = "cancelled".to_owned(),
            EventData::InterruptRequested(asked) => gist.end = asked.request.kind().to_owned(),
            _ => {}
        }
    }
    gist
}

fn says_rejected(text: &str) -> bool {
    text.to_ascii_lowercase().contains("rejected")
}

#[test]
fn the_established_format_reads_back_as_the_run_it_came_from() {
    for (name, lines, sse) in goldens() {
        let run = read(&name, &sse);
        let events: Vec<Event<'_>> =
            lines.iter().map(|line| decode_line(line.as_bytes(), &Limits::DEFAULT).unwrap()).collect();
        let mut wanted = gist(events.iter().map(|event| &event.data), true);
        let mut given = gist(run.drafts.iter().map(|draft| &draft.data), true);
        // The format does not tell an error from a result where it is one by its status.
        for line in wanted.calls.iter_mut().chain(&mut given.calls) {
            *line = line.replacen(" ! ", " = ", 1).replacen(" = ERROR: ", " = ", 1);
        }
        if wanted.end == "cancelled" {
            wanted.end = String::new(); // silence: R12
        }
        assert_eq!(given, wanted, "{name}");
    }
}

#[test]
fn todays_format_reads_back_as_the_run_it_came_from() {
    for (name, lines, _) in goldens() {
        let events: Vec<Event<'_>> =
            lines.iter().map(|line| decode_line(line.as_bytes(), &Limits::DEFAULT).unwrap()).collect();
        let mut encoder = Protocol::parse("agui-spec").unwrap().encoder(&Seed::default());
        let mut sse = Vec::new();
        for event in &events {
            encoder.encode(event, &mut sse);
        }
        let run = read(&name, std::str::from_utf8(&sse).unwrap());
        let mut wanted = gist(events.iter().map(|event| &event.data), false);
        let mut given = gist(run.drafts.iter().map(|draft| &draft.data), false);
        // Where a call has no arguments, today's format says so late: the arguments might have followed in pieces.
        wanted.calls.sort();
        given.calls.sort();
        assert_eq!(given, wanted, "{name}");
        let entered = |data: &&EventData<'_>| matches!(data, EventData::NamespaceEntered(_));
        let failed = |data: &&EventData<'_>| matches!(data, EventData::NamespaceExited(exit) if exit.outcome == NamespaceOutcome::Error);
        let count = |of: &dyn Fn(&&EventData<'_>) -> bool| {
            let theirs = events.iter().map(|event| &event.data).filter(|data| of(data)).count();
            (theirs, run.drafts.iter().map(|draft| &draft.data).filter(|data| of(data)).count())
        };
        let (theirs, ours) = count(&entered);
        assert_eq!(ours, theirs, "{name}: namespaces");
        let (theirs, ours) = count(&failed);
        assert_eq!(ours, theirs, "{name}: failed subagents");
    }
}
