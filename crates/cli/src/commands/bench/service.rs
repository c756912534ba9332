//! `causeway bench service`: a gateway of its own under load, and what its clients see of it.
//!
//! Each run plays a made recording at a fixed pace, and one subscriber follows it over HTTP. Added latency is the time from the
//! timestamp that the engine gave an event (when the native line reached the coordinator) to its last byte at the client,
//! on the clock of this one machine. Refuses to judge: it prints figures, and fails only where an event is lost.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail, ensure};
use causeway_contract::decode::decode_line;
use causeway_contract::event::{Event, EventType};
use causeway_contract::limits::Limits;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use self::client::Client;
use crate::exit::Exit;

mod client;

/// Options of `bench service`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  causeway bench service\n  causeway bench service --runs 1000 --events 300"
)]
pub struct Args {
    /// Concurrent runs, each with one subscriber.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=4000))]
    runs: u32,

    /// Events of a run in a second.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rate: u32,

    /// Text events of a run.
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    events: u32,

    /// The store: a file that is synced, or memory.
    #[arg(long, value_name = "KIND", default_value = "sqlite", value_parser = ["sqlite", "memory"])]
    store: String,
}

/// What one subscriber saw.
struct Seen {
    events: u64,
    first_event: Duration,
    added: Vec<Duration>,
}

/// Measures and prints.
///
/// # Errors
/// The gateway does not start, or a run is not delivered whole.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let folder = tempfile::tempdir().context("cannot make a folder for the gateway")?;
    let mut gateway = Gateway::start(folder.path(), args)?;
    let idle = gateway.resident_bytes()?;
    let cpu = gateway.cpu_seconds()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let started = Instant::now();
    let (seen, peak) = runtime.block_on(load(args, &gateway))?;
    let wall = started.elapsed();
    let cpu = gateway.cpu_seconds()? - cpu;
    gateway.stop()?;
    let report = report(args, &seen, &Machine { idle, peak, cpu, wall });
    writeln!(std::io::stdout(), "{report:#}")?;
    Ok(Exit::Clean)
}

/// What the gateway's process used.
struct Machine {
    idle: u64,
    peak: u64,
    cpu: f64,
    wall: Duration,
}

fn report(args: &Args, seen: &[Seen], machine: &Machine) -> Value {
    let events: u64 = seen.iter().map(|seen| seen.events).sum();
    let mut added: Vec<f64> = seen.iter().flat_map(|seen| &seen.added).map(Duration::as_secs_f64).collect();
    let mut first: Vec<f64> = seen.iter().map(|seen| seen.first_event.as_secs_f64()).collect();
    let per_run = machine.peak.saturating_sub(machine.idle) as f64 / f64::from(args.runs) / 1024.0;
    json!({
        "load": { "runs": args.runs, "events_per_second_and_run": args.rate, "store": args.store, "subscribers_per_run": 1 },
        "delivered": { "runs": seen.len(), "events": events, "lost": 0, "wall_seconds": rounded(machine.wall.as_secs_f64()) },
        "added_latency_ms": { "p50": millis(&mut added, 0.50), "p99": millis(&mut added, 0.99), "max": millis(&mut added, 1.0) },
        "first_event_ms": { "p50": millis(&mut first, 0.50), "p99": millis(&mut first, 0.99) },
        "memory": { "idle_mib": rounded(machine.idle as f64 / 1048576.0), "peak_mib": rounded(machine.peak as f64 / 1048576.0), "per_run_kib": rounded(per_run) },
        "cpu": { "seconds": rounded(machine.cpu), "microseconds_per_event": rounded(machine.cpu * 1e6 / events.max(1) as f64) },
        "build": if cfg!(debug_assertions) { "debug: the figures mean nothing" } else { "release" },
    })
}

fn millis(seconds: &mut [f64], quantile: f64) -> f64 {
    seconds.sort_by(f64::total_cmp);
    let last = seconds.len().saturating_sub(1);
    let at = (last as f64 * quantile).round() as usize;
    rounded(seconds.get(at).copied().unwrap_or(f64::NAN) * 1000.0)
}

fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// Starts every run, a millisecond apart, and follows it to its end; also the most memory the gateway held.
async fn load(args: &Args, gateway: &Gateway) -> anyhow::Result<(Vec<Seen>, u64)> {
    let authority: Arc<str> = gateway.authority.as_str().into();
    let expected = Duration::from_secs_f64(f64::from(args.events) / f64::from(args.rate));
    let bound = expected * 5 + Duration::from_secs(60);
    let mut runs = JoinSet::new();
    for number in 0..args.runs {
        let authority = Arc::clone(&authority);
        runs.spawn(async move {
            tokio::time::sleep(Duration::from_millis(u64::from(number))).await;
            let followed = follow(&authority, number);
            tokio::time::timeout(bound, followed)
                .await
                .with_context(|| format!("run {number} took longer than {bound:?}"))?
        });
    }
    let mut seen = Vec::new();
    let mut peak = 0;
    let mut tick = tokio::time::interval(Duration::from_millis(250));
    loop {
        tokio::select! {
            run = runs.join_next() => match run {
                Some(run) => seen.push(run??),
                None => return Ok((seen, peak)),
            },
            _ = tick.tick() => peak = peak.max(gateway.resident_bytes()?),
        }
    }
}

/// Starts one run and reads it to its terminal; every number from 0 comes once.
async fn follow(authority: &str, number: u32) -> anyhow::Result<Seen> {
    let asked = Instant::now();
    let body = json!({ "agent_id": "load", "conversation_id": format!("load-{number}"), "message": "go" });
    let started = Client::connect(authority).await?.post("/api/v1/runs", &body).await?;
    let run_id = started.get("run_id").and_then(Value::as_str).context("the answer names no run")?;
    let mut stream = Client::connect(authority)
        .await?
        .stream(&format!("/api/v1/runs/{run_id}/stream?protocol=canonical"))
        .await?;
    let mut seen = Seen { events: 0, first_event: Duration::ZERO, added: Vec::new() };
    let mut last = None;
    while let Some(line) = stream.data_line().await? {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let event = decode_line(&line, &Limits::DEFAULT).context("a frame holds no canonical event")?;
        if seen.events == 0 {
            seen.first_event = asked.elapsed();
        }
        ensure!(
            event.sequence.value() == seen.events,
            "run {number}: event {} came as number {}",
            event.sequence,
            seen.events
        );
        seen.events += 1;
        seen.added.push(now.saturating_sub(since_epoch(&event)));
        last = Some(event.data.event_type());
    }
    ensure!(last == Some(EventType::RunFinished), "run {number} ended with {last:?}");
    Ok(seen)
}

fn since_epoch(event: &Event<'_>) -> Duration {
    let seconds = u64::try_from(event.timestamp.unix_seconds()).unwrap_or(0);
    let fraction = format!("0.{}", event.timestamp.fraction()).parse().unwrap_or(0.0);
    Duration::from_secs(seconds) + Duration::from_secs_f64(fraction)
}

/// A gateway process with a folder of its own.
struct Gateway {
    process: Child,
    authority: String,
}

impl Gateway {
    fn start(folder: &Path, args: &Args) -> anyhow::Result<Self> {
        let recording = folder.join("load.jsonl");
        fs::write(&recording, native_lines(args.events))?;
        let config = folder.join("causeway.toml");
        let pause = 1_000_000 / args.rate;
        let text = format!(
            "[server]\nlisten = \"127.0.0.1:0\"\n[store]\nkind = \"{}\"\npath = {:?}\n[agents.load]\nharness = \"deepagents\"\n\
             [agents.load.driver.recording]\nfile = {:?}\npace = \"{}ms\"\n",
            args.store,
            folder.join("data"),
            recording,
            (pause / 1000).max(1),
        );
        fs::write(&config, text)?;
        let mut process = Command::new(std::env::current_exe()?)
            .args(["--log-level", "error", "serve", "--config"])
            .arg(&config)
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the gateway")?;
        let out = process.stdout.take().context("the gateway has no stdout")?;
        for line in BufReader::new(out).lines() {
            if let Some((_, authority)) = line?.split_once("http://") {
                let authority = authority.trim_end_matches('/').to_owned();
                return Ok(Self { process, authority });
            }
        }
        let _already_gone = process.kill();
        bail!("the gateway did not say where it listens")
    }

    fn resident_bytes(&self) -> anyhow::Result<u64> {
        let path = format!("/proc/{}/status", self.process.id());
        let status = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("no VmRSS")?;
        let kib: u64 = line.split_whitespace().nth(1).context("no VmRSS")?.parse()?;
        Ok(kib * 1024)
    }

    fn cpu_seconds(&self) -> anyhow::Result<f64> {
        let path = format!("/proc/{}/stat", self.process.id());
        let stat = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        let (_, fields) = stat.rsplit_once(')').context("no process name")?;
        let ticks: f64 =
            fields.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum();
        // Linux reports these times in 1/100 s on every architecture.
        Ok(ticks / 100.0)
    }

    fn stop(&mut self) -> anyhow::Result<()> {
        self.process.kill().context("cannot end the gateway")?;
        self.process.wait()?;
        Ok(())
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _already_gone = self.process.kill();
    }
}

/// A native deepagents stream of `events` pieces of text.
fn native_lines(events: u32) -> String {
    let mut lines = String::from(
        "{\"kind\":\"hello\",\"harness\":\"deepagents\",\"versions\":{}}\n{\"kind\":\"begin\",\"thread_id\":\"t\",\"op\":\"run\"}\n",
    );
    for number in 0..events {
        let chunk = json!({ "kind": "chunk", "ns": [], "mode": "messages", "data": [
            { "type": "AIMessageChunk", "id": "m1", "content": format!("word {number:06} ") },
            { "langgraph_node": "model" },
        ] });
        lines.push_str(&format!("{chunk}\n"));
    }
    lines.push_str("{\"kind\":\"end\",\"state\":{\"head\":\"t:1\",\"interrupts\":[]}}\n");
    lines
}
