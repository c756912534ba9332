//! Every recording of every folder, cut and damaged: nothing panics, every run is legal and has one terminal, and no cut
//! stream claims to have finished what the whole one did not.
//!
//! The whole way, through adapter, coordinator and store; what each adapter must do in detail is held by its own tests.

#![cfg(test)]

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use causeway_contract::event::{Event, EventData};

use super::figures::{Recording, recordings};
use crate::commands::conform::recording::legal;

fn finished(runs: &[Vec<Event<'static>>]) -> usize {
    let ends = runs.iter().filter_map(|run| run.last());
    ends.filter(|event| matches!(event.data, EventData::RunFinished(_))).count()
}

fn play(recording: &Recording, bytes: &[u8], how: &str) -> usize {
    match legal(recording.harness, bytes, &recording.sidecar) {
        Ok(runs) => finished(&runs),
        Err(stop) => panic!("{}: {how}: {stop:?}", recording.name),
    }
}

/// A small generator of our own: the same places each time.
fn places(count: usize, below: usize) -> impl Iterator<Item = usize> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    (0..count).map(move |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % (below.max(1) as u64)).unwrap()
    })
}

fn damage(recording: &Recording) {
    let whole = play(recording, &recording.bytes, "whole");
    let lines: Vec<&[u8]> = recording.bytes.split_inclusive(|byte| *byte == b'\n').collect();
    let ends = lines.iter().scan(0, |at, line| {
        *at += line.len();
        Some(*at)
    });
    for at in ends.chain(places(200, recording.bytes.len())) {
        let part = play(recording, &recording.bytes[..at], &format!("cut at {at}"));
        assert!(part <= whole, "{}: cut at {at}, {part} runs finish, of {whole}", recording.name);
    }
    for at in 0..lines.len() {
        let mut doubled = lines.clone();
        doubled.insert(at, lines[at]);
        play(recording, &doubled.concat(), &format!("line {at} doubled"));
        let mut swapped = lines.clone();
        swapped.swap(at, (at + 1) % lines.len());
        play(recording, &swapped.concat(), &format!("line {at} swapped with the next"));
        let mut garbage = lines.clone();
        garbage[at] = [&b"\xff{\"kind\":[null,\n"[..], b"{\"kind\":{}}\n", b"[[[[\n"][at % 3];
        play(recording, &garbage.concat(), &format!("line {at} replaced by garbage"));
    }
}

/// The recordings, and beside them the raw streams that some were decoded from.
fn all() -> Vec<Recording> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/recordings");
    let mut all = recordings(&directory).unwrap();
    let mut raw = Vec::new();
    for recording in &all {
        let path = directory.join(&recording.name);
        let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
        for entry in std::fs::read_dir(path.parent().unwrap()).unwrap() {
            let file = entry.unwrap().path();
            let name = file.file_name().unwrap().to_str().unwrap().to_owned();
            if name.starts_with(&format!("{stem}.")) && (name.ends_with(".bin") || name.ends_with(".sse")) {
                let (harness, bytes) = (recording.harness, std::fs::read(&file).unwrap());
                raw.push(Recording { harness, name, bytes, sidecar: Vec::new() });
            }
        }
    }
    assert!(raw.len() >= 15, "{}", raw.len());
    all.extend(raw);
    all
}

#[test]
fn every_recording_cut_anywhere_or_damaged_leaves_legal_runs_with_one_terminal() {
    let all = all();
    let next = AtomicUsize::new(0);
    let broken = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while let Some(recording) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let damaged = std::panic::catch_unwind(|| damage(recording));
                    if let Err(panic) = damaged {
                        let why = panic.downcast_ref::<String>().cloned().unwrap_or_default();
                        broken.lock().unwrap().push(format!("{}: {why}", recording.name));
                    }
                }
            });
        }
    });
    assert_eq!(broken.into_inner().unwrap(), [] as [String; 0]);
}
