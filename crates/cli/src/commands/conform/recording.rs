//! A recorded native stream, held against the contract: whole, and cut and damaged in every way that costs little.
//!
//! Refuses what a live subject would have to show (cancel, heads, a later process): those checks are for workers.

use causeway_adapter::registry::Harness;
use causeway_contract::decode::decode_line;
use causeway_contract::event::{Event, EventData};
use causeway_contract::limits::Limits;
use causeway_lifecycle::{Boundary, Thread, Validator};

use super::report::{Check, Report, Stop, broke, check, fail, skip};
use crate::commands::adapt::captured;

const LEGAL: Check = check("recording.legal", "R12", "every run of it is legal, with one terminal");
const CLAIMS: Check = check("recording.claims", "R12", "no run that was cut claims to have finished");
const DAMAGED: Check = check(
    "recording.damaged",
    "R12",
    "lines cut, doubled, swapped or replaced leave legal runs with one terminal",
);
const KINDS: Check = check("recording.content", "R05", "it shows text, calls, or an error");

/// Holds a recording against the contract.
pub fn check_all(harness: &'static Harness, bytes: &[u8], sidecar: &[u8], report: &mut Report) {
    report.check(LEGAL, || {
        let runs = legal(harness, bytes, sidecar)?;
        if runs.is_empty() { fail("there is no run in it") } else { Ok(()) }
    });
    report.check(KINDS, || {
        let runs = legal(harness, bytes, sidecar)?;
        let shows = runs.iter().flatten().any(|event| {
            matches!(event.data, EventData::TextDelta(_) | EventData::ToolStarted(_) | EventData::RunError(_))
        });
        if shows { Ok(()) } else { fail("its runs are empty") }
    });
    report.check(CLAIMS, || {
        let whole = finished(&legal(harness, bytes, sidecar)?);
        if whole == 0 {
            return skip("no run of it finished");
        }
        for cut in cuts(bytes) {
            let part = finished(&legal(harness, bytes.get(..cut).unwrap_or_default(), sidecar)?);
            if part > whole {
                return fail(format!("cut after {cut} bytes, {part} runs finish, of {whole}"));
            }
        }
        Ok(())
    });
    report.check(DAMAGED, || {
        for damaged in damage(bytes) {
            legal(harness, &damaged, sidecar)?;
        }
        Ok(())
    });
}

fn finished(runs: &[Vec<Event<'static>>]) -> usize {
    let ended = runs.iter().filter_map(|run| run.last());
    ended.filter(|event| matches!(event.data, EventData::RunFinished(_))).count()
}

/// The runs of a stream, through adapter, coordinator and a store in memory.
///
/// # Errors
/// One of them breaks a rule, or has no terminal.
pub fn legal(
    harness: &'static Harness,
    bytes: &[u8],
    sidecar: &[u8],
) -> Result<Vec<Vec<Event<'static>>>, Stop> {
    let lines = match captured(harness, bytes, sidecar, false) {
        Ok(lines) => lines,
        Err(error) => return fail(format!("it cannot be played: {error:#}")),
    };
    let mut runs: Vec<Vec<Event<'static>>> = Vec::new();
    for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let event = match decode_line(line, &Limits::DEFAULT) {
            Ok(event) => event.into_owned(),
            Err(error) => return broke(error.check().as_str(), error.to_string()),
        };
        match runs.last_mut() {
            Some(run) if run.first().is_some_and(|first| first.run_id == event.run_id) => run.push(event),
            Some(_) | None => runs.push(vec![event]),
        }
    }
    for run in &runs {
        let mut validator = Validator::new(Boundary::Commit, Thread::Durable, Limits::DEFAULT).offline();
        for event in run {
            let mut line = Vec::new();
            event.write_json(&mut line);
            if let Err(violation) = validator.accept(event, line.len()) {
                return broke(violation.rule().to_string(), violation.to_string());
            }
        }
        if let Err(violation) = validator.finish() {
            return broke(violation.rule().to_string(), violation.to_string());
        }
    }
    Ok(runs)
}

/// Where a stream is cut: behind and within up to 40 of its lines.
fn cuts(bytes: &[u8]) -> Vec<usize> {
    let ends: Vec<usize> =
        bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1).collect();
    let step = ends.len() / 20 + 1;
    ends.iter().step_by(step).flat_map(|end| [*end, end.saturating_sub(7)]).collect()
}

/// A stream damaged in up to 60 ways.
fn damage(bytes: &[u8]) -> Vec<Vec<u8>> {
    let lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    let step = lines.len() / 15 + 1;
    let mut all = Vec::new();
    for at in (0..lines.len()).step_by(step) {
        let Some(line) = lines.get(at) else { continue };
        let mut doubled = lines.clone();
        doubled.insert(at, line);
        let mut swapped = lines.clone();
        if at > 0 {
            swapped.swap(at, at - 1);
        }
        let mut gone = lines.clone();
        gone.remove(at);
        let mut garbage = lines.clone();
        if let Some(place) = garbage.get_mut(at) {
            *place = b"\xff{\"kind\":[null,";
        }
        all.extend([doubled, swapped, gone, garbage].map(|lines| lines.join(&b'\n')));
    }
    all
}
