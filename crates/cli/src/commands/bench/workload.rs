//! The workload: runs of about 250 events, mostly short deltas, with three tool calls and one subagent each.
//!
//! Where `python3` is found, the generator that outside figures refer to makes it; else a small one of our own makes
//! runs of the same shape. The report says which.

use std::fmt::Write as _;
use std::fs;
use std::process::{Command, Stdio};

use anyhow::Context as _;
use causeway_contract::timestamp::Timestamp;
use serde_json::{Value, json};

/// A workload and where it comes from.
#[derive(Debug)]
pub struct Workload {
    /// Canonical JSONL.
    pub text: Vec<u8>,
    /// For the report.
    pub made_by: String,
}

const GENERATOR: &str = include_str!("../../../../../tests/data/bench/gen_w1.py");

/// Makes a workload of about so many events.
///
/// # Errors
/// What `python3` wrote cannot be read.
pub fn make(events: u32) -> anyhow::Result<Workload> {
    let path = std::env::temp_dir().join(format!("causeway-bench-{}.jsonl", std::process::id()));
    let made = Command::new("python3")
        .args(["-c", GENERATOR])
        .arg(&path)
        .args(["--events", &events.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    let text = if made { Some(fs::read(&path).context("cannot read what gen_w1.py wrote")?) } else { None };
    let _nothing_to_remove = fs::remove_file(&path);
    Ok(match text {
        Some(text) => Workload { text, made_by: format!("gen_w1.py --events {events} --seed 1") },
        None => {
            Workload { text: generated(events), made_by: "the built-in generator (no python3)".to_owned() }
        }
    })
}

/// A workload of our own; the same every time.
pub fn generated(events: u32) -> Vec<u8> {
    let mut generator = Generator { state: 1, text: String::new(), events: 0 };
    let mut run = 0;
    while generator.events < events {
        generator.run(run);
        run += 1;
    }
    generator.text.into_bytes()
}

const WORDS: &[&str] = &[
    "the",
    "of",
    "and",
    "to",
    "in",
    "service",
    "cluster",
    "deployment",
    "pipeline",
    "latency",
    "error",
    "budget",
    "rollout",
    "replica",
    "queue",
    "cache",
    "region",
    "alert",
    "incident",
    "commit",
    "branch",
    "token",
    "policy",
    "route",
    "trace",
    "metric",
    "dashboard",
    "owner",
    "review",
    "restart",
    "scale",
    "window",
    "retry",
    "timeout",
];
const FOREIGN: &[&str] = &["naïve", "größe", "日本語", "数据", "→", "✓", "—", "😀", "Привет"];

struct Generator {
    state: u64,
    text: String,
    events: u32,
}

/// The envelope of the run that is being written.
struct Envelope {
    run_id: String,
    conversation_id: String,
    sequence: u64,
    millis: u64,
}

impl Generator {
    fn below(&mut self, bound: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 33) as usize % bound.max(1)
    }

    fn id(&mut self, prefix: &str) -> String {
        let mut id = prefix.to_owned();
        for _ in 0..4 {
            let part = self.below(1 << 24);
            let _fits = write!(id, "{part:06x}");
        }
        id
    }

    fn word(&mut self) -> &'static str {
        let words = if self.below(25) == 0 { FOREIGN } else { WORDS };
        let at = self.below(words.len());
        words.get(at).copied().unwrap_or("the")
    }

    fn delta(&mut self) -> String {
        match self.below(50) {
            0 | 1 => format!("\n\n{} ", self.word()),
            2 => format!("\"{}\": ", self.word()),
            3 => format!("\\n`{}`\t", self.word()),
            _other_draws => {
                let mut text = format!("{} ", self.word());
                while text.chars().count() < 9 {
                    text.push_str(self.word());
                    text.push(' ');
                }
                text
            }
        }
    }

    fn prose(&mut self, chars: usize) -> String {
        let mut text = String::new();
        while text.chars().count() < chars {
            text.push_str(self.word());
            text.push(' ');
        }
        text
    }

    fn arguments(&mut self) -> Value {
        let labels = [self.word(), self.word(), self.word()];
        json!({
            "query": self.prose(140), "limit": self.below(200), "exact": self.below(2) == 0,
            "filters": { "namespace": self.word(), "labels": labels }, "note": self.prose(60),
        })
    }

    fn result(&mut self) -> String {
        let row = |g: &mut Self| json!({ "id": g.id(""), "name": g.word(), "ready": g.below(10) > 0, "age_s": g.below(1_000_000), "note": g.prose(50) });
        let rows: Vec<Value> = (0..9).map(|_| row(self)).collect();
        json!(rows).to_string()
    }

    fn event(&mut self, envelope: &mut Envelope, namespace: &[&str], kind: &str, data: &Value) {
        envelope.millis += self.below(40) as u64;
        let seconds = i64::try_from(envelope.millis / 1000).unwrap_or_default();
        let nanos = u32::try_from(envelope.millis % 1000).unwrap_or_default() * 1_000_000;
        let event = json!({
            "version": 1, "type": kind, "run_id": envelope.run_id, "conversation_id": envelope.conversation_id,
            "sequence": envelope.sequence, "timestamp": Timestamp::from_unix(seconds, nanos).to_string(),
            "namespace": namespace, "data": data,
        });
        let _fits = writeln!(self.text, "{event}");
        envelope.sequence += 1;
        self.events += 1;
    }

    fn message(&mut self, at: &mut Envelope, namespace: &[&str], kind: &str, id: &str, deltas: usize) {
        let start = match kind {
            "text" => json!({ "message_id": id, "role": "assistant" }),
            _reasoning => json!({ "message_id": id }),
        };
        self.event(at, namespace, &format!("{kind}.started"), &start);
        for _ in 0..deltas {
            let delta = json!({ "message_id": id, "delta": self.delta() });
            self.event(at, namespace, &format!("{kind}.delta"), &delta);
        }
        self.event(at, namespace, &format!("{kind}.finished"), &json!({ "message_id": id }));
    }

    fn run(&mut self, number: u64) {
        let at = &mut Envelope {
            run_id: self.id("run-"),
            conversation_id: self.id("conv-"),
            sequence: 0,
            millis: 1_786_924_800_000 + number * 1000,
        };
        let root = self.id("msg-");
        let started = json!({
            "message_id": root, "harness_id": "deepagents", "adapter_version": "1.4.0",
            "provider_run_id": self.id("prov-"),
        });
        self.event(at, &[], "run.started", &started);
        let metadata = json!({ "provider": "example", "model": "example-large-2", "metadata": { "region": "eu-1", "attempt": 1 } });
        self.event(at, &[], "provider.metadata", &metadata);
        let (thinking, deltas) = (self.id("rsn-"), 25 + self.below(11));
        self.message(at, &[], "reasoning", &thinking, deltas);
        self.whole_call(at, &root);
        self.streamed_call(at);
        self.delegation(at);
        let deltas = 130 + self.below(41);
        self.message(at, &[], "text", &root, deltas);
        if self.below(10) == 0 {
            let warning = json!({ "code": "mcp_server_unavailable", "message": "A tool server did not answer", "details": { "server": "docs" } });
            self.event(at, &[], "warning", &warning);
        }
        let usage = json!({ "input_tokens": self.below(9000), "output_tokens": self.below(2000), "cached_input_tokens": self.below(400), "cost": null, "currency": null, "final": true });
        self.event(at, &[], "usage.updated", &usage);
        let finished = json!({
            "outcome": "success", "stop_reason": "end_turn",
            "thread_state": { "durability": "committed", "durable_revision": number + 1, "head_ref": self.id("head-") },
        });
        self.event(at, &[], "run.finished", &finished);
    }

    fn whole_call(&mut self, at: &mut Envelope, root: &str) {
        let call = self.id("call_");
        let started = json!({ "tool_call_id": call, "tool_name": "search_docs", "arguments": self.arguments(), "parent_message_id": root });
        self.event(at, &[], "tool.started", &started);
        let finished = json!({ "tool_call_id": call, "result": self.result() });
        self.event(at, &[], "tool.finished", &finished);
    }

    fn streamed_call(&mut self, at: &mut Envelope) {
        let call = self.id("call_");
        self.event(
            at,
            &[],
            "tool.started",
            &json!({ "tool_call_id": call, "tool_name": "list_pods", "arguments": {} }),
        );
        let arguments: Vec<char> = self.arguments().to_string().chars().collect();
        for piece in arguments.chunks(40) {
            let delta = json!({ "tool_call_id": call, "delta": piece.iter().collect::<String>() });
            self.event(at, &[], "tool.arguments.delta", &delta);
        }
        let finished =
            json!({ "tool_call_id": call, "result": self.result(), "result_ref": self.id("ref-") });
        self.event(at, &[], "tool.finished", &finished);
    }

    fn delegation(&mut self, at: &mut Envelope) {
        let call = self.id("call_");
        let arguments = json!({ "subagent_type": "researcher", "description": self.prose(250) });
        self.event(
            at,
            &[],
            "tool.started",
            &json!({ "tool_call_id": call, "tool_name": "task", "arguments": arguments }),
        );
        let (child, agent) = ([call.as_str()], self.id("agent-"));
        let entered = json!({ "agent_id": agent, "agent_name": "Researcher", "parent_tool_call_id": call });
        self.event(at, &child, "namespace.entered", &entered);
        let (message, deltas) = (self.id("msg-"), 35 + self.below(11));
        self.message(at, &child, "text", &message, deltas);
        let exited = json!({ "agent_id": agent, "parent_tool_call_id": call, "outcome": "success" });
        self.event(at, &child, "namespace.exited", &exited);
        let finished = json!({ "tool_call_id": call, "result": self.prose(1500) });
        self.event(at, &[], "tool.finished", &finished);
    }
}
