//! SIGKILL at random moments: what was acknowledged is there once, every run has one terminal, every `run.finished` its head.
//!
//! `CAUSEWAY_KILL_ROUNDS` sets how often (20), `CAUSEWAY_KILL_SEED` repeats a sequence of moments.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use causeway_encode::Protocol;
use serde_json::Value;

use crate::gateway::{Gateway, recorded_agents};
use crate::http::{Client, frames};
use crate::runs::{self, check_whole, ended, offline, say, stored, try_create};

/// What a client had received when its gateway was killed.
struct Seen {
    run_id: String,
    protocol: Protocol,
    body: String,
}

/// How a gateway is tormented.
pub struct Torment<'a> {
    /// The settings of every gateway.
    pub settings: &'a str,
    /// An agent whose runs take a while.
    pub agent: &'a str,
    /// What it is asked, in turn.
    pub messages: &'a [&'a str],
    /// Gateways that are killed.
    pub rounds: u32,
    /// The longest a gateway lives under load.
    pub longest: Duration,
}

/// How long the first output of a run may take before the gateway is killed all the same.
const FIRST_OUTPUT: Duration = Duration::from_secs(20);

/// How many rounds the environment asks for.
pub fn rounds(default: u32) -> u32 {
    std::env::var("CAUSEWAY_KILL_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Kills gateways on `dir` and checks what the next one finds; `at_start` looks at each fresh one before it is used.
pub fn torment(dir: &Path, how: &Torment<'_>, mut at_start: impl FnMut(&Gateway)) {
    let mut random = Random::seeded();
    let mut gateway = Gateway::start(dir, how.settings);
    let mut all: Vec<String> = Vec::new();
    let (mut cut, mut finished, mut shown) = (0, 0, 0);
    for round in 0..how.rounds {
        let client = gateway.client;
        let outputs = Arc::new(AtomicUsize::new(0));
        let mut readers = Vec::new();
        // One conversation goes through all rounds, the others are new; every format is followed.
        for (n, protocol) in [Protocol::Canonical, Protocol::Custom, Protocol::Agui].into_iter().enumerate() {
            let conversation = if n == 0 { "through".to_owned() } else { format!("c{round}-{n}") };
            let message = how.messages[(round as usize + n) % how.messages.len()].to_owned();
            let (agent, outputs) = (how.agent.to_owned(), Arc::clone(&outputs));
            readers.push(std::thread::spawn(move || {
                follow(&client, &agent, &conversation, &message, protocol, &outputs)
            }));
        }
        // Most gateways die somewhere behind the first output, some before it: a worker takes its time to start.
        if round % 4 != 0 {
            let until = Instant::now() + FIRST_OUTPUT;
            while outputs.load(Ordering::Relaxed) == 0 && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        std::thread::sleep(how.longest.mul_f64(random.fraction()));
        gateway.kill();
        let seen: Vec<Seen> = readers.into_iter().filter_map(|reader| reader.join().unwrap()).collect();

        gateway = Gateway::start(dir, how.settings);
        at_start(&gateway);
        for Seen { run_id, protocol, body } in seen {
            let run = runs::show(&gateway.client, &run_id);
            assert_ne!(run["status"], "running", "round {round}: recovery left {run_id} without a terminal");
            let events = stored(&gateway.client, &run_id);
            check_whole(&events);
            let whole = match protocol {
                Protocol::Canonical | Protocol::AguiSpec | Protocol::UiMessage => {
                    runs::offline_after(&events, protocol, None)
                }
                Protocol::Custom | Protocol::Agui => offline(&events, protocol),
            };
            assert!(
                whole.starts_with(&body),
                "round {round}: {run_id} lost what a client had seen\n{body}\n---\n{whole}"
            );
            if body.contains("event: done\n") || body.contains("\"outcome\": \"success\"") {
                assert_eq!(run["status"], "finished", "round {round}: {run_id} was seen finished");
            }
            cut += u32::from(run["status"] == "uncertain" || run["status"] == "error");
            finished += u32::from(run["status"] == "finished");
            shown += u32::from(!body.is_empty());
            all.push(run_id);
        }
    }
    println!("{} runs: {cut} cut by a kill, {finished} finished, {shown} seen by a client", all.len());
    assert!(cut > 0 && shown > 0, "no run was killed in its middle: the test tests nothing");
    check_heads(&gateway.client, how);
    for run_id in &all {
        check_whole(&stored(&gateway.client, run_id));
    }
    assert!(all.len() as u32 >= how.rounds, "too few runs were started to mean anything: {}", all.len());
}

/// Starts a run, follows it until the gateway is gone, and gives what came: whole frames, as a client keeps them.
fn follow(
    client: &Client,
    agent: &str,
    conversation: &str,
    message: &str,
    protocol: Protocol,
    outputs: &AtomicUsize,
) -> Option<Seen> {
    let (run_id, response) = match protocol {
        Protocol::Canonical | Protocol::AguiSpec | Protocol::UiMessage => {
            let mut created = try_create(client, agent, conversation, message).ok()?;
            if created.status != 202 {
                return None; // the run of the round before was not over yet, or the gateway is about to go
            }
            let answer: Value = serde_json::from_slice(&created.try_bytes().ok()?).ok()?;
            let run_id = runs::text(&answer, "run_id");
            (
                run_id.clone(),
                client.try_send(
                    "GET",
                    &format!("/api/v1/runs/{run_id}/stream?protocol={protocol}"),
                    &[],
                    None,
                ),
            )
        }
        Protocol::Custom | Protocol::Agui => {
            let body = serde_json::json!({
                "agent_id": agent, "conversation_id": conversation, "message": message, "protocol": protocol.as_str(),
            });
            let headers = [("content-type", "application/json")];
            let path = "/api/v1/chat/stream/start";
            let response = client.try_send("POST", path, &headers, Some(body.to_string().as_bytes())).ok()?;
            (response.header("x-causeway-run-id")?.to_owned(), Ok(response))
        }
    };
    // The start was acknowledged: from here on the run must be found, whatever came of its stream.
    let mut body = Vec::new();
    if let Ok(mut response) = response {
        while let Ok(Some(chunk)) = response.chunk() {
            let is_start = body.is_empty() && protocol != Protocol::Custom;
            outputs.fetch_add(usize::from(!is_start), Ordering::Relaxed);
            body.extend_from_slice(&chunk.bytes);
        }
    }
    let body = String::from_utf8_lossy(&body).into_owned();
    let whole: String = frames(&body)
        .into_iter()
        .filter(|frame| frame.ends_with("\n\n") && !frame.starts_with(':'))
        .collect();
    Some(Seen { run_id, protocol, body: whole })
}

/// Every run has one terminal, and in each conversation the finished runs have the revisions 1, 2, 3, …: the next run,
/// started here, builds on the head of the last.
fn check_heads(client: &Client, how: &Torment<'_>) {
    let mut finished: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let mut query = "?limit=500".to_owned();
    loop {
        let page = runs::value(client.get(&format!("/api/v1/runs{query}")));
        for run in page["runs"].as_array().unwrap() {
            let events = stored(client, run["run_id"].as_str().unwrap());
            check_whole(&events);
            let revisions = finished.entry(runs::text(run, "conversation_id")).or_default();
            if let Some(revision) = revision(&events) {
                revisions.push(revision);
            }
        }
        match page["next"].as_str() {
            Some(next) => query = format!("?limit=500&cursor={next}"),
            None => break,
        }
    }
    for (conversation, revisions) in &mut finished {
        revisions.reverse();
        let expected: Vec<u64> = (1..=revisions.len() as u64).collect();
        assert_eq!(*revisions, expected, "the heads of {conversation}");
    }
    let heads = finished.get("through").map_or(0, |revisions| revisions.len() as u64);
    let response = say(client, how.agent, "through", Protocol::Custom, how.messages[0]);
    let run_id = response.run_id();
    response.bytes();
    ended(client, &run_id);
    assert_eq!(revision(&stored(client, &run_id)), Some(heads + 1), "a finished run was without its head");
}

fn revision(events: &[String]) -> Option<u64> {
    let last: Value = serde_json::from_str(events.last()?).ok()?;
    last["data"]["thread_state"]["durable_revision"].as_u64()
}

/// Numbers between 0 and 1, repeatable by their seed.
struct Random(u64);

impl Random {
    fn seeded() -> Self {
        let given = std::env::var("CAUSEWAY_KILL_SEED").ok().and_then(|text| text.parse().ok());
        let seed = given.unwrap_or_else(|| {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
            u64::from(now.subsec_nanos()) ^ now.as_secs()
        });
        println!("CAUSEWAY_KILL_SEED={seed}");
        Self(seed)
    }

    /// xorshift64*, which needs a state that is not zero.
    fn fraction(&mut self) -> f64 {
        self.0 = self.0.max(1);
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let bits = u32::try_from(self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32).unwrap_or(0);
        f64::from(bits) / f64::from(u32::MAX)
    }
}

#[test]
fn a_gateway_that_is_killed_at_random_moments_loses_nothing_it_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let settings = recorded_agents(&[("slow", "subagents_parallel", "4ms", "")]);
    let how = Torment {
        settings: &settings,
        agent: "slow",
        messages: &["hello", "again"],
        rounds: rounds(20),
        longest: Duration::from_millis(1200),
    };
    torment(dir.path(), &how, |_| {});
}
