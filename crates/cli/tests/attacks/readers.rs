//! Readers that take nothing: they cost neither the run nor the gateway anything, and are cut off in time.

use std::io::Read as _;
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::gateway::{Gateway, eventually, recorded_agents};
use crate::site::{MIB, connect, counted, large_recording, peak, sent, serves};

/// Pieces of 8 KiB: more than the buffers of a connection hold, below the bounds of a run.
const PIECES: usize = 3_000;

fn gateway(dir: &std::path::Path, server: &str) -> Gateway {
    let large = large_recording(dir, PIECES);
    let live = recorded_agents(&[("live", "subagents_parallel", "20ms", "")]);
    let settings = format!(
        "[server]\n{server}\n[agents.large]\nharness = \"deepagents\"\n[agents.large.driver.recording]\nfile = {large:?}\npace = \"fast\"\n[agents.large.limits]\nmessage_text_bytes = \"32MiB\"\n{live}"
    );
    Gateway::start(dir, &settings)
}

fn start(gateway: &Gateway, agent: &str, conversation: &str) -> String {
    let body = json!({"agent_id": agent, "conversation_id": conversation, "message": "hi"});
    let started = gateway.client.post("/api/v1/runs", &body.to_string());
    assert_eq!(started.status, 202);
    let run: Value = serde_json::from_str(&started.text()).unwrap();
    run["run_id"].as_str().unwrap().to_owned()
}

fn finished(gateway: &Gateway, run: &str) {
    eventually("the run finishes", || {
        let shown = gateway.client.get(&format!("/api/v1/runs/{run}")).text();
        let shown: Value = serde_json::from_str(&shown).unwrap();
        (shown["status"] != "running").then(|| assert_eq!(shown["status"], "finished", "{shown}"))
    });
}

/// Asks for the stream of a run, reads how the answer begins, and then takes nothing any more.
fn stalled(gateway: &Gateway, run: &str) -> TcpStream {
    let request = format!("GET /api/v1/runs/{run}/stream HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n");
    let mut stream = sent(gateway, request.as_bytes());
    let mut start = [0; 15];
    stream.read_exact(&mut start).unwrap();
    assert_eq!(&start, b"HTTP/1.1 200 OK");
    stream
}

#[test]
fn a_reader_that_takes_nothing_is_cut_off_and_comes_back_by_cursor() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = gateway(dir.path(), "write_timeout = \"1s\"");
    let run = start(&gateway, "large", "c");
    let readers: Vec<_> = (0..3).map(|_| stalled(&gateway, &run)).collect();
    finished(&gateway, &run);
    eventually("they are cut off", || {
        (counted(&gateway, "causeway_connections_cut_total{why=\"write\"}") == 3).then_some(())
    });
    drop(readers);
    // The run has all its events, for one who reads.
    let whole = gateway.client.get(&format!("/api/v1/runs/{run}/stream")).bytes();
    assert!(whole.len() > PIECES * 8 * 1024);
    serves(&gateway);
}

/// The peak of a gateway's memory with so many readers that stall beside `live` runs, all of which must finish.
fn peak_beside(readers: usize, live: usize, rounds: usize) -> u64 {
    let dir = tempfile::tempdir().unwrap();
    // The stalled ones are to stay.
    let gateway = gateway(dir.path(), "write_timeout = \"1h\"");
    let large = start(&gateway, "large", "large");
    finished(&gateway, &large);
    let kept: Vec<_> = (0..readers).map(|_| stalled(&gateway, &large)).collect();
    for round in 0..rounds {
        let runs: Vec<String> =
            (0..live).map(|at| start(&gateway, "live", &format!("c{round}-{at}"))).collect();
        let more: Vec<_> = runs.iter().take(readers).map(|run| stalled(&gateway, run)).collect();
        serves(&gateway);
        for run in &runs {
            finished(&gateway, run);
        }
        drop(more);
    }
    let open = connect(&gateway);
    assert_eq!(counted(&gateway, "causeway_connections_cut_total{why=\"write\"}"), 0);
    drop((kept, open));
    peak(&gateway)
}

/// Ten rounds of it where `CAUSEWAY_STALLED_LONG` is set.
#[test]
fn ten_stalled_readers_beside_a_hundred_live_runs_cost_less_than_64_mib() {
    let rounds = if std::env::var_os("CAUSEWAY_STALLED_LONG").is_some() { 10 } else { 1 };
    let without = peak_beside(0, 100, rounds);
    let with = peak_beside(10, 100, rounds);
    eprintln!(
        "stalled readers: {rounds} rounds of 100 live runs, peak {} MiB with 10 stalled readers, {} MiB without",
        with / MIB,
        without / MIB
    );
    assert!(with < without + 64 * MIB);
}
