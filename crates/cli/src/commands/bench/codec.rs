//! `causeway bench codec`: the stages in interleaved rounds, so that a busy machine slows all of them alike.
//!
//! What counts is the processor time of the one thread: on a machine that is shared, the clock on the wall measures
//! the others.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

use super::stages::Stage;
use super::workload::{self, Workload};
use crate::exit::Exit;

/// Options of `bench codec`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  causeway bench codec\n  causeway bench codec --rounds 9 workload.jsonl")]
pub struct Args {
    /// Canonical JSONL of legal runs, in sequence or interleaved; without it the workload is made first.
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,

    /// Rounds; each goes through every stage once.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,

    /// About how many events are made.
    #[arg(long, value_name = "N", default_value_t = 200_000, conflicts_with = "file")]
    events: u32,
}

/// Measures and prints.
///
/// # Errors
/// The workload cannot be read or made, or is not a legal stream.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let workload = match &args.file {
        Some(path) => {
            let text = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
            Workload { text, made_by: format!("read from {}", path.display()) }
        }
        None => workload::make(args.events)?,
    };
    let lines: Vec<&[u8]> =
        workload.text.split(|&b| b == b'\n').filter(|line| !line.trim_ascii().is_empty()).collect();
    ensure!(!lines.is_empty(), "the workload holds no events");
    let mut measured: [Measured; Stage::ALL.len()] = Default::default();
    for _ in 0..args.rounds {
        for (stage, measured) in Stage::ALL.into_iter().zip(&mut measured) {
            let (wall, cpu) = (Instant::now(), thread_time());
            measured.written = stage.pass(&lines)?;
            measured.cpu.push(thread_time().saturating_sub(cpu).as_secs_f64());
            measured.wall.push(wall.elapsed().as_secs_f64());
        }
    }
    let bytes: usize = lines.iter().map(|line| line.len() + 1).sum();
    let baseline = measured.first().map_or(0.0, |measured| median(&measured.cpu));
    let stages: Vec<Value> = Stage::ALL
        .into_iter()
        .zip(&measured)
        .map(|(stage, measured)| report(stage, measured, bytes, lines.len(), baseline))
        .collect();
    let report = json!({
        "workload": { "made_by": workload.made_by, "bytes": bytes, "events": lines.len() },
        "method": {
            "threads": 1,
            "rounds": args.rounds,
            "interleaved": true,
            "figures": "medians of the thread's processor time; ratio is the speed compared with serde_json_owned",
            "build": if cfg!(debug_assertions) { "debug: the figures mean nothing" } else { "release" },
        },
        "stages": stages,
    });
    writeln!(std::io::stdout(), "{report:#}")?;
    Ok(Exit::Clean)
}

/// What one stage took, round by round.
#[derive(Debug, Default)]
struct Measured {
    cpu: Vec<f64>,
    wall: Vec<f64>,
    written: usize,
}

/// The processor time of this thread so far.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let nanos = u64::try_from(time.tv_sec).unwrap_or_default().saturating_mul(1_000_000_000);
    Duration::from_nanos(nanos.saturating_add(u64::try_from(time.tv_nsec).unwrap_or_default()))
}

fn report(stage: Stage, measured: &Measured, bytes: usize, events: usize, baseline: f64) -> Value {
    let median_cpu = median(&measured.cpu);
    let rounded = |value: f64, places: f64| (value * places).round() / places;
    json!({
        "name": stage.name(),
        "seconds": rounded(median_cpu, 1e6),
        "mb_per_s": rounded(bytes as f64 / median_cpu / 1e6, 10.0),
        "events_per_s": (events as f64 / median_cpu).round(),
        "ns_per_event": rounded(median_cpu / events as f64 * 1e9, 10.0),
        "ratio": rounded(baseline / median_cpu, 1000.0),
        "bytes_out": measured.written,
        "all_seconds": measured.cpu.iter().map(|&s| rounded(s, 1e6)).collect::<Vec<_>>(),
        "wall_seconds": rounded(median(&measured.wall), 1e6),
    })
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (half, odd) = (sorted.len() / 2, sorted.len() % 2 == 1);
    let at = |place: usize| sorted.get(place).copied().unwrap_or(f64::NAN);
    if odd { at(half) } else { (at(half.wrapping_sub(1)) + at(half)) / 2.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_or_between_the_two_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), 2.5);
    }

    #[test]
    fn every_stage_takes_the_same_events_and_only_encoders_write() {
        let text = workload::generated(3_000);
        let lines: Vec<&[u8]> = text.split(|&b| b == b'\n').filter(|line| !line.is_empty()).collect();
        assert!(lines.len() >= 3_000);
        let written = Stage::ALL.map(|stage| stage.pass(&lines).unwrap());
        let wrote = written.map(|bytes| bytes > 0);
        assert_eq!(wrote, [false, false, false, true, true]);
    }

    #[test]
    fn runs_may_be_interleaved() {
        let text = workload::generated(600);
        let lines: Vec<&[u8]> = text.split(|&b| b == b'\n').filter(|line| !line.is_empty()).collect();
        let (mut first, mut second) = (Vec::new(), Vec::new());
        let run = |line: &&[u8]| serde_json::from_slice::<Value>(line).unwrap()["run_id"].clone();
        for line in &lines {
            if run(line) == run(&lines[0]) { first.push(*line) } else { second.push(*line) }
        }
        let mut mixed = Vec::new();
        for at in 0..first.len().max(second.len()) {
            mixed.extend(first.get(at));
            mixed.extend(second.get(at));
        }
        assert_eq!(Stage::Custom.pass(&mixed).unwrap(), Stage::Custom.pass(&lines).unwrap());
    }

    #[test]
    fn a_workload_that_breaks_a_rule_is_named_and_not_measured() {
        let text = workload::generated(300);
        let mut lines: Vec<&[u8]> = text.split(|&b| b == b'\n').filter(|line| !line.is_empty()).collect();
        lines.swap(3, 4);
        let error = Stage::Validate.pass(&lines).unwrap_err();
        assert_eq!(format!("{error:#}"), "event 4 of the workload: sequence 3 does not follow 4");
    }
}
