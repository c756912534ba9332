//! Decoding one run of about 250 events, shaped like the workload of `tests/data/bench/gen_w1.py`, beside an owned
//! typed serde_json parse of the same lines, and writing it back.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)] // criterion's macros; benches may fail loudly

use causeway_contract::decode::decode_line;
use causeway_contract::{Event, Limits};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// The lines of one run: mostly deltas of a dozen characters, a few tool calls with long results.
fn lines() -> Vec<String> {
    let mut lines = Vec::new();
    let mut push = |event_type: &str, namespace: &str, data: String| {
        let sequence = lines.len();
        lines.push(format!(
            r#"{{"version":1,"type":"{event_type}","run_id":"run-0123456789abcdef0123456789abcdef","conversation_id":"conv-6c1d0a4e-1111-4222-a333-123456789abc","sequence":{sequence},"timestamp":"2026-08-17T00:00:00.{:03}Z","namespace":{namespace},"data":{data}}}"#,
            sequence % 1000
        ));
    };
    let message = "msg-6c1d0a4e-1111-4222-a333-00000000";
    let deltas = [
        "the cluster ",
        "größe of ",
        "deployment ",
        "\\n\\nnode ",
        "\\\"pod\\\": ",
        "rollout of ",
        "日本語 in ",
    ];
    push("run.started", "[]", r#"{"harness_id":"deepagents","adapter_version":"1.4.0"}"#.to_owned());
    for index in 0..3 {
        let (namespace, kind) = match index {
            0 => ("[]", "reasoning"),
            1 => (r#"["call_0123456789abcdef01234567"]"#, "text"),
            _ => ("[]", "text"),
        };
        let call = format!(r#""tool_call_id":"call_0123456789abcdef0123456{index}""#);
        let note = "window of the leader shard ".repeat(10);
        push(
            "tool.started",
            "[]",
            format!(
                r#"{{{call},"tool_name":"search_docs","arguments":{{"query":"{note}","limit":20,"filters":["a","b"]}}}}"#
            ),
        );
        push(
            "tool.finished",
            "[]",
            format!(r#"{{{call},"result":"{}"}}"#, r#"{\"id\":\"0a\",\"name\":\"node\"},"#.repeat(40)),
        );
        push(
            &format!("{kind}.started"),
            namespace,
            format!(r#"{{"message_id":"{message}{index}","role":"assistant"}}"#),
        );
        for delta in deltas.iter().cycle().take([30, 40, 150][index]) {
            push(
                &format!("{kind}.delta"),
                namespace,
                format!(r#"{{"message_id":"{message}{index}","delta":"{delta}"}}"#),
            );
        }
        push(&format!("{kind}.finished"), namespace, format!(r#"{{"message_id":"{message}{index}"}}"#));
    }
    push(
        "usage.updated",
        "[]",
        r#"{"input_tokens":900,"output_tokens":80,"cost":null,"final":true}"#.to_owned(),
    );
    lines
}

/// What a program without this crate would write: owned strings, the payload by its type.
#[derive(Deserialize)]
#[allow(dead_code)] // only parsed
struct Envelope {
    version: u8,
    #[serde(rename = "type")]
    kind: String,
    run_id: String,
    conversation_id: String,
    sequence: u64,
    timestamp: String,
    namespace: Vec<String>,
    data: Box<RawValue>,
}

#[derive(Deserialize)]
#[allow(dead_code)] // only parsed
struct Delta {
    message_id: String,
    delta: String,
}

#[derive(Deserialize)]
#[allow(dead_code)] // only parsed
struct Finished {
    tool_call_id: String,
    result: String,
}

#[allow(dead_code)] // only parsed
enum Payload {
    Delta(Delta),
    Finished(Finished),
    Other(Value),
}

fn owned(line: &str) -> (Envelope, Payload) {
    let envelope: Envelope = serde_json::from_str(line).unwrap();
    let data = envelope.data.get();
    let payload = match envelope.kind.as_str() {
        "text.delta" | "reasoning.delta" => Payload::Delta(serde_json::from_str(data).unwrap()),
        "tool.finished" => Payload::Finished(serde_json::from_str(data).unwrap()),
        _ => Payload::Other(serde_json::from_str(data).unwrap()),
    };
    (envelope, payload)
}

fn decode(c: &mut Criterion) {
    let lines = lines();
    let limits = Limits::DEFAULT;
    let events: Vec<Event<'_>> =
        lines.iter().map(|line| decode_line(line.as_bytes(), &limits).expect("a legal line")).collect();
    let mut group = c.benchmark_group("run");
    group.throughput(Throughput::Bytes(lines.iter().map(|line| line.len() as u64).sum()));
    group.bench_function("decode", |b| {
        b.iter(|| lines.iter().filter(|line| decode_line(line.as_bytes(), &limits).is_ok()).count());
    });
    group.bench_function("serde_json owned", |b| {
        b.iter(|| lines.iter().map(|line| owned(line).0.sequence).sum::<u64>());
    });
    group.bench_function("write", |b| {
        let mut out = Vec::new();
        b.iter(|| {
            out.clear();
            events.iter().for_each(|event| event.write_json(&mut out));
            out.len()
        });
    });
    group.finish();
}

criterion_group!(benches, decode);
criterion_main!(benches);
